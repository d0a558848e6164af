// Generates the structural schema (OpenAPI 3 as Kubernetes restricts it) of policies from the tables that validate
// documents. It has no references, so a message that stands inside of itself, as in a nested circuit, is any object
// there. What such a schema cannot express is left to validation.

import type { JsonObject } from "#policy/compiled.ts";
import type { Field, Message, Range, Type } from "#policy/language/field.ts";
import { policy } from "#policy/language/policy.ts";
import { DURATION, TARGET_REFS, WHOLE, words } from "./policy-schema.ts";

/** The schema of what `spec` of a Policy resource holds. */
export function policyStructure(): JsonObject {
  const { properties, ...rest } = messageOf(policy, []);
  return { ...rest, properties: { targetRefs: targetRefs(), ...(properties as JsonObject) } };
}

/** Keeps unknown keys of a reference: one that is dropped, such as a namespace, would make it another reference. */
function targetRefs(): JsonObject {
  const { items, ...list } = TARGET_REFS;
  return {
    ...list,
    nullable: true,
    items: { ...(items as JsonObject), "x-kubernetes-preserve-unknown-fields": true },
  };
}

function messageOf(message: Message, around: readonly Message[]): JsonObject {
  if (around.includes(message)) return ANY_OBJECT;
  const inside = [...around, message];
  const fields = Object.entries(message.fields);
  const required = fields.flatMap(([name, field]) =>
    field.required && !field.fromTargets ? [name] : [],
  );
  return {
    type: "object",
    ...(required.length === 0 ? {} : { required }),
    properties: Object.fromEntries(fields.map(([name, field]) => [name, fieldOf(field, inside)])),
  };
}

const ANY_OBJECT: JsonObject = { type: "object", "x-kubernetes-preserve-unknown-fields": true };

function fieldOf(field: Field, around: readonly Message[]): JsonObject {
  const optional = field.required !== true;
  return {
    ...descriptionOf(field),
    ...typeOf(field.type, around, !optional),
    // A key without a value (null) counts as absent.
    ...(optional ? { nullable: true } : {}),
  };
}

/** Kubernetes has no word for what is deprecated; the description says it. */
function descriptionOf(field: Field): JsonObject {
  const { description } = words(field);
  return description === undefined ? {} : { description };
}

function typeOf(type: Type, around: readonly Message[], required: boolean): JsonObject {
  switch (type.kind) {
    case "message":
      return messageOf(type.of(), around);
    case "list":
      return {
        type: "array",
        items: typeOf(type.of.type, around, false),
        ...(type.filled ? { minItems: 1 } : {}),
      };
    case "map":
      return {
        type: "object",
        additionalProperties: typeOf(type.of.type, around, false),
        ...(type.filled ? { minProperties: 1 } : {}),
      };
    case "text":
      return {
        type: "string",
        ...(type.oneOf === undefined ? {} : { enum: type.oneOf }),
        ...((type.filled || required) && type.oneOf === undefined ? { minLength: 1 } : {}),
      };
    case "number":
      return { type: "number", ...bounds(type) };
    case "integer":
      return { "x-kubernetes-int-or-string": true, pattern: WHOLE };
    case "duration":
      return { type: "string", pattern: DURATION };
    case "enum":
      return {
        "x-kubernetes-int-or-string": true,
        enum: [...type.numbers.keys(), ...type.numbers.values()],
      };
    case "boolean":
      return { type: "boolean" };
    case "object":
      return ANY_OBJECT;
  }
}

function bounds({ min, max, above }: Range): JsonObject {
  const least = above ?? min;
  return {
    ...(least === undefined ? {} : { minimum: least }),
    ...(above === undefined ? {} : { exclusiveMinimum: true }),
    ...(max === undefined ? {} : { maximum: max }),
  };
}
