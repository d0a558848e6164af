// Validation rules (protoc-gen-validate) of our own messages, read from the descriptors and compiled once
// to closures. Imports @bufbuild/protobuf: load it lazily; the hot doors check their few rules by hand.

import {
  type DescField,
  type DescMessage,
  type DescOneof,
  getOption,
  hasOption,
  isFieldSet,
  type Message,
  type MessageShape,
} from "@bufbuild/protobuf";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { Fault } from "#base/fault.ts";
import {
  disabled,
  type FieldRules,
  FieldRulesSchema,
  required,
  rules as rulesOption,
} from "./gen/validate/validate_pb.ts";
import { CHECKS, type Check, type Rules } from "./pgv-checks.ts";

/** A rule that a message breaks. Holds no value and no map key of the input. */
export interface Violation {
  /** Such as `source.port`, `items[2]`, `labels{}`. */
  readonly field: string;
  readonly want: string;
  /** Kind of what was there. */
  readonly got: string;
}

type Report = (violation: Violation) => void;
type Judge = (value: unknown, path: string, report: Report) => void;
type Plain = Readonly<Record<string, unknown>>;

/** The rules of a message and of the messages in it, as a function that lists what is broken. */
export function compileRules<Desc extends DescMessage>(
  schema: Desc,
): (message: MessageShape<Desc>) => readonly Violation[] {
  const judge = messageJudge(schema, new Map());
  return (message) => {
    const violations: Violation[] = [];
    judge(message, "", (violation) => violations.push(violation));
    return violations;
  };
}

/** INVALID_ARGUMENT that names every broken rule. */
export function faultOf(violations: readonly Violation[]): Fault {
  const lines = violations.map(({ field, want, got }) => `${field}: want ${want}, got ${got}`);
  return new Fault("INVALID_ARGUMENT", lines.join("; "));
}

/** `known` ends the recursion of message types that hold themselves. */
function messageJudge(desc: DescMessage, known: Map<string, Judge>): Judge {
  const met = known.get(desc.typeName);
  if (met !== undefined) return met;
  const parts: Judge[] = [];
  const judge: Judge = (value, path, report) => {
    for (const part of parts) part(value, path, report);
  };
  known.set(desc.typeName, judge);
  if (desc.typeName.startsWith("google.protobuf.")) return judge;
  if (hasOption(desc, disabled) && getOption(desc, disabled)) return judge;
  for (const oneof of desc.oneofs)
    if (hasOption(oneof, required) && getOption(oneof, required)) parts.push(oneofJudge(oneof));
  for (const field of desc.fields) {
    const rules = hasOption(field, rulesOption) ? getOption(field, rulesOption) : undefined;
    const part = fieldJudge(field, rules, known);
    if (part !== undefined) parts.push(part);
  }
  return judge;
}

function oneofJudge(oneof: DescOneof): Judge {
  return (message, path, report) => {
    const arm = (message as Plain)[oneof.localName] as { readonly case?: string } | undefined;
    if (arm?.case === undefined)
      report({ field: under(path, oneof.name), want: "one of its fields", got: "none" });
  };
}

/** `undefined` when nothing can be wrong with the field. */
function fieldJudge(
  field: DescField,
  rules: FieldRules | undefined,
  known: Map<string, Judge>,
): Judge | undefined {
  const judge = contentJudge(field, rules, known);
  const needed = isRequired(rules);
  if (judge === undefined && !needed) return undefined;
  const read = reader(field);
  return (message, path, report) => {
    const value = read(message as Message);
    if (value !== undefined) judge?.(value, under(path, field.name), report);
    else if (needed) report({ field: under(path, field.name), want: "a message", got: "nothing" });
  };
}

function contentJudge(
  field: DescField,
  rules: FieldRules | undefined,
  known: Map<string, Judge>,
): Judge | undefined {
  if (field.fieldKind === "list") return listJudge(field, rules, known);
  if (field.fieldKind === "map") return mapJudge(field, rules, known);
  return valueJudge(field, rules, known);
}

/** One value: a field that is alone, an item of a list, a key or value of a map. */
function valueJudge(
  { message, enum: enumeration }: Pick<DescField, "message" | "enum">,
  rules: FieldRules | undefined,
  known: Map<string, Judge>,
): Judge | undefined {
  const kind = rules?.type.case ?? "";
  const make = CHECKS[kind];
  if (kind !== "" && make === undefined) throw new Error(`validation of ${kind} is out of place`);
  const numbers = enumeration?.values.map(({ number }) => number) ?? [];
  const checks = make?.(rulesOf(rules), numbers) ?? [];
  const inner =
    message === undefined || rules?.message?.skip ? undefined : messageJudge(message, known);
  if (checks.length === 0 && inner === undefined) return undefined;
  return (value, path, report) => {
    for (const { want, holds } of checks)
      if (!holds(value)) report({ field: path, want, got: kindOf(value) });
    inner?.(value, path, report);
  };
}

