// Canonical JSON of protobuf messages: proto names, every field written, `null` for an unset message, and of a oneof only
// the member that is set. For JSON routes that are not hot; tests compare the hand-written readers and writers with it.
// Imports @bufbuild/protobuf, so import this file lazily.

import {
  toJson as canonical,
  type DescEnum,
  type DescField,
  type DescMessage,
  fromBinary,
  fromJson,
  fromJsonString,
  isMessage,
  type JsonObject,
  type JsonValue,
  type MessageShape,
  type Registry,
  ScalarType,
  toBinary,
} from "@bufbuild/protobuf";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { AnySchema, anyUnpack, EmptySchema } from "@bufbuild/protobuf/wkt";
import { Fault } from "#base/fault.ts";

interface JsonOptions {
  /** Needed when the message holds a `google.protobuf.Any`. */
  readonly registry?: Registry;
}

/** Maximum nesting of objects and lists in a body. */
const MAX_DEPTH = 64;

/** A message as a JSON value. */
export function toJson<Desc extends DescMessage>(
  schema: Desc,
  message: MessageShape<Desc>,
  { registry }: JsonOptions = {},
): JsonValue {
  const json = canonical(schema, message, {
    useProtoFieldName: true,
    alwaysEmitImplicit: true,
    ...(registry === undefined ? {} : { registry }),
  });
  return withNulls(reflect(schema, message), json, registry);
}

/**
 * Reads a message from JSON text: field names in snake_case or camelCase, unknown fields ignored, int64 as number or
 * string, enums by name or number.
 * @throws Fault INVALID_ARGUMENT that names the field, what was wanted and the kind of what was got
 */
export function readJson<Desc extends DescMessage>(
  schema: Desc,
  body: string | Uint8Array,
  { registry }: JsonOptions = {},
): MessageShape<Desc> {
  const json = normalize(schema, parse(textOf(body)), "");
  try {
    return fromJson(schema, json as JsonValue, {
      ignoreUnknownFields: true,
      recursionLimit: MAX_DEPTH,
      ...(registry === undefined ? {} : { registry }),
    });
  } catch (cause) {
    throw new Fault("INVALID_ARGUMENT", `${fieldOf(cause)}: wanted a value of its type and range`, {
      cause,
    });
  }
}

/** Converts a serialized message to JSON text. */
export function binaryToJson(
  schema: DescMessage,
  bytes: Uint8Array,
  options?: JsonOptions,
): string {
  return JSON.stringify(toJson(schema, fromBinary(schema, bytes), options));
}

/** Converts JSON text to a serialized message. Throws as `readJson`. */
export function jsonToBinary(
  schema: DescMessage,
  body: string | Uint8Array,
  options?: JsonOptions,
): Uint8Array {
  return toBinary(schema, readJson(schema, body, options));
}

// --- writing ---

/** Adds `null` for unset messages, and sorts the fields by number. */
function withNulls(
  message: ReflectMessage,
  json: JsonValue,
  registry: Registry | undefined,
): JsonValue {
  if (!isObject(json)) return json;
  const { desc } = message;
  if (desc.typeName === AnySchema.typeName) return insideAny(message, json, registry);
  if (desc.typeName.startsWith("google.protobuf.")) return json;
  const entries: [string, JsonValue][] = [];
  for (const field of [...desc.fields].sort((a, b) => a.number - b.number)) {
    const value = json[field.name];
    if (value !== undefined) entries.push([field.name, within(message, field, value, registry)]);
    else if (field.fieldKind === "message" && field.oneof === undefined)
      entries.push([field.name, null]);
  }
  return Object.fromEntries(entries);
}

function within(
  message: ReflectMessage,
  field: DescField,
  json: JsonValue,
  registry: Registry | undefined,
): JsonValue {
  if (field.fieldKind === "message") return withNulls(message.get(field), json, registry);
  if (field.fieldKind === "list" && field.listKind === "message" && Array.isArray(json)) {
    const list = message.get(field);
    return json.map((item, index) => {
      const member = list.get(index);
      return isReflected(member) ? withNulls(member, item, registry) : item;
    });
  }
  if (field.fieldKind === "map" && field.mapKind === "message" && isObject(json)) {
    const entries = [...message.get(field)].map(([key, value]): [string, JsonValue] => {
      const item = json[String(key)] ?? null;
      return [String(key), isReflected(value) ? withNulls(value, item, registry) : item];
    });
    return Object.fromEntries(entries);
  }
  return json;
}

/** Does the same to the message inside an Any, unless it is written as a single `value`. */
function insideAny(
  message: ReflectMessage,
  json: JsonObject,
  registry: Registry | undefined,
): JsonValue {
  const any = message.message;
  if (registry === undefined || !isMessage(any, AnySchema)) return json;
  const held = anyUnpack(any, registry);
  const schema = held === undefined ? undefined : registry.getMessage(held.$typeName);
  if (held === undefined || schema === undefined) return json;
  const { "@type": type = "", ...rest } = json;
  const inner = withNulls(reflect(schema, held), rest, registry);
  return isObject(inner) ? { "@type": type, ...inner } : json;
}

function isReflected(value: unknown): value is ReflectMessage {
  return typeof value === "object" && value !== null && "desc" in value && "message" in value;
}

// --- reading ---

/** A parsed JSON value. Integers that a double cannot represent are bigint. */
type Parsed = null | boolean | number | string | bigint | Parsed[] | { [key: string]: Parsed };

function textOf(body: string | Uint8Array): string {
  if (typeof body === "string") return body;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch (cause) {
    throw new Fault("INVALID_ARGUMENT", "wanted JSON in UTF-8, got other bytes", { cause });
  }
}

