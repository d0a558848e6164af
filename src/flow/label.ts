// Flow labels: their origins, the precedence of origins, and access by slot. Precedence, strongest first: attributes of the
// request and its sockets, classifiers, claims of an SDK, baggage. Baggage does not set `http.*` or `aperture.*`, so that
// clients cannot overwrite the attributes of the proxy. It does not set labels that classifiers make either, so that clients
// cannot choose their values by withholding the source.

import { decimalOf } from "#base/text/decimal.ts";
import type { Regex } from "./match/regex.ts";
import { WORK_PER_CHECK, type Work } from "./match/work.ts";

export type LabelOrigin = "attribute" | "classifier" | "claim" | "baggage";

/** A label that a plan reads. `header` is the name in `http.request.header.<name>`, lower case; undefined for other labels. */
export interface LabelKey {
  readonly name: string;
  readonly slot: number;
  readonly header: string | undefined;
  /** Baggage may set this label: it is not reserved, and no classifier at the control point makes it. */
  readonly baggage: boolean;
}

/** The labels that the rules of one control point read and make. */
export interface LabelSchema {
  /** By slot. */
  readonly keys: readonly LabelKey[];
  /** Names of the labels that classifiers make, whether or not they make a value for a given flow. */
  readonly classified: ReadonlySet<string>;
}

export const EMPTY_SCHEMA: LabelSchema = Object.freeze({ keys: [], classified: new Set<string>() });

export type LabelVisitor = (
  name: string,
  value: string,
  telemetry: boolean,
  origin: LabelOrigin,
) => void;

/** The labels with which a flow arrives. The source has applied the precedence of origins. */
export interface LabelSource {
  get(key: LabelKey): string | undefined;
  /** Origin of the value that `get` returns. */
  origin(key: LabelKey): LabelOrigin | undefined;
  /** Visits every label once, in no particular order. */
  each(visit: LabelVisitor): void;
}

/** Labels of every check, and then those of checks that describe an HTTP request. */
export const SERVICE_LABELS = ["aperture.source_fqdns", "aperture.destination_fqdns"] as const;
export const HTTP_LABELS = [
  "http.method",
  "http.target",
  "http.host",
  "http.scheme",
  "http.request_content_length",
  "http.flavor",
] as const;
/** Only checks of a proxy have this label. */
export const PATH_LABEL = "http.path";
export const HEADER_PREFIX = "http.request.header.";

