// The vocabulary in which the tables of the policy language are written. A message is a table of fields; a field
// has a description, a type, a default and rules. Validation, the reference page, the JSON Schema, the encoding
// of messages and the TypeScript types of validated documents are all derived from these tables.

import type { Refuse } from "../document/finding.ts";
import type { Warn } from "../document/warning.ts";

/** `min` and `max` are included, `above` is not. */
export interface Range {
  readonly min?: number;
  readonly max?: number;
  readonly above?: number;
}

/** Values besides finite numbers that a number may have: infinities, or infinities and NaN. */
type Special = "infinities" | "all";

interface TextRules {
  /** The only values allowed, in exact case. */
  readonly oneOf?: readonly string[];
  /** Refuses empty text where the key is present. */
  readonly filled?: true;
  /** Refuses `/`, which separates the parts of store keys. */
  readonly noSlash?: true;
  /** Must be an RE2 pattern. */
  readonly regex?: true;
  /** The only forms allowed, as a regular expression, and the words for them. */
  readonly form?: { readonly pattern: string; readonly wanted: string };
  /** Is written elsewhere too, where blanks around it or control characters are unlikely: warns of them. */
  readonly name?: true;
  /** Must be a valid label name for classifiers. */
  readonly labelName?: true;
}

interface Enumeration {
  readonly name: string;
  readonly numbers: ReadonlyMap<string, number>;
  /** Tells what is odd about a value that is allowed; undefined when nothing is. */
  readonly remark?: (value: number) => string | undefined;
}

export type Type =
  | ({ readonly kind: "text" } & TextRules)
  | ({ readonly kind: "number"; readonly special?: Special } & Range)
  | ({ readonly kind: "integer"; readonly size: "int32" | "uint32" | "int64" } & Range)
  | { readonly kind: "boolean" }
  /** Validated to milliseconds. Never negative; `positive` also refuses zero. */
  | { readonly kind: "duration"; readonly positive?: true }
  /** Written as a name or a number, validated to the number. */
  | ({ readonly kind: "enum" } & Enumeration)
  /** Any object, kept as it is. */
  | { readonly kind: "object" }
  | { readonly kind: "message"; readonly of: () => Message }
  | { readonly kind: "list"; readonly of: Field<unknown>; readonly filled?: true }
  | {
      readonly kind: "map";
      readonly of: Field<unknown>;
      readonly keys: Type;
      readonly filled?: true;
    };

/** Forms that values of the dynamic configuration can have. */
export type DynamicForm = "constant" | "boolean" | "texts";

/** Settings of the compiler that replace defaults of fields. */
export type Setting = "defaultGroup";

declare const VALUE: unique symbol;

export interface Field<T> {
  readonly type: Type;
  readonly required?: true;
  /** Value of an absent key. An explicit zero or empty value is kept. */
  readonly default?: unknown;
  /** The value that agents use for an absent key that stays absent in the document; for the reference only. */
  readonly means?: unknown;
  /** An object with `targetRefs` may leave it out although it is required: its targets say it. */
  readonly fromTargets?: true;
  /** The setting of the compiler that replaces the default, where it is given. */
  readonly setting?: Setting;
  /** At most one member of the same group may be present. */
  readonly group?: string;
  /** Marks the field as deprecated and names its replacement, "" when there is none. */
  readonly deprecated?: string;
  /** Description for users. */
  readonly about?: string;
  /** Compiled and published for agents, although agents of this version do not act on it. */
  readonly published?: true;
  /** Its presence switches something on, so a key without a value is a mistake. */
  readonly switches?: true;
  /** The field names a label of flows whose value a limiter or scheduler uses. */
  readonly labelKey?: true;
  /** The field holds a key of the dynamic configuration, whose value has this form. */
  readonly names?: DynamicForm;
  readonly [VALUE]?: () => T;
}

export interface Message<V = unknown> {
  readonly name: string;
  readonly fields: Readonly<Record<string, Field<unknown>>>;
  /** Groups of which one member must be present, each with what messages call such a member. */
  readonly oneOf: Readonly<Record<string, string>>;
  /**
   * Checks rules between fields, and warns of what is allowed but rarely meant. Called only when every single
   * field is valid; paths given to `refuse` and `warn` are relative to this message.
   */
  check?(value: V, refuse: Refuse, warn: Warn): void;
}

type Fields = Readonly<Record<string, Field<unknown>>>;
type Values<F extends Fields> = {
  readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never;
};

/** The type of a validated message. */
export type ValueOf<M> = M extends Message<infer V> ? V : never;

export function message<F extends Fields>(
  name: string,
  fields: F,
  rules: {
    readonly oneOf?: Readonly<Record<string, string>>;
    check?(value: Values<F>, refuse: Refuse, warn: Warn): void;
  } = {},
): Message<Values<F>> {
  return { name, fields, oneOf: {}, ...rules };
}

export function text(rules: TextRules & { readonly default?: string } = {}): Field<string> {
  const { default: value = "", ...type } = rules;
  return { type: { kind: "text", ...type }, default: value };
}

