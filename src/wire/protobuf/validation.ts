// Validates messages by the rules in their proto files (protoc-gen-validate, PGV). Rules are read from the
// descriptors and compiled to closures. The policy service uses it; the check operations are hot and validate their
// few rules by hand. Imports @bufbuild/protobuf, so import this file lazily.

import {
  type DescExtension,
  type DescField,
  type DescMessage,
  type DescOneof,
  getOption,
  hasOption,
  isFieldSet,
  type Message,
  type MessageShape,
} from "@bufbuild/protobuf";
import type { GenExtension } from "@bufbuild/protobuf/codegenv2";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import {
  FeatureSet_FieldPresence,
  type FieldOptions,
  type MessageOptions,
  type OneofOptions,
} from "@bufbuild/protobuf/wkt";
import { Fault } from "#base/fault.ts";
import type { MessagesByName } from "#gen/messages-by-name.ts";
import { registry, schemaOf } from "./descriptors.ts";
import { CONSTRAINTS, type Constraint, count, type Rules } from "./validation/constraints.ts";

type FieldRules = MessagesByName["validate.FieldRules"];

const FieldRulesSchema = schemaOf("validate.FieldRules");
const rulesOption = option("rules") as GenExtension<FieldOptions, FieldRules>;
const required = option("required") as GenExtension<OneofOptions, boolean>;
const disabled = option("disabled") as GenExtension<MessageOptions, boolean>;

function option(name: string): DescExtension {
  const extension = registry.getExtension(`validate.${name}`);
  if (extension === undefined) throw new Error(`validate.${name} is not a known option`);
  return extension;
}

/** A rule that a message breaks. Contains no value and no map key of the input. */
export interface FieldViolation {
  /** Path of the field, such as `source.port`, `items[2]`, `labels{}` (a value) or `labels{key}`. */
  readonly field: string;
  readonly wanted: string;
  /** Kind of the value, such as "an empty string". */
  readonly got: string;
}

type Report = (violation: FieldViolation) => void;
type Judge = (value: unknown, path: string, report: Report) => void;
type Plain = Readonly<Record<string, unknown>>;

/** Validates messages of any type; compiles the rules of a type when its first message comes. */
export class MessageValidator {
  readonly #rules = new Map<DescMessage, (message: Message) => readonly FieldViolation[]>();

  /** @throws Fault INVALID_ARGUMENT that names each field that breaks a rule, what was wanted and what was got */
  validate(schema: DescMessage, message: Message): void {
    let rules = this.#rules.get(schema);
    if (rules === undefined) {
      rules = compileRules(schema);
      this.#rules.set(schema, rules);
    }
    const violations = rules(message);
    if (violations.length > 0) throw violationFault(violations);
  }
}

/**
 * Compiles the rules of a message type, and of the messages in it, to a function that lists the violations.
 * @throws Error for a rule without an implementation, so that none is silently skipped
 */
export function compileRules<Desc extends DescMessage>(
  schema: Desc,
): (message: MessageShape<Desc>) => readonly FieldViolation[] {
  const judge = messageJudge(schema, new Map());
  return (message) => {
    const violations: FieldViolation[] = [];
    judge(message, "", (violation) => violations.push(violation));
    return violations;
  };
}

function violationFault(violations: readonly FieldViolation[]): Fault {
  const lines = violations.map(
    ({ field, wanted, got }) => `${field}: wanted ${wanted}, got ${got}`,
  );
  return new Fault("INVALID_ARGUMENT", lines.join("; "));
}

/** `known` ends the recursion of message types that contain themselves. */
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
      report({ field: under(path, oneof.name), wanted: "one of its fields", got: "none" });
  };
}

/** Undefined when the field cannot break a rule. */
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
    else if (needed)
      report({ field: under(path, field.name), wanted: nounOf(field), got: "nothing" });
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

/** Judges one value: a singular field, an item of a list, a key or value of a map. */
function valueJudge(
  { message, enum: enumeration }: Pick<DescField, "message" | "enum">,
  rules: FieldRules | undefined,
  known: Map<string, Judge>,
): Judge | undefined {
  const kind = rules?.type.case ?? "";
  const make = CONSTRAINTS[kind];
  if (kind !== "" && make === undefined) throw new Error(`validation of ${kind} is out of place`);
  const numbers = enumeration?.values.map(({ number }) => number) ?? [];
  const constraints = make?.(rulesOf(rules), numbers) ?? [];
  const inner =
    message === undefined || rules?.message?.skip ? undefined : messageJudge(message, known);
  if (constraints.length === 0 && inner === undefined) return undefined;
  return (value, path, report) => {
    for (const { wanted, holds } of constraints)
      if (!holds(value)) report({ field: path, wanted, got: kindOf(value) });
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
  const counts = sizeChecks(given, "min_items", "max_items", "item");
  const unique = given.get("unique") === true;
  if (judge === undefined && counts.length === 0 && !unique) return undefined;
  return (value, path, report) => {
    const list = value as readonly unknown[];
    for (const { wanted, holds } of counts)
      if (!holds(list.length)) report({ field: path, wanted, got: count(list.length, "item") });
    if (unique && new Set(list.map(comparable)).size < list.length)
      report({ field: path, wanted: "unique items", got: "equal ones" });
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
  const counts = sizeChecks(rulesOf(rules), "min_pairs", "max_pairs", "pair");
  if (keys === undefined && values === undefined && counts.length === 0) return undefined;
  return (value, path, report) => {
    const entries = Object.entries(value as Plain);
    for (const { wanted, holds } of counts)
      if (!holds(entries.length))
        report({ field: path, wanted, got: count(entries.length, "pair") });
    for (const [key, item] of entries) {
      keys?.(key, `${path}{key}`, report);
      values?.(item, `${path}{}`, report);
    }
  };
}

function sizeChecks(rules: Rules, least: string, most: string, noun: string): Constraint[] {
  const [low, high] = [rules.get(least), rules.get(most)];
  const constraints: Constraint[] = [];
  if (low !== undefined) {
    constraints.push({
      wanted: `at least ${count(low, noun)}`,
      holds: (size) => Number(size) >= Number(low),
    });
  }
  if (high !== undefined) {
    constraints.push({
      wanted: `at most ${count(high, noun)}`,
      holds: (size) => Number(size) <= Number(high),
    });
  }
  return constraints;
}

/** Whether an unset field breaks a rule. Messages, durations, timestamps and Any each have their own `required`. */
function isRequired(rules: FieldRules | undefined): boolean {
  if (rules === undefined) return false;
  return (rules.message?.required ?? false) || rulesOf(rules).get("required") === true;
}

/**
 * The rules that are set, by name. The rules are a proto2 message, whose unset fields read as zero: without the test
 * for presence, an unset `max_len` would refuse every string.
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
      rule.fieldKind === "list"
        ? [...(value as Iterable<unknown>)].map(unreflected)
        : unreflected(value),
    );
  }
  return set;
}

/** The message behind a reflected one; other values unchanged. */
function unreflected(value: unknown): unknown {
  return typeof value === "object" && value !== null && "message" in value ? value.message : value;
}

/** A function that reads a field; undefined when the field tracks presence and is unset. */
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

/** A Struct is a JSON object to its callers. */
function nounOf(field: DescField): string {
  return field.message?.typeName === "google.protobuf.Struct" ? "an object" : "a message";
}

function kindOf(value: unknown): string {
  if (typeof value === "string") return value === "" ? "an empty string" : "another string";
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  return typeof value === "object" ? "another message" : `another ${typeof value}`;
}
