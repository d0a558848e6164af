// The vocabulary in which the tables of the policy language are written. A message is a table of fields; a field
// has a number, a description, a type, a default and rules. Validation, the reference page, the JSON Schema, the
// protobuf messages (proto/language.ts) and the TypeScript types of validated documents are derived from the tables.

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

type IntegerSize = "int32" | "uint32" | "int64";

export type Type =
  | ({ readonly kind: "text" } & TextRules)
  | ({ readonly kind: "number"; readonly special?: Special } & Range)
  | ({ readonly kind: "integer"; readonly size: IntegerSize } & Range)
  | { readonly kind: "boolean" }
  /** Validated to milliseconds. Never negative; `positive` also refuses zero. */
  | { readonly kind: "duration"; readonly positive?: true }
  /** Written as a name or a number, validated to the number. */
  | ({ readonly kind: "enum" } & Enumeration)
  /** Any object, kept as it is. */
  | { readonly kind: "object" }
  | { readonly kind: "message"; readonly of: () => Message }
  | { readonly kind: "list"; readonly of: Field; readonly filled?: true }
  | {
      readonly kind: "map";
      readonly of: Field;
      readonly keys: Type;
      readonly filled?: true;
    };

/** Forms that values of the dynamic configuration can have. */
export type DynamicForm = "constant" | "boolean" | "texts";

/** Settings of the compiler that replace defaults of fields. */
export type Setting = "defaultGroup";

export interface Field {
  readonly type: Type;
  /** Number of the field in its protobuf message. Elements of lists and maps have none. */
  readonly tag?: number | undefined;
  readonly required?: true;
  /** Value of an absent key. An explicit zero or empty value is kept. */
  readonly default?: unknown;
  /** The value that agents use for an absent key that stays absent in the document; for the reference only. */
  readonly means?: unknown;
  /** An object with `targetRefs` may leave it out although it is required: its targets say it. */
  readonly fromTargets?: true;
  /** The setting of the compiler that replaces the default, where it is given. */
  readonly setting?: Setting;
  /** At most one member of the same group may be present: a oneof of the protobuf message. */
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
  /** The name of the field's message is relative to the message that has the field. */
  readonly nested?: true;
  /** The field holds a key of the dynamic configuration, whose value has this form. */
  readonly names?: DynamicForm;
}

/** Builds a field whose validated value is a `T`. Each call returns a new builder. */
export class FieldBuilder<T> {
  readonly field: Field;
  /** Only carries the type. */
  declare readonly value: T;

  constructor(field: Field) {
    this.field = field;
  }

  #with<U = T>(more: Partial<Field>): FieldBuilder<U> {
    return new FieldBuilder({ ...this.field, ...more });
  }

  #withoutDefault<U>(more: Partial<Field>): FieldBuilder<U> {
    const { default: _, ...rest } = this.field;
    return new FieldBuilder({ ...rest, ...more });
  }

  about(about: string): FieldBuilder<T> {
    return this.#with({ about });
  }

  /** Required text must not be empty, and required numbers must not be zero. */
  get required(): FieldBuilder<NonNullable<T>> {
    return this.#withoutDefault({ required: true });
  }

  /** Removes the default, so that an absent field stays absent; `means` tells readers how agents then proceed. */
  optional(means?: T): FieldBuilder<T | undefined> {
    return this.#withoutDefault(means === undefined ? {} : { means });
  }

  /** A member of a group of which at most one is present. */
  oneOf(group: string): FieldBuilder<T | undefined> {
    return this.#withoutDefault({ group });
  }

  or(value: T): FieldBuilder<T> {
    return this.#with({ default: value });
  }

  deprecated(instead: string): FieldBuilder<T> {
    return this.#with({ deprecated: instead });
  }

  /** Lets a setting of the compiler replace the default. */
  configured(setting: Setting): FieldBuilder<T> {
    return this.#with({ setting });
  }

  get fromTargets(): FieldBuilder<T> {
    return this.#with({ fromTargets: true });
  }

  get published(): FieldBuilder<T> {
    return this.#with({ published: true });
  }

  get switches(): FieldBuilder<T> {
    return this.#with({ switches: true });
  }

  get labelKey(): FieldBuilder<T> {
    return this.#with({ labelKey: true });
  }
}

export interface Message<V = unknown> {
  /** Name of the protobuf message within its package. */
  readonly name: string;
  readonly fields: Readonly<Record<string, Field>>;
  /** Groups of which one member must be present, each with what messages call such a member. */
  readonly oneOf: Readonly<Record<string, string>>;
  /**
   * Checks rules between fields, and warns of what is allowed but rarely meant. Called only when every single
   * field is valid; paths given to `refuse` and `warn` are relative to this message.
   */
  check?(value: V, refuse: Refuse, warn: Warn): void;
}

export type Builders = Readonly<Record<string, FieldBuilder<unknown>>>;
export type Values<B extends Builders> = { readonly [K in keyof B]: B[K]["value"] };

export interface Rules<V> {
  readonly oneOf?: Readonly<Record<string, string>>;
  check?(value: V, refuse: Refuse, warn: Warn): void;
}

/** The type of a validated message. */
export type ValueOf<M> = M extends Message<infer V> ? V : never;

export function message<B extends Builders>(
  name: string,
  builders: B,
  rules: Rules<Values<B>> = {},
): Message<Values<B>> {
  const fields = Object.entries(builders).map(([key, { field }]) => [key, placed(field, name)]);
  return { name, fields: Object.fromEntries(fields), oneOf: {}, ...rules };
}

