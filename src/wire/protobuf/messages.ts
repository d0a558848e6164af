// Encodes and decodes every message that is not on the hot path, by full name, with the types of `message-types.ts`.

import { readFileSync } from "node:fs";
import protobuf from "protobufjs/light.js";
import { formatSeconds, parseSeconds } from "#base/duration.ts";
import { Fault } from "#base/fault.ts";
import { camelCase, DESCRIPTOR_SET, Definitions } from "./definitions.ts";
import type { Decoded, Encodable, MessageName } from "./message-types.ts";

/** `google.protobuf.Duration`. Both parts have the same sign. */
export interface WireDuration {
  readonly seconds: bigint;
  readonly nanos: number;
}

const definitions = new Definitions(readFileSync(DESCRIPTOR_SET));

/** Encodes a message. Set only one member of a oneof: of several, readers keep the one with the highest number. */
export function encode<Name extends MessageName>(name: Name, message: Encodable<Name>): Uint8Array {
  const type = definitions.type(name);
  return type.encode(type.fromObject(message)).finish();
}

/**
 * Decodes a message. Drops unknown fields; int64 becomes bigint. The result shares no memory with `bytes`.
 * @throws Fault INVALID_ARGUMENT when the bytes are not a message of this type
 */
export function decode<Name extends MessageName>(name: Name, bytes: Uint8Array): Decoded<Name>;
export function decode(name: MessageName, bytes: Uint8Array): unknown {
  const type = definitions.type(name);
  try {
    return type.toObject(type.decode(Buffer.from(bytes)), { defaults: true, longs: BigInt });
  } catch (cause) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `wanted a serialized ${name}, got ${bytes.length} bytes that are not one`,
      { cause },
    );
  }
}

/**
 * A message as compact JSON for people: lowerCamelCase names, fields with their default value left out, int64
 * as text, durations such as "1.5s", timestamps as RFC 3339 with microseconds, NaN and infinities as text.
 */
export function compactJson<Name extends MessageName>(
  name: Name,
  message: Encodable<Name>,
): Readonly<Record<string, unknown>> {
  return compactMessage(definitions.type(name), message);
}

function compactMessage(type: protobuf.Type, message: object): Record<string, unknown> {
  const json: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(message)) {
    const field = type.fields[key]?.resolve();
    if (field === undefined || isDefault(field, value)) continue;
    if (field.map) {
      const entries = Object.entries(value as object);
      json[key] = Object.fromEntries(entries.map(([name, item]) => [name, compact(field, item)]));
    } else if (field.repeated) {
      json[key] = (value as readonly unknown[]).map((item) => compact(field, item));
    } else json[key] = compact(field, value);
  }
  return json;
}

function compact({ resolvedType, type }: protobuf.Field, value: unknown): unknown {
  if (resolvedType instanceof protobuf.Type) {
    if (resolvedType.fullName === ".google.protobuf.Duration") {
      return formatSeconds(millisecondsOf(value as WireDuration));
    }
    if (resolvedType.fullName === ".google.protobuf.Timestamp") {
      return timestampJson(value as WireDuration);
    }
    return compactMessage(resolvedType, value as object);
  }
  if (type === "int64" || type === "uint64") return String(value);
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
}

function isDefault({ map, repeated }: protobuf.Field, value: unknown): boolean {
  if (value === undefined || value === null) return true;
  if (typeof value === "object") return (map || repeated) && Object.keys(value).length === 0;
  return value === false || value === "" || Number(value) === 0;
}

/** Microseconds are as fine as a double still tells moments of our time apart. */
function timestampJson({ seconds, nanos }: WireDuration): string {
  const micros = Math.round(nanos / 1_000);
  const whole = Number(seconds) + Math.floor(micros / 1_000_000);
  const date = new Date(whole * 1_000).toISOString().slice(0, 19);
  return `${date}.${String(micros % 1_000_000).padStart(6, "0")}Z`;
}

/**
 * Encodes a message that is given as protobuf JSON with proto names: enums by name, int64 as string, durations such as
 * "1.5s".
 * @throws Fault INTERNAL when the JSON does not fit the message, which is an error of the code that made it
 */
export function encodeJson(name: MessageName, json: unknown): Uint8Array {
  const type = definitions.type(name);
  return type.encode(type.fromObject(fromJson(type, json, name))).finish();
}

function fromJson(type: protobuf.Type, json: unknown, path: string): Record<string, unknown> {
  if (type.fullName === ".google.protobuf.Struct") return structOf(json);
  if (type.fullName === ".google.protobuf.Duration") return { ...durationOfJson(json, path) };
  const message: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(objectOf(json, path))) {
    const field = type.fields[camelCase(key)];
    if (field === undefined) throw misfit(`${path}.${key}`, "a field of the message");
    if (value !== null) message[field.name] = fieldOf(field.resolve(), value, `${path}.${key}`);
  }
  return message;
}

function fieldOf(field: protobuf.Field, json: unknown, path: string): unknown {
  if (field.map) {
    const entries = Object.entries(objectOf(json, path));
    return Object.fromEntries(entries.map(([key, value]) => [key, itemOf(field, value, path)]));
  }
  if (!field.repeated) return itemOf(field, json, path);
  if (!Array.isArray(json)) throw misfit(path, "a list");
  return json.map((item) => itemOf(field, item, path));
}

function itemOf({ resolvedType, type }: protobuf.Field, json: unknown, path: string): unknown {
  if (resolvedType instanceof protobuf.Type) return fromJson(resolvedType, json, path);
  if (resolvedType instanceof protobuf.Enum) {
    const value = typeof json === "number" ? json : resolvedType.values[String(json)];
    if (value === undefined) throw misfit(path, `a name of ${resolvedType.name}`);
    return value;
  }
  if (type === "int64" || type === "uint64") return BigInt(json as string | number);
  // NaN and infinities are strings.
  return type === "double" || type === "float" ? Number(json) : json;
}

function structOf(json: unknown): { fields: Record<string, unknown> } {
  const entries = Object.entries(objectOf(json, "object"));
  return { fields: Object.fromEntries(entries.map(([key, value]) => [key, plainValue(value)])) };
}

function plainValue(json: unknown): Record<string, unknown> {
  if (json === null) return { nullValue: 0 };
  if (typeof json === "boolean") return { boolValue: json };
  if (typeof json === "number") return { numberValue: json };
  if (typeof json === "string") return { stringValue: json };
  return Array.isArray(json)
    ? { listValue: { values: json.map(plainValue) } }
    : { structValue: structOf(json) };
}

function durationOfJson(json: unknown, path: string): WireDuration {
  const ms = typeof json === "string" ? parseSeconds(json) : undefined;
  if (ms === undefined) throw misfit(path, "a duration in seconds with the suffix s");
  return durationOf(ms);
}

function objectOf(json: unknown, path: string): object {
  if (typeof json === "object" && json !== null && !Array.isArray(json)) return json;
  throw misfit(path, "an object");
}

function misfit(path: string, wanted: string): Fault {
  return new Fault("INTERNAL", `${path}: wanted ${wanted}, got something else`);
}

/** A Duration of `ms` milliseconds, exact to the nanosecond. */
export function durationOf(ms: number): WireDuration {
  const seconds = Math.trunc(ms / 1000);
  return { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1000) * 1e6) };
}

/** A Duration in milliseconds; 0 when it is unset. */
export function millisecondsOf(duration: WireDuration | null | undefined): number {
  if (duration === null || duration === undefined) return 0;
  return Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}
