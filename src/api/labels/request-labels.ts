// The labels of an HTTP request: values are read from the request when a rule asks for them, and names come from
// the cache of label names.

import {
  type ClassifierLabel,
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
import {
  ATTRIBUTE_NAMES,
  type AttributeSet,
  DESTINATION_LABEL,
  flavorOf,
  SOURCE_LABEL,
} from "./attributes.ts";
import { Baggage } from "./baggage.ts";
import type { BaggageTrust } from "./baggage-trust.ts";
import type { LabelNameCache, LabelNames } from "./label-name-cache.ts";
import { injectBaggage } from "./new-baggage.ts";

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
  readonly #trust: BaggageTrust;
  #attributeSet: AttributeSet;
  #source: string;
  #destination: string;
  #baggageBelieved = true;
  /** Undefined until something asks for it, and where there is none to believe. */
  #baggage: Baggage | undefined;
  #baggageRead = false;
  #baggageMalformed = false;

  /** `source` and `destination` are the values of the service labels. */
  constructor(
    request: RequestAttributes,
    headers: HeaderList,
    attributes: AttributeSet,
    source: string,
    destination: string,
    observer: Observer,
    trust: BaggageTrust,
  ) {
    this.#request = request;
    this.#headers = headers;
    this.#attributeSet = attributes;
    this.#source = source;
    this.#destination = destination;
    this.#observer = observer;
    this.#trust = trust;
  }

  /**
   * Prepares the object for the next request, which is in the same `request` and `headers` objects. The request's caller
   * may say that its baggage is not to be believed.
   */
  reset(
    attributes: AttributeSet,
    source: string,
    destination: string,
    baggageBelieved = true,
  ): void {
    this.#attributeSet = attributes;
    this.#source = source;
    this.#destination = destination;
    this.#baggageBelieved = baggageBelieved;
    this.#baggage = undefined;
    this.#baggageRead = false;
    this.#baggageMalformed = false;
  }

  get(key: LabelKey): string | undefined {
    if (key.header !== undefined) return headerByLabel(this.#headers, key.header);
    if (!key.baggage) return this.#attribute(key.name);
    return this.#trust.believes(key.name) ? this.#believed()?.get(key.name) : undefined;
  }

  origin(key: LabelKey): LabelOrigin | undefined {
    if (this.get(key) === undefined) return undefined;
    return key.baggage ? "baggage" : "attribute";
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
    for (const [name, value] of this.shownBaggage()) visit(name, value, true, "baggage");
  }

  /** The label names of the headers. Counts an anomaly when two headers give the same label. */
  names(cache: LabelNameCache): LabelNames {
    const names = cache.get(this.#attributeSet, this.#headers.names);
    if (names.collides) this.#observer.anomaly("header_collision");
    return names;
  }

  /** The labels of baggage that replies list: the last ones, because clients choose how many there are. */
  shownBaggage(): ReadonlyMap<string, string> {
    const baggage = this.#believed();
    if (baggage === undefined) return NO_LABELS;
    const shown = new Map<string, string>();
    baggage.rewind();
    // From the end, because of repeated members the last one counts.
    while (shown.size < MAX_SHOWN && baggage.next()) {
      const name = baggage.key;
      if (shown.has(name) || isReserved(name) || !this.#trust.believes(name)) continue;
      shown.set(name, baggage.value);
    }
    return shown;
  }

  /** Alternating names and values of the labels that go to telemetry, without those of baggage. */
  telemetry(): string[] {
    const pairs = [SOURCE_LABEL, this.#source, DESTINATION_LABEL, this.#destination];
    if (this.#attributeSet === "none") return pairs;
    const { method, path, host, scheme, protocol } = this.#request;
    pairs.push("http.method", method, "http.target", path, "http.host", host);
    pairs.push("http.scheme", scheme, "http.flavor", flavorOf(protocol));
    if (this.#attributeSet === "proxy") pairs.push("http.path", path);
    return pairs;
  }

  /** The baggage header for the service: that of the request with these labels added. Undefined where nothing changes. */
  newBaggage(made: readonly ClassifierLabel[]): string | undefined {
    return injectBaggage(this.#baggageHeader, made, this.#trust.maxBytes);
  }

  get #baggageHeader(): string | undefined {
    return headerByName(this.#headers, "baggage");
  }

  /** Finds the header on first use. Counts an anomaly when it is dropped, or has reserved names. */
  #believed(): Baggage | undefined {
    if (this.#baggageRead) return this.#baggage;
    this.#baggageRead = true;
    if (!this.#trust.enabled || !this.#baggageBelieved) return undefined;
    const header = this.#baggageHeader;
    if (header === undefined) return undefined;
    // Its length in UTF-16 units is that in bytes, because members with anything beyond ASCII are malformed.
    if (header.length > this.#trust.maxBytes) {
      this.#observer.anomaly("baggage_dropped");
      return undefined;
    }
    this.#baggage = new Baggage(header, () => this.#countMalformed());
    if (this.#baggage.hasReserved) this.#observer.anomaly("baggage_reserved");
    return this.#baggage;
  }

  /** Once for each request. */
  #countMalformed(): void {
    if (!this.#baggageMalformed) this.#observer.anomaly("baggage_malformed");
    this.#baggageMalformed = true;
  }
}

/** A reply costs time for each label that it lists, so baggage must not choose how many these are. */
const MAX_SHOWN = 8;

const NO_LABELS: ReadonlyMap<string, string> = new Map();