const REQUEST_LABELS: ReadonlySet<string> = new Set([
  ...SERVICE_LABELS,
  ...HTTP_LABELS,
  PATH_LABEL,
]);
/** A header name (RFC 9110 §5.6.2) in a label: lower case, with `_` for `-`. */
const HEADER_NAME = /^[a-z\d!#$%&'*+.^_`|~]+$/;

/** True if a request can have a label of this name without a classifier, an SDK or baggage. */
export function isRequestLabel(name: string): boolean {
  if (!name.startsWith(HEADER_PREFIX)) return REQUEST_LABELS.has(name);
  return HEADER_NAME.test(name.slice(HEADER_PREFIX.length));
}

const RESERVED = /^(?:http|aperture)\./;

/** True if baggage must not set this label. */
export function isReserved(name: string): boolean {
  return RESERVED.test(name);
}

/** Assigns a slot to each label name, while the plan of a control point is compiled. */
export class LabelSlots {
  /** The regular expressions of the control point, by their text. */
  readonly regexes = new Map<string, Regex>();
  /** Names of the labels that classifiers of the control point make. */
  readonly classified: ReadonlySet<string>;
  readonly #keys: LabelKey[] = [];
  readonly #slots = new Map<string, number>();

  constructor(classified: ReadonlySet<string> = EMPTY_SCHEMA.classified) {
    this.classified = classified;
  }

  of(name: string): number {
    const known = this.#slots.get(name);
    if (known !== undefined) return known;
    const slot = this.#keys.length;
    const header = name.startsWith(HEADER_PREFIX) ? name.slice(HEADER_PREFIX.length) : undefined;
    const baggage = !isReserved(name) && !this.classified.has(name);
    this.#keys.push({ name, slot, header, baggage });
    this.#slots.set(name, slot);
    return slot;
  }

  /** The labels so far. The copy has no spare room, because there may be thousands of control points. */
  get schema(): LabelSchema {
    return Object.freeze({ keys: this.#keys.slice(), classified: this.classified });
  }
}

/** A label that a classifier set for this flow. */
export interface ClassifierLabel {
  readonly name: string;
  readonly value: string;
  readonly telemetry: boolean;
}

const UNREAD = Symbol("unread");

/** The labels of one check: values of the source by slot, each read once on demand, and the labels of classifiers. */
export class Labels implements Work {
  readonly source: LabelSource;
  readonly #schema: LabelSchema;
  readonly #values: (string | undefined | typeof UNREAD)[];
  /** The last result of `prefixed`, and its slot. */
  #prefixed = "";
  #prefixedSlot = -1;
  /** Created with the first label: most checks have none. */
  #classified: Map<string, ClassifierLabel> | undefined;
  /** Steps that regular expressions may still take for this check. */
  #work = WORK_PER_CHECK;

  constructor(schema: LabelSchema, source: LabelSource) {
    this.source = source;
    this.#schema = schema;
    const values = new Array<string | undefined | typeof UNREAD>(schema.keys.length);
    // There are few slots: a loop is faster than a call of `fill`.
    for (let slot = 0; slot < values.length; slot++) values[slot] = UNREAD;
    this.#values = values;
  }

  get(slot: number): string | undefined {
    const known = this.#values[slot];
    if (known !== UNREAD) return known;
    const key = this.#schema.keys[slot];
    const value = key === undefined ? undefined : this.source.get(key);
    this.#values[slot] = value;
    return value;
  }

  /**
   * The prefix and the value of a slot. Limiters with the same key label ask for the same text, so it is joined once per
   * check. Each slot must have only one prefix.
   */
  prefixed(slot: number, prefix: string): string {
    if (this.#prefixedSlot !== slot) {
      this.#prefixed = prefix + (this.get(slot) ?? "");
      this.#prefixedSlot = slot;
    }
    return this.#prefixed;
  }

  spend(steps: number): boolean {
    if (steps > this.#work / 2) return false;
    this.#work -= steps;
    return true;
  }

  origin(slot: number): LabelOrigin | undefined {
    const key = this.#schema.keys[slot];
    if (key === undefined) return undefined;
    return this.#classified?.has(key.name) ? "classifier" : this.source.origin(key);
  }

  /** Sets a classifier's label. A later one of the same name replaces an earlier one. */
  set(slot: number, value: string, telemetry: boolean): void {
    const key = this.#schema.keys[slot];
    if (key === undefined) return;
    this.#values[slot] = value;
    this.#prefixedSlot = -1;
    this.#classified ??= new Map();
    this.#classified.set(key.name, { name: key.name, value, telemetry });
  }

  /** Names of the labels that classifiers make, which baggage does not set. */
  get classified(): ReadonlySet<string> {
    return this.#schema.classified;
  }

  /** The labels that classifiers set in this check. */
  classifierLabels(): Iterable<ClassifierLabel> {
    return this.#classified?.values() ?? [];
  }

  get classifierLabelCount(): number {
    return this.#classified?.size ?? 0;
  }

  /** Visits every label of the flow once; labels set by classifiers replace others of the same name. */
  each(visit: LabelVisitor): void {
    const set = this.#classified;
    const { classified } = this.#schema;
    if (classified.size === 0) {
      this.source.each(visit);
      return;
    }
    this.source.each((name, value, telemetry, origin) => {
      const replaced = origin === "baggage" ? classified.has(name) : set?.has(name) === true;
      if (!replaced) visit(name, value, telemetry, origin);
    });
    if (set === undefined) return;
    for (const { name, value, telemetry } of set.values()) {
      visit(name, value, telemetry, "classifier");
    }
  }
}

/** Largest number in a label. Larger ones are attacks, not costs. */
export const MAX_LABEL_NUMBER = 1e12;

const MAX_NUMBER_LENGTH = 40;

/** The text as a finite decimal within [0, 1e12]; undefined for other text. */
export function labelNumber(text: string): number | undefined {
  if (text.length > MAX_NUMBER_LENGTH || text.startsWith("-")) return undefined;
  const value = decimalOf(text);
  return value !== undefined && value <= MAX_LABEL_NUMBER ? value : undefined;
}
