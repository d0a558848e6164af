// Rows and tables of configuration keys. A row describes everything about one key, and the type of its value follows from
// it. Validation, environment names, reference page and schemas are all derived from rows.

import { anyText, type TextFormat } from "./format.ts";
import { broken, type KeyRule, type Violation } from "./rule.ts";

export type { Violation };

interface Common {
  /** The effect of the key, in one or two sentences. */
  readonly about: string;
  /** The value never appears in messages or printed trees. */
  readonly secret?: true;
  /** The key is specific to Sluice and not part of the reference implementation's interface. */
  readonly own?: true;
  /** The key is deprecated but still accepted; the text says what to do instead. */
  readonly deprecated?: string;
}

export interface BoolRow extends Common {
  readonly kind: "bool";
  readonly default: boolean;
}

export interface NumberRow extends Common {
  readonly kind: "number";
  readonly type: "int64" | "uint32" | "uint64" | "float64";
  readonly default: number;
  readonly min: number;
  readonly max: number;
  /**
   * The default where another key of the object is set: a default that nobody wrote must not make a value refused that
   * somebody did. Gets the values of the object by key, which have the defaults of the rows where nothing is set.
   */
  readonly fitting?: (settings: Readonly<Record<string, unknown>>) => number;
}

export interface StringRow extends Common {
  readonly kind: "string";
  readonly default: string;
  readonly format: TextFormat;
}

export interface ChoiceRow<V extends string = string> extends Common {
  readonly kind: "choice";
  readonly values: readonly V[];
  readonly default: V;
}

/** Written as text (`1m30s`); milliseconds in the typed tree. */
export interface DurationRow extends Common {
  readonly kind: "duration";
  readonly default: string;
  readonly least: "any" | "0s" | "1s" | "10s" | "above 0s";
  /** Written as the default is; by default the longest timer. */
  readonly most?: string;
}

export interface StringsRow extends Common {
  readonly kind: "strings";
  readonly default: readonly string[];
  /** The format that every item must have. */
  readonly format: TextFormat;
}

export interface FloatsRow extends Common {
  readonly kind: "floats";
  readonly default: readonly number[];
  /** Each item lies in [min, max] and is greater than the one before. */
  readonly min: number;
  readonly max: number;
}

/** A map from header names to values. Names are converted to canonical form (`X-Api-Key`). */
export interface HeadersRow extends Common {
  readonly kind: "headers";
}

export interface ObjectsRow<T extends Table = Table> extends Common {
  readonly kind: "objects";
  readonly table: T;
}

export interface ObjectRow<T extends Table = Table> {
  readonly kind: "object";
  readonly table: T;
}

/** A row with a value of its own; everything except a nested object. */
export type LeafRow =
  | BoolRow
  | NumberRow
  | StringRow
  | ChoiceRow
  | DurationRow
  | StringsRow
  | FloatsRow
  | HeadersRow
  | ObjectsRow;

export type Row = LeafRow | ObjectRow;
export type Rows = Readonly<Record<string, Row>>;

export interface Table<R extends Rows = Rows> {
  /** Name of the object in the documentation; empty for an unnamed group. */
  readonly name: string;
  readonly about: string;
  readonly rows: R;
  /** The rules between keys that charts can check, too. */
  readonly rules?: readonly KeyRule[];
  /** Checks all rules between keys. Called only if every single key of the object is valid. */
  readonly check?: (settings: never) => readonly Violation[];
}

/** Durations are milliseconds. */
export type SettingValue<R> = R extends BoolRow
  ? boolean
  : R extends NumberRow | DurationRow
    ? number
    : R extends StringRow
      ? string
      : R extends ChoiceRow<infer V>
        ? V
        : R extends StringsRow
          ? readonly string[]
          : R extends FloatsRow
            ? readonly number[]
            : R extends HeadersRow
              ? Readonly<Record<string, readonly string[]>>
              : R extends ObjectsRow<infer T>
                ? readonly Settings<T>[]
                : R extends ObjectRow<infer T>
                  ? Settings<T>
                  : never;

/** The typed, frozen form of a table. */
export type Settings<T extends Table> = {
  readonly [K in keyof T["rows"]]: SettingValue<T["rows"][K]>;
};

type Extra = Pick<Common, "secret" | "own" | "deprecated">;

