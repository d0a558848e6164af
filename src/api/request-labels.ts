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

const FLAVORS: Readonly<Record<string, string>> = {
  "HTTP/1.0": "1.0",
  "HTTP/1.1": "1.1",
  "HTTP/2": "2.0",
  "HTTP/3": "3.0",
};

function flavor(protocol: string): string {
  return Object.hasOwn(FLAVORS, protocol) ? (FLAVORS[protocol] ?? protocol) : protocol;
}

/** What is known about one set of header names, worked out when a request has just that set. */
interface Shape {
  readonly next: Map<number, Shape>;
  known: ShapeFacts | undefined;
}

interface ShapeFacts {
  readonly keys: KeyList;
  /** Two different names spell one label. */
  readonly collides: boolean;
}

/** Most bytes, about, that are kept; beyond them all is forgotten and what is common soon known again. */
export const MAX_SHAPE_BYTES = 4 * 1024 * 1024;
/** What one node of the tree takes, its map included. */
const NODE_BYTES = 320;
/** What one name takes besides its characters, which are there as text, in binary and in JSON. */
const NAME_BYTES = 64;
/** Requests with more headers are rare, and their shapes rarer. */
const MAX_SHAPED_HEADERS = 64;

/** Finds the shape of a request by the ids of its header names, in whatever order they came. */
export class Shapes {
  #roots = new Map<DoorLabels, Shape>();
  #bytes = 0;
  /** Ids of the request at hand, sorted; used again for the next. */
  readonly #ids = new Int32Array(MAX_SHAPED_HEADERS);

  of(door: DoorLabels, names: readonly HeaderName[]): ShapeFacts {
    if (names.length > MAX_SHAPED_HEADERS) return describe(door, names);
    const ids = this.#ids;
    let count = 0;
    for (let at = 0; at < names.length; at++) {
      const id = names[at]?.id ?? -1;
      if (id < 0) return describe(door, names);
      count = insert(ids, count, id);
    }
    let shape = this.#roots.get(door) ?? this.#add(this.#roots, door);
    for (let at = 0; at < count; at++) {
      const id = ids[at] ?? 0;
      shape = shape.next.get(id) ?? this.#add(shape.next, id);
    }
    return shape.known ?? this.#learn(shape, describe(door, names));
  }

  #learn(shape: Shape, facts: ShapeFacts): ShapeFacts {
    shape.known = facts;
    for (const key of facts.keys.keys) this.#bytes += 3 * key.length + NAME_BYTES;
    if (this.#bytes > MAX_SHAPE_BYTES) {
      this.#roots = new Map();
      this.#bytes = 0;
    }
    return facts;
  }

  #add<Key>(to: Map<Key, Shape>, key: Key): Shape {
    const shape: Shape = { next: new Map(), known: undefined };
    to.set(key, shape);
    this.#bytes += NODE_BYTES;
    return shape;
  }
}

/** Keeps the first `count` ids sorted and single; short lists, so insertion is the cheapest sort. */
function insert(ids: Int32Array, count: number, id: number): number {
  let at = count;
  while (at > 0 && (ids[at - 1] ?? 0) > id) at--;
  if (at > 0 && ids[at - 1] === id) return count;
  ids.copyWithin(at + 1, at, count);
  ids[at] = id;
  return count + 1;
}

function describe(door: DoorLabels, names: readonly HeaderName[]): ShapeFacts {
  const spellings = new Map<string, string>();
  let collides = false;
  for (const { pseudo, label, lower } of names) {
    if (pseudo) continue;
    const other = spellings.get(label);
    if (other !== undefined && other !== lower) collides = true;
    spellings.set(label, lower);
  }
  const labels = Array.from(spellings.keys(), (label) => HEADER_PREFIX + label);
  return { keys: new KeyList([...FIXED[door], ...labels].sort()), collides };
}

/** The labels that one HTTP request arrives with. */
export class RequestLabels implements LabelSource {
  readonly #request: RequestView;
  readonly #headers: HeaderList;
  readonly #door: DoorLabels;
  readonly #source: string;
  readonly #destination: string;
  readonly #observer: Observer;
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

  /** Whether all labels come from the request itself: then `keys` and `telemetry` are complete. */
  get plain(): boolean {
    return this.#fromBaggage().labels.size === 0;
  }

  /** Sorted names of the request's own labels. Counts two headers that spell one label. */
  keys(shapes: Shapes): KeyList {
    const shape = shapes.of(this.#door, this.#headers.names);
    if (shape.collides) this.#observer.odd("header_collision");
    return shape.keys;
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
