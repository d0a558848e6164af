// Flow labels: where a value came from, which of two wins, and how rules read them by slot.
// Precedence, strongest first: attributes of the request and its sockets, classifiers, claims of an SDK,
// baggage. Baggage never names `http.*` or `aperture.*`, so an outsider cannot overwrite what the proxy saw.

/** Where a label's value came from. */
export type Origin = "attribute" | "classifier" | "claim" | "baggage";

/** A label that a plan reads. `header` is set for `http.request.header.<name>`: that name, lower case. */
export interface LabelKey {
  readonly name: string;
  readonly slot: number;
  readonly header: string | undefined;
}

export type LabelVisitor = (
  name: string,
  value: string,
  telemetry: boolean,
  origin: Origin,
) => void;

/** The labels that a flow arrives with, precedence among its origins already settled. */
export interface LabelSource {
  get(key: LabelKey): string | undefined;
  /** Where the value that `get` returns came from. */
  origin(key: LabelKey): Origin | undefined;
  /** Every label once, in no particular order. */
  each(visit: LabelVisitor): void;
}

const HEADER_PREFIX = "http.request.header.";
const RESERVED = /^(?:http|aperture)\./;

/** Whether baggage (and nobody but a door) may carry this label. */
export function isReserved(name: string): boolean {
  return RESERVED.test(name);
}

/** Gives each label name one slot. A plan owns one and fills it while it is compiled. */
export class Slots {
  readonly #keys: LabelKey[] = [];
  readonly #slots = new Map<string, number>();

  of(name: string): number {
    const known = this.#slots.get(name);
    if (known !== undefined) return known;
    const slot = this.#keys.length;
    const header = name.startsWith(HEADER_PREFIX) ? name.slice(HEADER_PREFIX.length) : undefined;
    this.#keys.push({ name, slot, header });
    this.#slots.set(name, slot);
    return slot;
  }

  get keys(): readonly LabelKey[] {
    return this.#keys;
  }
}

/** A label that a classifier made for this flow. */
export interface MadeLabel {
  readonly name: string;
  readonly value: string;
  readonly telemetry: boolean;
}

const UNREAD = Symbol("unread");

/** The labels of one check: the source's values by slot, read once and on demand, and classifiers' on top. */
export class Labels {
  readonly source: LabelSource;
  readonly #keys: readonly LabelKey[];
  readonly #values: (string | undefined | typeof UNREAD)[];
  /** Made with its first label: most checks have none. */
  #made: Map<string, MadeLabel> | undefined;

  constructor(keys: readonly LabelKey[], source: LabelSource) {
    this.source = source;
    this.#keys = keys;
    const values = new Array<string | undefined | typeof UNREAD>(keys.length);
    // Few slots: a loop is done before the platform's `fill` has begun.
    for (let slot = 0; slot < values.length; slot++) values[slot] = UNREAD;
    this.#values = values;
  }

  get(slot: number): string | undefined {
    const known = this.#values[slot];
    if (known !== UNREAD) return known;
    const key = this.#keys[slot];
    const value = key === undefined ? undefined : this.source.get(key);
    this.#values[slot] = value;
    return value;
  }

  origin(slot: number): Origin | undefined {
    const key = this.#keys[slot];
    if (key === undefined) return undefined;
    return this.#made?.has(key.name) ? "classifier" : this.source.origin(key);
  }

  /** A classifier's label. A later one of the same name replaces an earlier one. */
  make(slot: number, value: string, telemetry: boolean): void {
    const key = this.#keys[slot];
    if (key === undefined) return;
    this.#values[slot] = value;
    this.#made ??= new Map();
    this.#made.set(key.name, { name: key.name, value, telemetry });
  }

  /** What classifiers made in this check. */
  made(): Iterable<MadeLabel> {
    return this.#made?.values() ?? [];
  }

  get madeCount(): number {
    return this.#made?.size ?? 0;
  }

  /** Every label of the flow once, classifiers' values in place of those they replaced. */
  each(visit: LabelVisitor): void {
    const made = this.#made;
    if (made === undefined) {
      this.source.each(visit);
      return;
    }
    this.source.each((name, value, telemetry, origin) => {
      if (!made.has(name)) visit(name, value, telemetry, origin);
    });
    for (const { name, value, telemetry } of made.values()) {
      visit(name, value, telemetry, "classifier");
    }
  }
}

const DECIMAL = /^\+?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?$/;

/** Largest number that a label may ask for: beyond it text is an attack, not a cost. */
export const MAX_LABEL_NUMBER = 1e12;

/** A finite decimal >= 0 within bounds, or undefined: labels may come from outside. */
export function labelNumber(text: string): number | undefined {
  if (text.length > 40 || !DECIMAL.test(text)) return undefined;
  const value = Number(text);
  return value <= MAX_LABEL_NUMBER ? value : undefined;
}