export function bool(value: boolean, about: string, extra: Extra = {}): BoolRow {
  return { kind: "bool", default: value, about, ...extra };
}

const WIDEST = {
  int64: [-Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  uint32: [0, 4_294_967_295],
  uint64: [0, Number.MAX_SAFE_INTEGER],
  float64: [-Number.MAX_VALUE, Number.MAX_VALUE],
} as const;

/** Whole numbers are limited to the range that a double represents exactly. */
export function number(
  type: NumberRow["type"],
  value: number,
  about: string,
  extra: Extra & Partial<Pick<NumberRow, "min" | "max" | "fitting">> = {},
): NumberRow {
  const [min, max] = WIDEST[type];
  return { kind: "number", type, default: value, about, min, max, ...extra };
}

/** A whole number, by default not negative. */
export function count(
  value: number,
  about: string,
  extra: Parameters<typeof number>[3] = {},
): NumberRow {
  return number("int64", value, about, { min: 0, ...extra });
}

export function port(value: number, about: string): NumberRow {
  return number("uint32", value, about, { max: 65_535 });
}

export function string(
  value: string,
  format: TextFormat,
  about: string,
  extra: Extra = {},
): StringRow {
  return { kind: "string", default: value, format, about, ...extra };
}

/** Any text, empty by default. */
export function text(about: string, extra: Extra = {}): StringRow {
  return string("", anyText, about, extra);
}

export function choice<const V extends string>(
  value: NoInfer<V>,
  values: readonly V[],
  about: string,
  extra: Extra = {},
): ChoiceRow<V> {
  return { kind: "choice", default: value, values, about, ...extra };
}

/** Names of log levels in lower and upper case, and the empty text. */
export function logLevels<const L extends string>(
  ...levels: readonly L[]
): readonly ("" | L | Uppercase<L>)[] {
  return ["", ...levels.flatMap((level) => [level, level.toUpperCase() as Uppercase<L>])];
}

export function duration(
  value: string,
  about: string,
  extra: Extra & Partial<Pick<DurationRow, "least" | "most">> = {},
): DurationRow {
  return { kind: "duration", default: value, about, least: "0s", ...extra };
}

export function strings(format: TextFormat, about: string, extra: Extra = {}): StringsRow {
  return { kind: "strings", default: [], format, about, ...extra };
}

export function floats(
  value: readonly number[],
  range: { readonly min: number; readonly max: number },
  about: string,
): FloatsRow {
  return { kind: "floats", default: value, about, ...range };
}

export function headers(about: string, extra: Extra = {}): HeadersRow {
  return { kind: "headers", about, ...extra };
}

export function objects<T extends Table>(of: T, about: string, extra: Extra = {}): ObjectsRow<T> {
  return { kind: "objects", table: of, about, ...extra };
}

export function object<T extends Table>(of: T): ObjectRow<T> {
  return { kind: "object", table: of };
}

/** Keys under a common name that do not form a documented object. */
export function group<R extends Rows>(rows: R): ObjectRow<Table<R>> {
  return { kind: "object", table: { name: "", about: "", rows } };
}

export function table<R extends Rows>(
  name: string,
  about: string,
  rows: R,
  check?: readonly KeyRule[] | ((settings: Settings<Table<R>>) => readonly Violation[]),
): Table<R> {
  if (check === undefined) return { name, about, rows };
  if (typeof check === "function") return { name, about, rows, check };
  const whole = (settings: Readonly<Record<string, unknown>>) => broken(check, settings);
  return { name, about, rows, rules: check, check: whole };
}

/** A table whose keys, those of unnamed groups included, are specific to Sluice. */
export function ownTable<R extends Rows>(...row: Parameters<typeof table<R>>): Table<R> {
  const [name, about, rows, check] = row;
  return table(name, about, asOwn(rows), check);
}

function asOwn<R extends Rows>(rows: R): R {
  const marked = Object.entries(rows).map(([key, row]) => {
    if (row.kind !== "object") return [key, { ...row, own: true }];
    const { table: inner } = row;
    return [
      key,
      inner.name === "" ? { ...row, table: { ...inner, rows: asOwn(inner.rows) } } : row,
    ];
  });
  // The rows keep their kinds and defaults.
  return Object.fromEntries(marked) as R;
}
