// Requests of the policy service as JSON objects with the field names of the messages, and the fields in them. All
// functions throw a Fault INVALID_ARGUMENT that names the field, what was wanted and what was got.

import { Fault } from "#base/fault.ts";
import { parseBody } from "#wire/json/strict.ts";

export type Json = Readonly<Record<string, unknown>>;

/** The request of a JSON route. Parameters of the path win over the body. */
export function requestOf(body: Uint8Array, params: Readonly<Record<string, string>>): Json {
  return { ...envelope(body), ...fieldsOf(params) };
}

/** Requests have the name in one of two fields. */
function fieldsOf({ name, ...others }: Readonly<Record<string, string>>): Json {
  return name === undefined ? others : { name, policy_name: name, ...others };
}

const SPELLINGS: Readonly<Record<string, string>> = {
  policyName: "policy_name",
  policyString: "policy_string",
  dynamicConfig: "dynamic_config",
};

/** The members of a request, in either spelling. Unknown ones are ignored; the document is judged later. */
function envelope(body: Uint8Array): Json {
  const value = parseBody(body)?.value;
  if (value === undefined) return {};
  if (!isObject(value)) throw new Fault("INVALID_ARGUMENT", "the body must be a JSON object");
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [spelled(key), member] as const),
  );
}

function spelled(key: string): string {
  return (Object.hasOwn(SPELLINGS, key) ? SPELLINGS[key] : undefined) ?? key;
}

/** A field of text; empty where it is absent. */
export function textField(request: Json, key: string): string {
  const value = request[key] ?? "";
  if (typeof value !== "string") throw wanted(key, "text", kindOf(value));
  return value;
}

/** The name of a policy, never empty. It becomes a part of store keys. */
export function policyNameOf(request: Json, key: string): string {
  const name = textField(request, key);
  if (name === "") throw wanted(key, "a name", "nothing");
  if (name.includes("/")) throw wanted(key, "a name without `/`", "one with it");
  return name;
}

/** The document of an UpsertPolicyRequest: a text, or an object in the older field. */
export function documentOf(request: Json): string {
  const text = textField(request, "policy_string");
  const object = request["policy"] ?? undefined;
  if (object === undefined) {
    if (text.trim() !== "") return text;
    throw wanted("policy_string", "a policy as YAML or JSON", "nothing");
  }
  if (!isObject(object)) throw wanted("policy", "an object", kindOf(object));
  if (text !== "") throw wanted("policy", "nothing beside policy_string", "both");
  return JSON.stringify(object);
}

/** The configuration of a PostDynamicConfigRequest. */
export function configOf(request: Json): Json {
  const config = request["dynamic_config"];
  if (!isObject(config)) throw wanted("dynamic_config", "an object", kindOf(config));
  return config;
}

/** Number of composite levels to open: a whole number, or infinite for `all`. */
export function depthOf(text: string): number {
  if (text === "all") return Number.POSITIVE_INFINITY;
  if (/^\d{1,3}$/.test(text)) return Number(text);
  throw wanted("depth", "a whole number, or `all`", JSON.stringify(text));
}

export function wanted(key: string, what: string, got: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${key}: wanted ${what}, got ${got}`);
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
