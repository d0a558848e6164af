// The vocabulary in which the tables of the policy language are written: a message is a table of fields,
// a field has words, a type, a default, and rules. Tables are data: the judge walks them, the reference page
// and the editors' schema list them, messages are written by them, and the types of judged documents follow.

import type { Path } from "../tree.ts";

/** `min` and `max` are included, `above` is not. */
export interface Range {
  readonly min?: number;
  readonly max?: number;
  readonly above?: number;
}

interface TextRules {
  /** The only values allowed, in exact case. */
  readonly oneOf?: readonly string[];
  /** Empty text is refused where the key is present. */
  readonly filled?: true;
  /** Part of a storage key, where `/` separates. */
  readonly noSlash?: true;
  /** An RE2 pattern. */
  readonly regex?: true;
  /** A name that a classifier may give a label. */
  readonly labelName?: true;
}

export type Type =
  | ({ readonly kind: "text" } & TextRules)
  | ({ readonly kind: "number" } & Range)
  | ({ readonly kind: "integer"; readonly size: "int32" | "uint32" | "int64" } & Range)
  | { readonly kind: "boolean" }
  /** Milliseconds once judged. Never negative; `positive` refuses zero too. */
  | { readonly kind: "duration"; readonly positive?: true }
  /** Written by name or by number, a number once judged. */
  | { readonly kind: "enum"; readonly name: string; readonly numbers: ReadonlyMap<string, number> }
  /** Any object; kept as it is. */
  | { readonly kind: "object" }
  | { readonly kind: "message"; readonly of: () => Message }
  | { readonly kind: "list"; readonly of: Field<unknown>; readonly filled?: true }
  | {
      readonly kind: "map";
      readonly of: Field<unknown>;
      readonly keys: Type;
      readonly filled?: true;
    };

/** Forms of values in the dynamic configuration of a policy. */
export type DynamicForm = "constant" | "boolean" | "texts";

declare const VALUE: unique symbol;

export interface Field<T> {
  readonly type: Type;
  readonly required?: true;
  /** Taken when the key is absent; an explicit zero or empty value is kept. */
  readonly default?: unknown;
  /** At most one member of the same group may be present. */
  readonly group?: string;
  /** What to write instead; "" when there is no such thing. */
  readonly deprecated?: string;
  /** What it is, in plain words. */
  readonly about?: string;
  /** Decided and stored for agents, but agents of this version do not act on it. */
  readonly published?: true;
  /** The field names a value of the dynamic configuration, which has this form. */
  readonly names?: DynamicForm;
  readonly [VALUE]?: () => T;
}

/** Says that a value does not fit its neighbours; `path` starts at the message that is checked. */
export type Say = (path: Path, wanted: string, got: string) => void;

/** Notes a doubt; `path` starts at the message. */
export type Note = (path: Path, text: string) => void;

export interface Message<V = unknown> {
  readonly name: string;
  readonly fields: Readonly<Record<string, Field<unknown>>>;
  /** Groups of which one member must be present, and what to call it. */
  readonly oneOf: Readonly<Record<string, string>>;
  /**
   * Rules among fields, and what is allowed and seldom meant. Called only when each field by itself is in
   * order.
   */
  check?(value: V, say: Say, note: Note): void;
}

type Fields = Readonly<Record<string, Field<unknown>>>;
type Values<F extends Fields> = {
  readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never;
};

/** The judged form of a message. */
export type ValueOf<M> = M extends Message<infer V> ? V : never;

export function message<F extends Fields>(
  name: string,
  fields: F,
  rules: {
    readonly oneOf?: Readonly<Record<string, string>>;
    check?(value: Values<F>, say: Say, note: Note): void;
  } = {},
): Message<Values<F>> {
  return { name, fields, oneOf: {}, ...rules };
}

export function text(rules: TextRules & { readonly default?: string } = {}): Field<string> {
  const { default: value = "", ...type } = rules;
  return { type: { kind: "text", ...type }, default: value };
}

export function number(rules: Range & { readonly default?: number } = {}): Field<number> {
  const { default: value = 0, ...range } = rules;
  return { type: { kind: "number", ...range }, default: value };
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

/** Absent without a default: what that means is the component's own matter. */
export function duration(rules: { readonly positive?: true } = {}): Field<number | undefined> {
  return { type: { kind: "duration", ...rules } };
}

/** `value` in milliseconds. */
export function durationOr(value: number, rules: { readonly positive?: true } = {}): Field<number> {
  return { type: { kind: "duration", ...rules }, default: value };
}

/** 0 where nothing is said. */
export function named(name: string, numbers: ReadonlyMap<string, number>): Field<number> {
  return { type: { kind: "enum", name, numbers }, default: 0 };
}

/** A name for a value of the dynamic configuration; "" when the policy has none. */
export function configKey(form: DynamicForm): Field<string> {
  return { ...text(), names: form };
}

export function object(): Field<unknown> {
  return { type: { kind: "object" } };
}

/**
 * A message within a message. Absent stays absent: defaults inside apply only where it is written.
 * A function names a message that is defined later, as recursion needs.
 */
export function part<V>(of: Message<V> | (() => Message<V>)): Field<V | undefined> {
  return { type: { kind: "message", of: typeof of === "function" ? of : () => of } };
}

export function list<T>(of: Field<T>): Field<readonly NonNullable<T>[]> {
  return { type: { kind: "list", of }, default: [] };
}

/** At least one element. */
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

/** Must be present; text and numbers must also be neither empty nor zero. */
export function required<T>(field: Field<T>): Field<NonNullable<T>> {
  const { default: _, ...rest } = field;
  return { ...rest, required: true } as Field<NonNullable<T>>;
}

/** Absent stays absent: no default. */
export function maybe<T>(field: Field<T>): Field<T | undefined> {
  const { default: _, ...rest } = field;
  return rest as Field<T | undefined>;
}

/** A member of a group of which at most one is present. */
export function either<T>(group: string, field: Field<T>): Field<T | undefined> {
  return { ...maybe(field), group };
}

/** A message that is a member of a group. */
export function arm<V>(group: string, of: Message<V> | (() => Message<V>)): Field<V | undefined> {
  return { ...part(of), group };
}

/** The same field with words for people. */
export function about<T>(words: string, field: Field<T>): Field<T> {
  return { ...field, about: words };
}

export function deprecated<T>(instead: string, field: Field<T>): Field<T> {
  return { ...field, deprecated: instead };
}

export function published<T>(field: Field<T>): Field<T> {
  return { ...field, published: true };
}
