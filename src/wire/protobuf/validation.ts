// Validates messages by the rules in their proto files (protoc-gen-validate, PGV), which are read from the descriptors.
// The policy service uses it; the check operations are hot and validate their few rules by hand. Imports
// @bufbuild/protobuf, so import this file lazily.

import {
  type DescExtension,
  type DescField,
  type DescMessage,
  getOption,
  hasOption,
  type MessageShape,
} from "@bufbuild/protobuf";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { Fault } from "#base/fault.ts";
import { registry, schemaOf } from "./descriptors.ts";

/** A rule that a message breaks. Contains no value and no map key of the input. */
interface FieldViolation {
  /** Path of the field, such as `source.port`, `items[2]` or `labels{}`. */
  readonly field: string;
  readonly wanted: string;
  /** Kind of the value, such as "an empty string". */
  readonly got: string;
}

/** A constraint on one value, and its wording in error messages. */
interface Constraint {
  readonly wanted: string;
  readonly holds: (value: unknown) => boolean;
}

/** The rules that proto files of Sluice use, by kind and name. */
const CONSTRAINTS: Readonly<Record<string, (rule: unknown, field: DescField) => Constraint>> = {
  "string.min_len": (least) => ({
    wanted: `a string of at least ${least} character${least === 1n ? "" : "s"}`,
    holds: (value) => [...String(value)].length >= Number(least),
  }),
  "uint32.lte": (most) => ({
    wanted: `a number of at most ${most}`,
    holds: (value) => Number(value) <= Number(most),
  }),
  "int64.gt": (bound) => ({
    wanted: `a number of more than ${bound}`,
    holds: (value) => (value as bigint) > (bound as bigint),
  }),
  "enum.defined_only": (_, field) => ({
    wanted: "a value that the enum defines",
    holds: (value) => field.enum?.values.some(({ number }) => number === value) === true,
  }),
  "message.required": (_, { message }) => ({
    // A Struct is a JSON object to its callers.
    wanted: message?.typeName === "google.protobuf.Struct" ? "an object" : "a message",
    holds: (value) => value !== undefined,
  }),
};

const FIELD_RULES = schemaOf("validate.FieldRules");
const RULES = option("validate.rules");
const DISABLED = option("validate.disabled");
const REQUIRED = option("validate.required");

function option(name: string): DescExtension {
  const extension = registry.getExtension(name);
  if (extension === undefined) throw new Error(`${name} is not a known option`);
  return extension;
}

/** @throws Fault INVALID_ARGUMENT that names each field that breaks a rule, what was wanted and what was got */
export function validate<Desc extends DescMessage>(
  schema: Desc,
  message: MessageShape<Desc>,
): void {
  const violations = violationsOf(schema, message);
  if (violations.length === 0) return;
  const lines = violations.map(
    ({ field, wanted, got }) => `${field}: wanted ${wanted}, got ${got}`,
  );
  throw new Fault("INVALID_ARGUMENT", lines.join("; "));
}

/**
 * The rules that a message, or a message in it, breaks.
 * @throws Error for a rule that `CONSTRAINTS` lacks: none is silently skipped
 */
export function violationsOf<Desc extends DescMessage>(
  schema: Desc,
  message: MessageShape<Desc>,
): readonly FieldViolation[] {
  const violations: FieldViolation[] = [];
  visit(reflect(schema, message), "", violations);
  return violations;
}

function visit(message: ReflectMessage, path: string, violations: FieldViolation[]): void {
  const { desc } = message;
  if (desc.typeName.startsWith("google.protobuf.")) return;
  if (hasOption(desc, DISABLED)) throw new Error("validate.disabled is not supported");
  if (desc.oneofs.some((oneof) => hasOption(oneof, REQUIRED)))
    throw new Error("validate.required is not supported");
  for (const field of desc.fields) {
    const at = path === "" ? field.name : `${path}.${field.name}`;
    const value = presentValue(message, field);
    for (const { wanted, holds } of constraintsOf(field)) {
      const isJudged = value !== undefined || field.fieldKind === "message";
      if (isJudged && !holds(value)) violations.push({ field: at, wanted, got: kindOf(value) });
    }
    visitMessages(field, value, at, violations);
  }
}

/** The value of a field; undefined for a message, an arm of a oneof or an optional field that is unset. */
function presentValue(message: ReflectMessage, field: DescField): unknown {
  const isImplicit = field.oneof === undefined && !field.proto.proto3Optional;
  const isSet = message.isSet(field) || (isImplicit && field.fieldKind !== "message");
  return isSet ? message.get(field) : undefined;
}

/** @throws Error for a rule that `CONSTRAINTS` lacks */
export function constraintsOf(field: DescField): readonly Constraint[] {
  if (!hasOption(field, RULES)) return [];
  const rules = reflect(FIELD_RULES, getOption(field, RULES) as MessageShape<typeof FIELD_RULES>);
  return rules.fields
    .filter((kind) => rules.isSet(kind))
    .flatMap((kind) => {
      const set = rules.get(kind) as ReflectMessage;
      return set.fields
        .filter((rule) => set.isSet(rule))
        .map((rule) => {
          const make = CONSTRAINTS[`${kind.name}.${rule.name}`];
          if (make === undefined)
            throw new Error(`validation rule ${kind.name}.${rule.name} is not supported`);
          return make(set.get(rule), field);
        });
    });
}

function visitMessages(
  field: DescField,
  value: unknown,
  path: string,
  violations: FieldViolation[],
): void {
  if (value === undefined || field.message === undefined) return;
  if (field.fieldKind === "message") visit(value as ReflectMessage, path, violations);
  else if (field.fieldKind === "list") {
    for (const [index, item] of [...(value as Iterable<ReflectMessage>)].entries())
      visit(item, `${path}[${index}]`, violations);
  } else if (field.fieldKind === "map") {
    for (const [, item] of value as Iterable<[unknown, ReflectMessage]>)
      visit(item, `${path}{}`, violations);
  }
}

function kindOf(value: unknown): string {
  if (value === undefined) return "nothing";
  return value === "" ? "an empty string" : `another ${typeof value}`;
}