/** One of several words, without a default; the component decides what absence means. */
export function choice<const T extends string>(oneOf: readonly T[]): Field<T | undefined> {
  return { type: { kind: "text", oneOf } };
}

export function number(
  rules: Range & { readonly default?: number; readonly special?: Special } = {},
): Field<number> {
  const { default: value = 0, ...type } = rules;
  return { type: { kind: "number", ...type }, default: value };
}

export function int32(rules: Range & { readonly default?: number } = {}): Field<number> {
  const { default: value = 0, ...range } = rules;
  return { type: { kind: "integer", size: "int32", ...range }, default: value };
}

export function uint32(rules: Range & { readonly default?: number } = {}): Field<number> {
  const { default: value = 0, ...range } = rules;
  return { type: { kind: "integer", size: "uint32", ...range }, default: value };
}

export function int64(rules: Range & { readonly default?: bigint } = {}): Field<bigint> {
  const { default: value = 0n, ...range } = rules;
  return { type: { kind: "integer", size: "int64", ...range }, default: value };
}

export function flag(value = false): Field<boolean> {
  return { type: { kind: "boolean" }, default: value };
}

/** A duration without a default; the component decides what absence means. */
export function duration(rules: { readonly positive?: true } = {}): Field<number | undefined> {
  return { type: { kind: "duration", ...rules } };
}

/** A duration with a default, `value` milliseconds. */
export function durationOr(value: number, rules: { readonly positive?: true } = {}): Field<number> {
  return { type: { kind: "duration", ...rules }, default: value };
}

/** An enum; the default is the value 0. */
export function enumeration(of: Enumeration): Field<number> {
  return { type: { kind: "enum", ...of }, default: 0 };
}

/** A key of the dynamic configuration; "" when there is none. */
export function configKey(form: DynamicForm): Field<string> {
  return { ...text(), names: form };
}

export function object(): Field<unknown> {
  return { type: { kind: "object" } };
}

/**
 * A message within a message. An absent message stays absent: its defaults apply only where it is present.
 * A function refers to a message that is defined later, for recursive messages.
 */
export function part<V>(of: Message<V> | (() => Message<V>)): Field<V | undefined> {
  return { type: { kind: "message", of: typeof of === "function" ? of : () => of } };
}

export function list<T>(of: Field<T>): Field<readonly NonNullable<T>[]> {
  return { type: { kind: "list", of }, default: [] };
}

/** A list with at least one element. */
export function filledList<T>(of: Field<T>): Field<readonly NonNullable<T>[]> {
  return { type: { kind: "list", of, filled: true }, required: true };
}

export function map<T>(
  of: Field<T>,
  keys: Field<string> = text(),
): Field<ReadonlyMap<string, NonNullable<T>>> {
  return { type: { kind: "map", of, keys: keys.type }, default: new Map() };
}

export function filledMap<T>(
  of: Field<T>,
  keys: Field<string> = text(),
): Field<ReadonlyMap<string, NonNullable<T>>> {
  return { type: { kind: "map", of, keys: keys.type, filled: true }, required: true };
}

/** Makes a field required. Required text must not be empty, and required numbers must not be zero. */
export function required<T>(field: Field<T>): Field<NonNullable<T>> {
  const { default: _, ...rest } = field;
  return { ...rest, required: true } as Field<NonNullable<T>>;
}

/** Removes the default, so that an absent field stays absent; `means` tells readers how agents then proceed. */
export function maybe<T>(field: Field<T>, means?: T): Field<T | undefined> {
  const { default: _, ...rest } = field;
  return { ...rest, ...(means === undefined ? {} : { means }) } as Field<T | undefined>;
}

/** A member of a group of which at most one is present. */
export function either<T>(group: string, field: Field<T>): Field<T | undefined> {
  return { ...maybe(field), group };
}

/** A message as a member of a group of which at most one is present. */
export function arm<V>(group: string, of: Message<V> | (() => Message<V>)): Field<V | undefined> {
  return { ...part(of), group };
}

/** Adds a description to a field. */
export function about<T>(words: string, field: Field<T>): Field<T> {
  return { ...field, about: words };
}

export function deprecated<T>(instead: string, field: Field<T>): Field<T> {
  return { ...field, deprecated: instead };
}

/** Marks the name of a label whose value a limiter or scheduler uses. */
export function labelKey<T>(field: Field<T>): Field<T> {
  return { ...field, labelKey: true };
}

/** Lets the targets of the object around the policy say what is required. */
export function fromTargets<T>(field: Field<T>): Field<T> {
  return { ...field, fromTargets: true };
}

/** Lets a setting of the compiler replace the default of a field. */
export function configured<T>(setting: Setting, field: Field<T>): Field<T> {
  return { ...field, setting };
}

/** Marks a part whose presence switches something on. */
export function switches<T>(field: Field<T>): Field<T> {
  return { ...field, switches: true };
}

export function published<T>(field: Field<T>): Field<T> {
  return { ...field, published: true };
}
