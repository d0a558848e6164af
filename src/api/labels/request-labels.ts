// The labels of an HTTP request: values are read from the request when a rule asks for them, and names come from
// the cache of label names.

import {
  HEADER_PREFIX,
  isReserved,
  type LabelKey,
  type LabelOrigin,
  type LabelSource,
  type LabelVisitor,
} from "#flow/label.ts";
import type { Observer } from "#flow/observer.ts";
import {
  type HeaderList,
  headerByLabel,
  headerByName,
  headersByLabel,
} from "#wire/check/headers.ts";
import type { KeyList } from "#wire/check/response.ts";
import {
  ATTRIBUTE_NAMES,
  type AttributeSet,
  DESTINATION_LABEL,
  flavorOf,
  SOURCE_LABEL,
} from "./attributes.ts";
import { type BaggageIn, extractBaggage, MAX_BAGGAGE_BYTES } from "./baggage.ts";
import type { LabelNameCache } from "./label-name-cache.ts";

/** The parts of a request that become labels. */
interface RequestAttributes {
  readonly method: string;
  readonly path: string;
  readonly host: string;
  readonly scheme: string;
  readonly protocol: string;
  /** Size of the body as decimal text. */
  readonly sizeText: string;
}

/** The labels that an HTTP request has before classification. */
export class RequestLabels implements LabelSource {
  readonly #request: RequestAttributes;
  readonly #headers: HeaderList;
  readonly #observer: Observer;
  /** Longest baggage header that is read, in bytes. */
  readonly maxBaggage: number;
  #attributeSet: AttributeSet;
  #source: string;
  #destination: string;
  #baggage: BaggageIn | undefined;

  /** `source` and `destination` are the values of the service labels. */
  constructor(
    request: RequestAttributes,
    headers: HeaderList,
    attributes: AttributeSet,
    source: string,
    destination: string,
    observer: Observer,
    maxBaggage = MAX_BAGGAGE_BYTES,
  ) {
    this.#request = request;
    this.#headers = headers;
    this.#attributeSet = attributes;
    this.#source = source;
    this.#destination = destination;
    this.#observer = observer;
    this.maxBaggage = maxBaggage;
  }

  /** Prepares the object for the next request, which is in the same `request` and `headers` objects. */
  reset(attributes: AttributeSet, source: string, destination: string): void {
    this.#attributeSet = attributes;
    this.#source = source;
    this.#destination = destination;
    this.#baggage = undefined;
  }

  get(key: LabelKey): string | undefined {
    if (key.header !== undefined) return headerByLabel(this.#headers, key.header);
    return this.#attribute(key.name) ?? this.#fromBaggage().labels.get(key.name);
  }

  origin(key: LabelKey): LabelOrigin | undefined {
    if (this.get(key) === undefined) return undefined;
    return isReserved(key.name) ? "attribute" : "baggage";
  }

  #attribute(name: string): string | undefined {
    if (name === SOURCE_LABEL) return this.#source;
    if (name === DESTINATION_LABEL) return this.#destination;
    if (this.#attributeSet === "none") return undefined;
    switch (name) {
      case "http.method":
        return this.#request.method;
      case "http.target":
        return this.#request.path;
      case "http.path":
        return this.#attributeSet === "proxy" ? this.#request.path : undefined;
      case "http.host":
        return this.#request.host;
      case "http.scheme":
        return this.#request.scheme;
      case "http.request_content_length":
        return this.#request.sizeText;
      case "http.flavor":
        return flavorOf(this.#request.protocol);
      default:
        return undefined;
    }
  }

  each(visit: LabelVisitor): void {
    for (const name of ATTRIBUTE_NAMES[this.#attributeSet]) {
      const value = this.#attribute(name) ?? "";
      visit(name, value, name !== "http.request_content_length", "attribute");
    }
    for (const [label, value] of headersByLabel(this.#headers)) {
      visit(HEADER_PREFIX + label, value, false, "attribute");
    }
    for (const [name, value] of this.#fromBaggage().labels) visit(name, value, true, "baggage");
  }

  /**
   * Sorted names of all labels; undefined when baggage adds labels. Counts an anomaly when two headers give the
   * same label.
   */
  keys(cache: LabelNameCache): KeyList | undefined {
    const { keys, collides, hasBaggage } = cache.get(this.#attributeSet, this.#headers.names);
    if (collides) this.#observer.anomaly("header_collision");
    return hasBaggage && this.#fromBaggage().labels.size > 0 ? undefined : keys;
  }

  /** Alternating names and values of the labels that go to telemetry, without baggage. */
  telemetry(): string[] {
    const pairs = [SOURCE_LABEL, this.#source, DESTINATION_LABEL, this.#destination];
    if (this.#attributeSet === "none") return pairs;
    const { method, path, host, scheme, protocol } = this.#request;
    pairs.push("http.method", method, "http.target", path, "http.host", host);
    pairs.push("http.scheme", scheme, "http.flavor", flavorOf(protocol));
    if (this.#attributeSet === "proxy") pairs.push("http.path", path);
    return pairs;
  }

  /** The baggage header as received. */
  get baggageHeader(): string | undefined {
    return headerByName(this.#headers, "baggage");
  }

  /** Parses the header on first use. Counts an anomaly when it is dropped or has reserved names. */
  #fromBaggage(): BaggageIn {
    if (this.#baggage !== undefined) return this.#baggage;
    const header = this.baggageHeader;
    const baggage = header === undefined ? NO_BAGGAGE : extractBaggage(header, this.maxBaggage);
    if (baggage === undefined) this.#observer.anomaly("baggage_dropped");
    else if (baggage.reserved > 0) this.#observer.anomaly("baggage_reserved");
    this.#baggage = baggage ?? NO_BAGGAGE;
    return this.#baggage;
  }
}

const NO_BAGGAGE: BaggageIn = { labels: new Map(), reserved: 0 };
