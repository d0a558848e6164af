// Generates the JSON Schema of the language (draft 7, which editors support best) from the tables that validate
// documents, so that editors complete, explain and underline. Rules that a schema cannot express (wiring,
// patterns, queries, rules between fields) are left to validation.

import type { JsonObject, JsonValue } from "#policy/compiled.ts";
import { MAX_TARGETS, OBJECT_NAME, TARGET_GROUP, TARGET_KINDS } from "#policy/document/targets.ts";
import { API_VERSION } from "#policy/document/wrappers.ts";
import type { Field, Message, Range, Type } from "#policy/language/field.ts";
import { policy } from "#policy/language/policy.ts";
import { valueJson } from "#policy/message.ts";

export function policySchema(): JsonObject {
  const definitions = new Definitions();
  const root = definitions.ref(policy);
  const object = { $ref: "#/definitions/PolicyObject" };
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Policy",
    description: "A policy, bare or as a Kubernetes object.",
    if: { anyOf: [{ required: ["apiVersion"] }, { required: ["kind"] }] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: {
      if: { properties: { kind: { const: "PolicyList" } } },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { $ref: "#/definitions/PolicyList" },
      else: object,
    },
    else: root,
    definitions: {
      PolicyObject: policyObject(definitions.message(policy)),
      PolicyList: {
        ...headed("PolicyList", { items: { type: "array", items: object } }),
        required: ["apiVersion", "kind", "items"],
      },
      ...definitions.all(),
    },
  };
}

function headed(kind: string, properties: JsonObject): JsonObject {
  return {
    type: "object",
    additionalProperties: false,
    properties: {
      apiVersion: { const: API_VERSION },
      kind: { const: kind },
      metadata: { type: "object" },
      ...properties,
    },
  };
}

const NAME: JsonObject = { type: "string", pattern: OBJECT_NAME };

/** The references of an object around a policy, as the Gateway API writes them. */
export const TARGET_REFS: JsonObject = {
  type: "array",
  description:
    "Gateways and HTTPRoutes of the same namespace whose requests the policy is about. Each is a control point, `gateway/NAMESPACE/NAME` or `httproute/NAMESPACE/NAME`, with `/SECTION` where `sectionName` is given; selectors that name no control point have those of all targets.",
  minItems: 1,
  maxItems: MAX_TARGETS,
  items: {
    type: "object",
    required: ["group", "kind", "name"],
    properties: {
      group: { type: "string", enum: [TARGET_GROUP], description: "Group of the Gateway API." },
      kind: { type: "string", enum: [...TARGET_KINDS], description: "What the name is one of." },
      name: { ...NAME, description: "Name of the Gateway or HTTPRoute." },
      sectionName: {
        ...NAME,
        description: "A listener of the Gateway, or a named rule of the HTTPRoute.",
      },
    },
  },
};

function policyObject(policy: JsonObject): JsonObject {
  const properties = { targetRefs: nullable(TARGET_REFS), ...(policy["properties"] as JsonObject) };
  const spec = { ...policy, properties };
  const name = {
    type: "string",
    pattern: "^[^/]+$",
    description: "Name of the policy.",
  };
  const about =
    "Values that override settings of the policy, by the configuration keys that the policy defines.";
  return {
    ...headed("Policy", {
      metadata: { type: "object", properties: { name } },
      spec,
      dynamicConfig: { type: ["object", "null"], description: about },
      status: {},
    }),
    required: ["apiVersion", "kind", "metadata", "spec"],
  };
}

/** Schemas of messages by name. A message whose name is already taken by another is written where it is used. */
class Definitions {
  readonly #schemas = new Map<string, JsonObject>();
  readonly #owners = new Map<string, Message>();

  ref(message: Message): JsonObject {
    const { name } = message;
    const owner = this.#owners.get(name);
    if (owner !== undefined && owner !== message) return this.message(message);
    if (owner === undefined) {
      this.#owners.set(name, message);
      this.#schemas.set(name, this.message(message));
    }
    return { $ref: `#/definitions/${name}` };
  }