function listJudge(
  field: DescField & { fieldKind: "list" },
  rules: FieldRules | undefined,
  known: Map<string, Judge>,
): Judge | undefined {
  const given = rulesOf(rules);
  const items = rules?.type.case === "repeated" ? rules.type.value.items : undefined;
  const judge = valueJudge(field, items, known);
  const counts = sizeChecks(given, "min_items", "max_items", "items");
  const unique = given.get("unique") === true;
  if (judge === undefined && counts.length === 0 && !unique) return undefined;
  return (value, path, report) => {
    const list = value as readonly unknown[];
    for (const { want, holds } of counts)
      if (!holds(list.length)) report({ field: path, want, got: `${list.length} items` });
    if (unique && new Set(list.map(comparable)).size < list.length)
      report({ field: path, want: "items that differ", got: "some that are equal" });
    if (judge !== undefined)
      for (const [index, item] of list.entries()) judge(item, `${path}[${index}]`, report);
  };
}

function mapJudge(
  field: DescField & { fieldKind: "map" },
  rules: FieldRules | undefined,
  known: Map<string, Judge>,
): Judge | undefined {
  const given = rules?.type.case === "map" ? rules.type.value : undefined;
  const keys = valueJudge({ message: undefined, enum: undefined }, given?.keys, known);
  const values = valueJudge(field, given?.values, known);
  const counts = sizeChecks(rulesOf(rules), "min_pairs", "max_pairs", "pairs");
  if (keys === undefined && values === undefined && counts.length === 0) return undefined;
  return (value, path, report) => {
    const entries = Object.entries(value as Plain);
    for (const { want, holds } of counts)
      if (!holds(entries.length)) report({ field: path, want, got: `${entries.length} pairs` });
    for (const [key, item] of entries) {
      keys?.(key, `${path}{key}`, report);
      values?.(item, `${path}{}`, report);
    }
  };
}

function sizeChecks(rules: Rules, least: string, most: string, noun: string): Check[] {
  const [low, high] = [rules.get(least), rules.get(most)];
  return [
    ...(low === undefined
      ? []
      : [
          {
            want: `at least ${low} ${noun}`,
            holds: (size: unknown) => Number(size) >= Number(low),
          },
        ]),
    ...(high === undefined
      ? []
      : [
          {
            want: `at most ${high} ${noun}`,
            holds: (size: unknown) => Number(size) <= Number(high),
          },
        ]),
  ];
}

/** Messages, durations, timestamps and Any say so in three places. */
function isRequired(rules: FieldRules | undefined): boolean {
  if (rules === undefined) return false;
  return (rules.message?.required ?? false) || rulesOf(rules).get("required") === true;
}

/**
 * The rules that are set. They are proto2, whose unset fields read as zero: `max_len` would refuse every
 * string if presence were not asked for.
 */
function rulesOf(rules: FieldRules | undefined): Rules {
  const set = new Map<string, unknown>();
  if (rules?.type.case === undefined) return set;
  const field = FieldRulesSchema.field[rules.type.case];
  const chosen = reflect(FieldRulesSchema, rules).get(field) as ReflectMessage;
  for (const rule of chosen.fields) {
    if (!chosen.isSet(rule)) continue;
    const value = chosen.get(rule);
    set.set(
      rule.name,
      rule.fieldKind === "list" ? [...(value as Iterable<unknown>)].map(bare) : bare(value),
    );
  }
  return set;
}

/** A message as itself rather than as its reflection. */
function bare(value: unknown): unknown {
  return typeof value === "object" && value !== null && "message" in value ? value.message : value;
}

/** The value of a field, `undefined` when it is unset and can be. */
function reader(field: DescField): (message: Message) => unknown {
  const { localName, oneof } = field;
  if (oneof !== undefined)
    return (message) => {
      const arm = (message as unknown as Plain)[oneof.localName] as {
        readonly case?: string;
        readonly value?: unknown;
      };
      return arm.case === localName ? arm.value : undefined;
    };
  const read = (message: Message): unknown => (message as unknown as Plain)[localName];
  const implicit =
    field.fieldKind === "list" ||
    field.fieldKind === "map" ||
    field.presence === FeatureSet_FieldPresence.IMPLICIT;
  return implicit ? read : (message) => (isFieldSet(message, field) ? read(message) : undefined);
}

function comparable(value: unknown): unknown {
  return value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value;
}

function under(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}

function kindOf(value: unknown): string {
  if (typeof value === "string") return value === "" ? "an empty string" : "another string";
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  return typeof value === "object" ? "another message" : `another ${typeof value}`;
}
