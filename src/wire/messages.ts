// Front for every binary message that is not on the hot path, over protobufjs: `encode` and `decode` by
// full name, with the types of `shapes.ts`, and `encodeJson` for what was never typed. Types are defined when they are first asked for, since
// building all of them costs more than the library's own import.

import { readFileSync } from "node:fs";
import protobuf from "protobufjs/light.js";
import { parseSeconds } from "#base/duration.ts";
import { Fault } from "#base/fault.ts";
import type { Decoded, Encodable, MessageName } from "./shapes.ts";

/** Length of time on the wire. Both parts have the same sign. */
export interface WireDuration {
  readonly seconds: bigint;
  readonly nanos: number;
}

type Described = { readonly values: Record<string, number> } | protobuf.IType;

/** Messages by full name, built out of a bundle of `gen/` as they are needed. */
export class Messages {
  readonly #bundle: Readonly<Record<string, Described>>;
  readonly #root = new protobuf.Root();
  readonly #types = new Map<string, protobuf.ReflectionObject>();

  constructor(bundle: URL) {
    this.#bundle = JSON.parse(readFileSync(bundle, "utf8"));
  }

  /** Throws when the bundle has no message of that name. */
  type(name: string): protobuf.Type {
    const type = this.#types.get(name) ?? this.#define(name);
    if (type instanceof protobuf.Type) return type;
    throw new Error(`${name} is not a known message`);
  }

  /** Defines a type, the types it is nested in and all that its fields hold. */
  #define(name: string): protobuf.ReflectionObject | undefined {
    const known = this.#types.get(name);
    const json = this.#bundle[name];
    if (known !== undefined || json === undefined) return known;
    const dot = name.lastIndexOf(".");
    const parent = this.#define(name.slice(0, dot)) ?? this.#root.define(name.slice(0, dot));
    // The types around this one may have brought it in already.
    const met = this.#types.get(name);
    if (met !== undefined) return met;
    const base = name.slice(dot + 1);
    const object =
      "values" in json ? new protobuf.Enum(base, json.values) : protobuf.Type.fromJSON(base, json);
    this.#types.set(name, object);
    if (!(parent instanceof protobuf.Namespace)) throw new Error(`${name} is nested in no message`);
    parent.add(object);
    if ("fields" in json) for (const { type } of Object.values(json.fields)) this.#define(type);
    return object;
  }
}

const messages = new Messages(new URL("./gen/aperture.json", import.meta.url));

/** Bytes of a message. Oneof: give one arm; when several are given, readers keep the last by number. */
export function encode<Name extends MessageName>(name: Name, message: Encodable<Name>): Uint8Array {
  const type = messages.type(name);
  return type.encode(type.fromObject(message)).finish();
}

/**
 * Message of bytes. Unknown fields are dropped. int64 is bigint. The result shares no memory with `bytes`.
 * @throws Fault INVALID_ARGUMENT when the bytes are not a message of this type.
 */
export function decode<Name extends MessageName>(name: Name, bytes: Uint8Array): Decoded<Name>;
export function decode(name: MessageName, bytes: Uint8Array): unknown {
  const type = messages.type(name);
  try {
    return type.toObject(type.decode(Buffer.from(bytes)), { defaults: true, longs: BigInt });
  } catch (cause) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `want a serialized ${name}, got ${bytes.length} bytes that are not one`,
      { cause },
    );
  }
}

/**
 * Bytes of a message that is given as protojson with proto names: enums by name, int64 as text, durations
 * such as "1.5s".
 * @throws Fault INTERNAL when the JSON is not one of that message: whoever made it is wrong.
 */
export function encodeJson(name: MessageName, json: unknown): Uint8Array {
  const type = messages.type(name);
  return type.encode(type.fromObject(fromJson(type, json, name))).finish();
}

function fromJson(type: protobuf.Type, json: unknown, path: string): Record<string, unknown> {
  if (type.fullName === ".google.protobuf.Struct") return structOf(json);
  if (type.fullName === ".google.protobuf.Duration") return { ...durationOfJson(json, path) };
  const message: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(objectOf(json, path))) {
    const field = type.fields[camel(key)];
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
  // NaN and infinities are text.
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

function camel(name: string): string {
  return name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

function misfit(path: string, wanted: string): Fault {
  return new Fault("INTERNAL", `${path}: wanted ${wanted}, got something else`);
}

/** Milliseconds as a duration, to the nanosecond. */
export function durationOf(ms: number): WireDuration {
  const seconds = Math.trunc(ms / 1000);
  return { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1000) * 1e6) };
}

/** A duration as milliseconds; what is unset lasts no time. */
export function millisecondsOf(duration: WireDuration | null | undefined): number {
  if (duration === null || duration === undefined) return 0;
  return Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}
