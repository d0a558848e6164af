// The labels of an HTTP request: read off the request when somebody asks, with the reply's sorted list of
// their names kept per set of headers, since requests look alike.

import {
  isReserved,
  type LabelKey,
  type LabelSource,
  type LabelVisitor,
  type Origin,
} from "#flow/label.ts";
import type { Observer } from "#flow/observe.ts";
import { KeyList } from "#wire/check-response.ts";
import {
  type HeaderList,
  type HeaderName,
  headerByLabel,
  headerByName,
  headersByLabel,
} from "#wire/headers.ts";
import { type BaggageIn, extractBaggage } from "./baggage.ts";

export interface RequestView {
  readonly method: string;
  readonly path: string;
  readonly host: string;
  readonly scheme: string;
  readonly protocol: string;
  readonly sizeText: string;
}

/** Which labels a door makes besides those of headers. */
export type DoorLabels = "proxy" | "described" | "none";

export const SOURCE_LABEL = "aperture.source_fqdns";
export const DESTINATION_LABEL = "aperture.destination_fqdns";
const HEADER_PREFIX = "http.request.header.";
const BAGGAGE = "baggage";
const SERVICE_LABELS: readonly string[] = [SOURCE_LABEL, DESTINATION_LABEL];
const DESCRIBED_LABELS: readonly string[] = [
  ...SERVICE_LABELS,
  "http.method",
  "http.target",
  "http.host",
  "http.scheme",
  "http.request_content_length",
  "http.flavor",
];

/** Label names that do not depend on headers. Only the proxy's door has ever had `http.path`. */
const FIXED: Readonly<Record<DoorLabels, readonly string[]>> = {
  proxy: [...DESCRIBED_LABELS, "http.path"],
  described: DESCRIBED_LABELS,
  none: SERVICE_LABELS,
};

/** Protocols that the label spells otherwise. */
export const FLAVORS: Readonly<Record<string, string>> = {
  "HTTP/1.1": "1.1",
  "HTTP/2": "2.0",
  "HTTP/3": "3.0",
  "HTTP/1.0": "1.0",
};

function flavor(protocol: string): string {
  return Object.hasOwn(FLAVORS, protocol) ? (FLAVORS[protocol] ?? protocol) : protocol;
}

/** What is known about one set of header names, worked out when a request has just that set. */
interface Shape {
  /** Sorted names of the labels. */
  readonly keys: KeyList;
  /** Two different names spell one label. */
  readonly collides: boolean;
  readonly hasBaggage: boolean;
}

interface Kept {
  readonly hi: number;
  readonly shape: Shape;
}

/** Most bytes, about, that are kept; beyond them all is forgotten and what is common soon known again. */
export const MAX_SHAPE_BYTES = 4 * 1024 * 1024;
/** What one shape takes besides its names, labels that hardly ever change in all their forms included. */
const SHAPE_BYTES = 1_280;
/** What one name takes besides its characters. */
const NAME_BYTES = 64;
/** Times that a character is kept: as text, in JSON, twice in binary, and in base64 by each place in three. */
const COPIES = 8;
/** Requests with more headers are rare, and their shapes rarer. */
const MAX_SHAPED_HEADERS = 64;
/** A power of two, so large that two names of one request rarely share a place. */
const RECENT = 256;

/**
 * Finds the shape of a request by its header names, in whatever order they came. A set of names is known
 * by the sums of their secret words, 64 bits in all: nobody outside can find two sets that are taken for one.
 */
