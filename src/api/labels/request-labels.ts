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
import { type Baggage, NO_BAGGAGE, readBaggage } from "./baggage.ts";
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
  #baggage: Baggage | undefined;

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
  }

  get(key: LabelKey): string | undefined {
    if (key.header !== undefined) return headerByLabel(this.#headers, key.header);
    if (!key.baggage) return this.#attribute(key.name);
    return this.#trust.believes(key.name) ? this.#believed().get(key.name) : undefined;
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
    const shown = new Map<string, string>();
    // From the end, because of repeated members the last one counts.
    for (let member = baggage.count - 1; member >= 0 && shown.size < MAX_SHOWN; member--) {
      const name = baggage.key(member);
      if (shown.has(name) || isReserved(name) || !this.#trust.believes(name)) continue;
      shown.set(name, baggage.value(member));
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

  /** Reads the header on first use. Counts an anomaly when it is dropped or has reserved names. */
  #believed(): Baggage {
    if (this.#baggage !== undefined) return this.#baggage;
    const believed = this.#trust.enabled && this.#baggageBelieved;
    const header = believed ? this.#baggageHeader : undefined;
    const baggage = header === undefined ? NO_BAGGAGE : readBaggage(header, this.#trust.maxBytes);
    if (baggage === undefined) this.#observer.anomaly("baggage_dropped");
    else if (baggage.hasReserved) this.#observer.anomaly("baggage_reserved");
    this.#baggage = baggage ?? NO_BAGGAGE;
    return this.#baggage;
  }
}

/** A reply costs time for each label that it lists, so baggage must not choose how many these are. */
const MAX_SHOWN = 16;