  all(): JsonObject {
    return Object.fromEntries(
      [...this.#schemas].sort(([left], [right]) => (left < right ? -1 : 1)),
    );
  }

  message(message: Message): JsonObject {
    const fields = Object.entries(message.fields);
    const required = fields.flatMap(([name, field]) =>
      field.required && !field.fromTargets ? [name] : [],
    );
    return {
      type: "object",
      additionalProperties: false,
      ...(required.length === 0 ? {} : { required }),
      ...groupRules(message),
      properties: Object.fromEntries(fields.map(([name, field]) => [name, this.#field(field)])),
    };
  }

  #field(field: Field): JsonObject {
    const { type, required, group, default: value } = field;
    const own = this.#type(type, required === true);
    // A key without a value (null) counts as absent.
    const optional = required !== true && group === undefined;
    const described = "$ref" in own && !optional ? { allOf: [own] } : own;
    const plain = value !== undefined && value !== "" && !(value instanceof Map);
    return {
      ...words(field),
      ...(plain ? { default: valueJson(type, value) } : {}),
      ...(optional ? nullable(described) : described),
    };
  }

  #type(type: Type, required: boolean): JsonObject {
    switch (type.kind) {
      case "message":
        return this.ref(type.of());
      case "list":
        return {
          type: "array",
          items: this.#type(type.of.type, false),
          ...(type.filled ? { minItems: 1 } : {}),
        };
      case "map":
        return {
          type: "object",
          additionalProperties: this.#type(type.of.type, false),
          ...(type.filled ? { minProperties: 1 } : {}),
          ...keyRules(type.keys),
        };
      case "text":
        return textSchema(type, required);
      case "number":
        return numberSchema(type, "number", DECIMALS[type.special ?? "none"], required);
      case "integer":
        return numberSchema(type, "integer", WHOLE, required);
      case "duration":
        return { type: "string", pattern: type.positive ? POSITIVE_DURATION : DURATION };
      case "enum":
        return { enum: [...type.numbers.keys(), ...type.numbers.values()] };
      case "boolean":
      case "object":
        return { type: type.kind };
    }
  }
}

const DECIMAL = "-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?";
/** Numbers as text, by what they may be besides finite. */
const DECIMALS = {
  none: `^${DECIMAL}$`,
  infinities: `^(${DECIMAL}|-?Infinity)$`,
  all: `^(${DECIMAL}|NaN|-?Infinity)$`,
} as const;
export const WHOLE = "^[-+]?[0-9]+$";
export const DURATION = "^[0-9]{1,12}(\\.[0-9]{1,9})?s$";
const POSITIVE_DURATION = "^(?!0+(\\.0+)?s$)[0-9]{1,12}(\\.[0-9]{1,9})?s$";

/** The description of a field in a schema, and whether the field is deprecated. */
export function words({ about, deprecated, published }: Field): JsonObject {
  const old =
    deprecated === undefined
      ? ""
      : deprecated === ""
        ? "Deprecated."
        : `Deprecated: use ${deprecated}.`;
  const parts = [about ?? "", old, published ? "Agents of this version do not act on it." : ""];
  const description = parts.filter((part) => part !== "").join(" ");
  return {
    ...(description === "" ? {} : { description }),
    ...(deprecated === undefined ? {} : { deprecated: true }),
  };
}

function nullable(schema: JsonObject): JsonObject {
  if (typeof schema["type"] === "string" && schema["enum"] === undefined) {
    return { ...schema, type: [schema["type"], "null"] };
  }
  if (Array.isArray(schema["type"])) return { ...schema, type: [...schema["type"], "null"] };
  return { anyOf: [schema, { type: "null" }] };
}

/** At most one member of each group; exactly one where the group is required. */
function groupRules({ fields, oneOf }: Message): JsonObject {
  const groups = new Map<string, string[]>();
  for (const [name, { group }] of Object.entries(fields)) {
    if (group !== undefined) groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  const rules = [...groups].map(([group, names]): JsonObject => {
    const needed = group in oneOf;
    const least = needed ? { minProperties: 1 } : {};
    if (names.length === Object.keys(fields).length) return { ...least, maxProperties: 1 };
    const each: JsonValue[] = names.map((name) => ({ required: [name] }));
    return { oneOf: needed ? each : [...each, { not: { anyOf: each } }] };
  });
  const [only] = rules;
  if (only === undefined) return {};
  return rules.length === 1 ? only : { allOf: rules };
}

function keyRules(type: Type): JsonObject {
  if (type.kind !== "text") return {};
  const { type: _, ...rules } = textSchema(type, false);
  return Object.keys(rules).length === 0 ? {} : { propertyNames: rules };
}

function textSchema(type: Type & { readonly kind: "text" }, required: boolean): JsonObject {
  const filled = type.filled || required;
  const pattern = type.labelName
    ? "^[A-Za-z_][0-9A-Za-z_]*$"
    : type.noSlash
      ? "^[^/]*$"
      : type.form?.pattern;
  return {
    type: "string",
    ...(type.oneOf === undefined ? {} : { enum: type.oneOf }),
    ...(filled && type.oneOf === undefined ? { minLength: 1 } : {}),
    ...(pattern === undefined ? {} : { pattern }),
  };
}

/** Numbers may be written as text; the schema checks bounds only for those that are not. */
function numberSchema(range: Range, type: string, pattern: string, required: boolean): JsonObject {
  const { min, max, above } = range;
  return {
    type: [type, "string"],
    pattern,
    ...(min === undefined ? {} : { minimum: min }),
    ...(max === undefined ? {} : { maximum: max }),
    ...(above === undefined ? {} : { exclusiveMinimum: above }),
    ...(required ? { not: { enum: [0, "0"] } } : {}),
  };
}