export class Shapes {
  readonly #kept: Readonly<Record<DoorLabels, Map<number, Kept>>> = {
    proxy: new Map(),
    described: new Map(),
    none: new Map(),
  };
  #bytes = 0;
  /** Ids of the names met last and the request that had them: a name counts once. */
  readonly #ids = new Int32Array(RECENT).fill(-1);
  readonly #rounds = new Int32Array(RECENT);
  #round = 0;

  of(door: DoorLabels, names: readonly HeaderName[]): Shape {
    if (names.length > MAX_SHAPED_HEADERS) return describe(door, names);
    this.#round = (this.#round + 1) | 0;
    let lo = 0;
    let hi = 0;
    for (let at = 0; at < names.length; at++) {
      const name = names[at];
      if (name === undefined || name.id < 0) return describe(door, names);
      if (this.#again(name.id)) continue;
      lo = (lo + name.lo) | 0;
      hi = (hi + name.hi) | 0;
    }
    const kept = this.#kept[door].get(lo);
    return kept?.hi === hi ? kept.shape : this.#learn(door, lo, hi, describe(door, names));
  }

  /** Whether this request had the name already. Forgets some, which costs a shape of their own. */
  #again(id: number): boolean {
    const place = id & (RECENT - 1);
    if (this.#rounds[place] === this.#round && this.#ids[place] === id) return true;
    this.#rounds[place] = this.#round;
    this.#ids[place] = id;
    return false;
  }

  #learn(door: DoorLabels, lo: number, hi: number, shape: Shape): Shape {
    this.#bytes += SHAPE_BYTES;
    for (const key of shape.keys.keys) this.#bytes += COPIES * key.length + NAME_BYTES;
    if (this.#bytes > MAX_SHAPE_BYTES) {
      for (const kept of Object.values(this.#kept)) kept.clear();
      this.#bytes = 0;
    } else this.#kept[door].set(lo, { hi, shape });
    return shape;
  }
}

function describe(door: DoorLabels, names: readonly HeaderName[]): Shape {
  const spellings = new Map<string, string>();
  let collides = false;
  let hasBaggage = false;
  for (const { pseudo, label, lower } of names) {
    if (lower === BAGGAGE) hasBaggage = true;
    if (pseudo) continue;
    const other = spellings.get(label);
    if (other !== undefined && other !== lower) collides = true;
    spellings.set(label, lower);
  }
  const labels = Array.from(spellings.keys(), (label) => HEADER_PREFIX + label);
  return { keys: new KeyList([...FIXED[door], ...labels].sort()), collides, hasBaggage };
}

/** The labels that one HTTP request arrives with. */
export class RequestLabels implements LabelSource {
  readonly #request: RequestView;
  readonly #headers: HeaderList;
  readonly #observer: Observer;
  #door: DoorLabels;
  #source: string;
  #destination: string;
  #baggage: BaggageIn | undefined;

  /** `source` and `destination` are texts of the service labels. */
  constructor(
    request: RequestView,
    headers: HeaderList,
    door: DoorLabels,
    source: string,
    destination: string,
    observer: Observer,
  ) {
    this.#request = request;
    this.#headers = headers;
    this.#door = door;
    this.#source = source;
    this.#destination = destination;
    this.#observer = observer;
  }

  /** The same object for the next request, which came into the same view and headers. */
  again(door: DoorLabels, source: string, destination: string): void {
    this.#door = door;
    this.#source = source;
    this.#destination = destination;
    this.#baggage = undefined;
  }

  get(key: LabelKey): string | undefined {
    if (key.header !== undefined) return headerByLabel(this.#headers, key.header);
    return this.#attribute(key.name) ?? this.#fromBaggage().labels.get(key.name);
  }

  origin(key: LabelKey): Origin | undefined {
    if (this.get(key) === undefined) return undefined;
    return isReserved(key.name) ? "attribute" : "baggage";
  }

  #attribute(name: string): string | undefined {
    if (name === SOURCE_LABEL) return this.#source;
    if (name === DESTINATION_LABEL) return this.#destination;
    if (this.#door === "none") return undefined;
    switch (name) {
      case "http.method":
        return this.#request.method;
      case "http.target":
        return this.#request.path;
      case "http.path":
        return this.#door === "proxy" ? this.#request.path : undefined;
      case "http.host":
        return this.#request.host;
      case "http.scheme":
        return this.#request.scheme;
      case "http.request_content_length":
        return this.#request.sizeText;
      case "http.flavor":
        return flavor(this.#request.protocol);
      default:
        return undefined;
    }
  }

  each(visit: LabelVisitor): void {
    for (const name of FIXED[this.#door]) {
      const value = this.#attribute(name) ?? "";
      visit(name, value, name !== "http.request_content_length", "attribute");
    }
    for (const [label, value] of headersByLabel(this.#headers)) {
      visit(HEADER_PREFIX + label, value, false, "attribute");
    }
    for (const [name, value] of this.#fromBaggage().labels) visit(name, value, true, "baggage");
  }

  /**
   * Sorted names of the request's own labels; undefined where baggage adds some. Counts two headers that
   * spell one label.
   */
  keys(shapes: Shapes): KeyList | undefined {
    const shape = shapes.of(this.#door, this.#headers.names);
    if (shape.collides) this.#observer.odd("header_collision");
    return shape.hasBaggage && this.#fromBaggage().labels.size > 0 ? undefined : shape.keys;
  }

  /** Names and values, in turn, of the request's own labels that go to telemetry. */
  telemetry(): string[] {
    const pairs = [SOURCE_LABEL, this.#source, DESTINATION_LABEL, this.#destination];
    if (this.#door === "none") return pairs;
    const { method, path, host, scheme, protocol } = this.#request;
    pairs.push("http.method", method, "http.target", path, "http.host", host);
    pairs.push("http.scheme", scheme, "http.flavor", flavor(protocol));
    if (this.#door === "proxy") pairs.push("http.path", path);
    return pairs;
  }

  /** The baggage header as it came. */
  get baggageHeader(): string | undefined {
    return headerByName(this.#headers, "baggage");
  }

  /** Reads the header once; a dropped one is counted then. */
  #fromBaggage(): BaggageIn {
    if (this.#baggage !== undefined) return this.#baggage;
    const header = this.baggageHeader;
    const baggage = header === undefined ? NO_BAGGAGE : extractBaggage(header);
    if (baggage === undefined) this.#observer.odd("baggage_dropped");
    else if (baggage.reserved > 0) this.#observer.odd("baggage_reserved");
    this.#baggage = baggage ?? NO_BAGGAGE;
    return this.#baggage;
  }
}

const NO_BAGGAGE: BaggageIn = { labels: new Map(), reserved: 0 };