function parse(text: string): Parsed {
  if (depthOf(text) > MAX_DEPTH)
    throw new Fault("INVALID_ARGUMENT", `wanted JSON nested at most ${MAX_DEPTH} deep, got deeper`);
  try {
    // The library refuses duplicate keys, which JSON.parse accepts. Under a key that is no field of an empty message,
    // it only checks the text.
    fromJsonString(EmptySchema, `{"":${text}}`, { ignoreUnknownFields: true });
    return JSON.parse(text, exactIntegers);
  } catch (cause) {
    throw new Fault("INVALID_ARGUMENT", "wanted JSON without duplicate keys, got other text", {
      cause,
    });
  }
}

function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '"') quoted = !quoted;
    else if (quoted && char === "\\") at++;
    else if (quoted) continue;
    else if (char === "{" || char === "[") deepest = Math.max(deepest, ++depth);
    else if (char === "}" || char === "]") depth--;
  }
  return deepest;
}

function exactIntegers(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
  const source = context?.source ?? "";
  return /^-?\d+$/.test(source) ? BigInt(source) : value;
}

/**
 * Walks JSON along its message type. Refuses values of the wrong kind and unknown enum names, which the library would
 * skip together with unknown fields, and converts large integers to the form that the library reads without loss.
 */
function normalize(desc: DescMessage, json: Parsed, path: string): Parsed {
  if (desc.typeName.startsWith("google.protobuf.")) return narrow(json);
  if (!isObject(json)) throw refused(path, "an object", json);
  const fields = new Map(
    desc.fields.flatMap((f) => [[f.name, f] as const, [f.jsonName, f] as const]),
  );
  return mapValues(json, (value, key) => {
    const field = fields.get(key);
    if (field === undefined) return null;
    return normalizeField(field, value, path === "" ? field.name : `${path}.${field.name}`);
  });
}

function normalizeField(field: DescField, json: Parsed, path: string): Parsed {
  if (json === null) return json;
  switch (field.fieldKind) {
    case "scalar":
      return normalizeScalar(field.scalar, json, path);
    case "enum":
      return normalizeEnum(field.enum, json, path);
    case "message":
      return normalize(field.message, json, path);
    case "list":
      if (!Array.isArray(json)) throw refused(path, "a list", json);
      return json.map((item, index) => normalizeItem(field, item, `${path}[${index}]`));
    case "map":
      if (!isObject(json)) throw refused(path, "an object", json);
      return mapValues(json, (item) => normalizeItem(field, item, `${path}{}`));
  }
}

function normalizeItem(
  field: DescField & { fieldKind: "list" | "map" },
  json: Parsed,
  path: string,
): Parsed {
  if (field.message !== undefined)
    return json === null ? json : normalize(field.message, json, path);
  if (field.enum !== undefined) return normalizeEnum(field.enum, json, path);
  return normalizeScalar(field.scalar, json, path);
}

const INT64: ReadonlySet<ScalarType> = new Set([
  ScalarType.INT64,
  ScalarType.UINT64,
  ScalarType.SINT64,
  ScalarType.FIXED64,
  ScalarType.SFIXED64,
]);

function normalizeScalar(scalar: ScalarType, json: Parsed, path: string): Parsed {
  const textual = scalar === ScalarType.STRING || scalar === ScalarType.BYTES;
  if (textual && typeof json !== "string") throw refused(path, "a string", json);
  if (scalar === ScalarType.BOOL && typeof json !== "boolean")
    throw refused(path, "a boolean", json);
  if (textual || scalar === ScalarType.BOOL) return json;
  if (typeof json === "bigint") return INT64.has(scalar) ? String(json) : Number(json);
  if (typeof json !== "number" && typeof json !== "string") throw refused(path, "a number", json);
  return json;
}

function normalizeEnum(desc: DescEnum, json: Parsed, path: string): Parsed {
  const known = typeof json !== "string" || desc.values.some(({ name }) => name === json);
  const number = typeof json === "number" && Number.isInteger(json);
  if (desc.typeName === "google.protobuf.NullValue" && json === null) return json;
  if (known && (number || typeof json === "string")) return json;
  throw refused(path, `a name or number of ${desc.typeName}`, json);
}

/** Converts bigints to numbers, for values that stay JSON. */
function narrow(json: Parsed): Parsed {
  if (typeof json === "bigint") return Number(json);
  if (Array.isArray(json)) return json.map(narrow);
  return isObject(json) ? mapValues(json, narrow) : json;
}

/** Maps the members of an object. `Object.fromEntries` defines keys, so `__proto__` stays an ordinary one. */
function mapValues(
  json: { [key: string]: Parsed },
  change: (value: Parsed, key: string) => Parsed,
): { [key: string]: Parsed } {
  return Object.fromEntries(Object.entries(json).map(([key, value]) => [key, change(value, key)]));
}

function isObject<Value>(json: Value): json is Extract<Value, { [key: string]: unknown }> {
  return typeof json === "object" && json !== null && !Array.isArray(json);
}

function refused(path: string, wanted: string, json: Parsed): Fault {
  const got = json === null ? "null" : Array.isArray(json) ? "a list" : `${typeof json}`;
  return new Fault(
    "INVALID_ARGUMENT",
    `${path === "" ? "body" : path}: wanted ${wanted}, got ${got}`,
  );
}

/** Name of the field in the library's error. The error's message is not used, because it repeats the input. */
function fieldOf(thrown: unknown): string {
  const cause = thrown instanceof Error ? thrown.cause : undefined;
  if (!(cause instanceof Error && "field" in cause && typeof cause.field === "function"))
    return "body";
  return String(cause.field()).replace(/^\w+ /, "");
}
