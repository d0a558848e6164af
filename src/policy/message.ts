// Validated values as protojson with proto field names: enums by name, durations as "1s". Agents are sent the
// compact form; the API and the store use the full form, which has every field.

import type { JsonObject, JsonValue } from "./compiled.ts";
import type { Field, Message, Type } from "./language/field.ts";
import { type Policy, policy } from "./language/policy.ts";

type Form = "compact" | "full";

/** A document in the form in which its wrapper message carries it. */
export function compactPolicy(document: Policy): JsonObject {
  return messageJson(policy, document, "compact");
}

/** A document as it is stored and shown: as it was written, with defaults filled in. */
export function fullPolicy(document: Policy): JsonObject {
  return messageJson(policy, document, "full");
}

/** Leaves out absent parts, empty lists and empty maps. */
export function compactMessage<V>(message: Message<V>, value: V): JsonObject {
  return messageJson(message, value, "compact");
}

/**
 * The full form has `null` for an absent message, and only the present arm of a oneof. `fromEntries` defines
 * properties, so `__proto__` stays an ordinary key.
 */
function messageJson(message: Message, value: unknown, form: Form): JsonObject {
  const members = value as Readonly<Record<string, unknown>>;
  const entries: [string, JsonValue][] = [];
  for (const [name, field] of Object.entries(message.fields)) {
    const member = members[name];
    const json = member === undefined ? absent(field, form) : typeJson(field.type, member, form);
    if (json !== undefined && !(form === "compact" && isEmpty(json, field.type))) {
      entries.push([name, json]);
    }
  }
  return Object.fromEntries(entries);
}

/** The full form of a validated value of any type. */
export function valueJson(type: Type, value: unknown): JsonValue {
  return typeJson(type, value, "full");
}

/** JSON of an absent field. A text or number without a default is a oneof of one arm, so it stays absent. */
function absent({ type, group }: Field, form: Form): JsonValue | undefined {
  if (form === "compact" || group !== undefined) return undefined;
  const nullable = type.kind === "message" || type.kind === "duration" || type.kind === "object";
  return nullable ? null : undefined;
}

function isEmpty(json: JsonValue, { kind }: Type): boolean {
  if (kind === "list") return Array.isArray(json) && json.length === 0;
  return kind === "map" && json !== null && Object.keys(json).length === 0;
}

function typeJson(type: Type, value: unknown, form: Form): JsonValue {
  switch (type.kind) {
    case "message":
      return messageJson(type.of(), value, form);
    case "list":
      return (value as readonly unknown[]).map((item) => typeJson(type.of.type, item, form));
    case "map":
      return Object.fromEntries(
        [...(value as ReadonlyMap<string, unknown>)].map(([key, item]) => [
          key,
          typeJson(type.of.type, item, form),
        ]),
      );
    case "duration":
      return durationText(value as number);
    case "enum":
      return enumName(type.numbers, value as number);
    case "number":
      return Number.isFinite(value) ? (value as number) : String(value);
    case "integer":
      return typeof value === "bigint" ? String(value) : (value as number);
    case "text":
    case "boolean":
    case "object":
      return value as JsonValue;
  }
}

function enumName(numbers: ReadonlyMap<string, number>, value: number): JsonValue {
  for (const [name, number] of numbers) if (number === value) return name;
  return value;
}

/** Seconds with 0, 3, 6 or 9 decimals, as canonical protojson requires. */
export function durationText(ms: number): string {
  const nanos = BigInt(Math.round(Math.abs(ms) * 1e6));
  const fraction = String(nanos % 1_000_000_000n)
    .padStart(9, "0")
    .replace(/(?:000){1,3}$/, "");
  const sign = ms < 0 && nanos > 0n ? "-" : "";
  return `${sign}${nanos / 1_000_000_000n}${fraction === "" ? "" : `.${fraction}`}s`;
}

/** Canonical JSON of validated documents: documents with the same meaning give the same text, whatever their key order, syntax or spelled-out defaults. The policy hash is computed from it. */
export function canonicalJson(value: unknown): string {
  if (typeof value === "bigint") return `"${value}"`;
  // `String(-0)` is "0": both zeros mean the same.
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : `"${value}"`;
  if (value === null || typeof value !== "object") return JSON.stringify(value ?? null);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  const members = entries
    .filter(([, inner]) => inner !== undefined)
    .map(([key, inner]) => `${JSON.stringify(key)}:${canonicalJson(inner)}`);
  return `{${members.sort().join(",")}}`;
}