/** A field as part of a message, after which its nested message is named. */
function placed(field: Field, owner: string): Field {
  if (field.type.kind !== "message" || field.nested === undefined) return field;
  const inner = field.type.of();
  const of = { ...inner, name: `${owner}.${inner.name}` };
  return { ...field, type: { kind: "message", of: () => of } };
}

// The functions below start fields. The first argument is the field's number; elements of lists and maps have none.

/** The arguments of a function that starts fields and elements. */
type Arguments<R> = [rules?: R] | [tag: number, rules?: R];

function split<R extends object>([first, second]: Arguments<R>): { tag?: number; rules?: R } {
  if (typeof first !== "number") return first === undefined ? {} : { rules: first };
  return second === undefined ? { tag: first } : { tag: first, rules: second };
}

export function text(
  ...given: Arguments<TextRules & { readonly default?: string }>
): FieldBuilder<string> {
  const { tag, rules: { default: value = "", ...type } = {} } = split(given);
  return new FieldBuilder({ tag, type: { kind: "text", ...type }, default: value });
}

/** One of several words, without a default; the component decides what absence means. */
export function choice<const T extends string>(
  tag: number,
  oneOf: readonly T[],
): FieldBuilder<T | undefined> {
  return new FieldBuilder({ tag, type: { kind: "text", oneOf } });
}

export function number(
  ...given: Arguments<Range & { readonly default?: number; readonly special?: Special }>
): FieldBuilder<number> {
  const { tag, rules: { default: value = 0, ...type } = {} } = split(given);
  return new FieldBuilder({ tag, type: { kind: "number", ...type }, default: value });
}

function integer<T>(size: IntegerSize, zero: T) {
  return (tag: number, rules: Range & { readonly default?: T } = {}): FieldBuilder<T> => {
    const { default: value = zero, ...range } = rules;
    return new FieldBuilder({ tag, type: { kind: "integer", size, ...range }, default: value });
  };
}
export const int32 = integer("int32", 0);
export const uint32 = integer("uint32", 0);
export const int64 = integer("int64", 0n);

export function flag(tag: number, value = false): FieldBuilder<boolean> {
  return new FieldBuilder({ tag, type: { kind: "boolean" }, default: value });
}

interface DurationRules {
  readonly positive?: true;
}

/** A duration without a default; the component decides what absence means. */
export function duration(tag: number, rules: DurationRules = {}): FieldBuilder<number | undefined> {
  return new FieldBuilder({ tag, type: { kind: "duration", ...rules } });
}

/** A duration with a default, `value` milliseconds. */
export function durationOr(
  tag: number,
  value: number,
  rules: DurationRules = {},
): FieldBuilder<number> {
  return new FieldBuilder({ tag, type: { kind: "duration", ...rules }, default: value });
}

/** An enum; the default is the value 0. */
export function enumeration(tag: number, of: Enumeration): FieldBuilder<number> {
  return new FieldBuilder({ tag, type: { kind: "enum", ...of }, default: 0 });
}

/** A key of the dynamic configuration value that overrides `what`; "" when there is none. */
export function configKey(tag: number, form: DynamicForm, what: string): FieldBuilder<string> {
  const about = `Key of the dynamic configuration value that overrides ${what}.`;
  return new FieldBuilder({ ...text(tag).field, names: form, about });
}

/** Any object, as an element. */
export function object(): FieldBuilder<unknown> {
  return new FieldBuilder({ type: { kind: "object" } });
}

/** A function refers to a message that is defined later, for recursive messages. */
type Reference<V> = Message<V> | (() => Message<V>);

/** A message as an element. */
export function each<V>(of: Reference<V>): FieldBuilder<V> {
  return new FieldBuilder({
    type: { kind: "message", of: typeof of === "function" ? of : () => of },
  });
}

/** A message within a message. An absent message stays absent: its defaults apply only where it is present. */
export function part<V>(tag: number, of: Reference<V>): FieldBuilder<V | undefined> {
  return new FieldBuilder({ ...each(of).field, tag });
}

/** A message that belongs to the one around it, which has a full name. */
export function nested<B extends Builders>(
  tag: number,
  name: string,
  fields: B,
  rules: Rules<Values<B>> = {},
): FieldBuilder<Values<B> | undefined> {
  return new FieldBuilder({ ...part(tag, message(name, fields, rules)).field, nested: true });
}

/** A message as a member of a group of which at most one is present. */
export function arm<V>(tag: number, group: string, of: Reference<V>): FieldBuilder<V | undefined> {
  return part(tag, of).oneOf(group);
}

type ListOf<T> = readonly NonNullable<T>[];
type MapOf<T> = ReadonlyMap<string, NonNullable<T>>;

export function list<T>(tag: number, { field: of }: FieldBuilder<T>): FieldBuilder<ListOf<T>> {
  return new FieldBuilder({ tag, type: { kind: "list", of }, default: [] });
}

/** A list with at least one element. */
export function filledList<T>(tag: number, of: FieldBuilder<T>): FieldBuilder<ListOf<T>> {
  return new FieldBuilder({
    tag,
    type: { kind: "list", of: of.field, filled: true },
    required: true,
  });
}

export function map<T>(tag: number, of: FieldBuilder<T>, keys = text()): FieldBuilder<MapOf<T>> {
  const type: Type = { kind: "map", of: of.field, keys: keys.field.type };
  return new FieldBuilder({ tag, type, default: new Map() });
}

/** A map with at least one entry. */
export function filledMap<T>(
  tag: number,
  of: FieldBuilder<T>,
  keys = text(),
): FieldBuilder<MapOf<T>> {
  const type: Type = { kind: "map", of: of.field, keys: keys.field.type, filled: true };
  return new FieldBuilder({ tag, type, required: true });
}
