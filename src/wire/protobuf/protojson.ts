// Canonical JSON of protobuf messages: proto names, every field written, `null` for an unset message, and of a oneof only
// the member that is set. For replies that an agent forwards; tests compare the hand-written writers with it. Imports
// @bufbuild/protobuf, so import this file lazily.

import {
  toJson as canonical,
  type DescField,
  type DescMessage,
  fromBinary,
  type JsonValue,
  type MessageShape,
} from "@bufbuild/protobuf";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";

/** A message as a JSON value. */
export function toJson<Desc extends DescMessage>(
  schema: Desc,
  message: MessageShape<Desc>,
): JsonValue {
  const json = canonical(schema, message, { useProtoFieldName: true, alwaysEmitImplicit: true });
  return withNulls(reflect(schema, message), json);
}

/** Converts a serialized message to JSON text. */
export function binaryToJson(schema: DescMessage, bytes: Uint8Array): string {
  return JSON.stringify(toJson(schema, fromBinary(schema, bytes)));
}

/** Adds `null` for unset messages, and sorts the fields by number. */
function withNulls(message: ReflectMessage, json: JsonValue): JsonValue {
  const { desc } = message;
  if (!isObject(json) || desc.typeName.startsWith("google.protobuf.")) return json;
  const entries: [string, JsonValue][] = [];
  for (const field of [...desc.fields].sort((a, b) => a.number - b.number)) {
    const value = json[field.name];
    if (value !== undefined) entries.push([field.name, fieldWithNulls(message, field, value)]);
    else if (field.fieldKind === "message" && field.oneof === undefined)
      entries.push([field.name, null]);
  }
  return Object.fromEntries(entries);
}

function fieldWithNulls(message: ReflectMessage, field: DescField, json: JsonValue): JsonValue {
  if (field.fieldKind === "message") return withNulls(message.get(field), json);
  if (field.fieldKind === "list" && field.listKind === "message" && Array.isArray(json)) {
    const list = message.get(field);
    return json.map((item, index) => valueWithNulls(list.get(index), item));
  }
  if (field.fieldKind === "map" && field.mapKind === "message" && isObject(json)) {
    const entries = [...message.get(field)].map(([key, value]): [string, JsonValue] => [
      String(key),
      valueWithNulls(value, json[String(key)] ?? null),
    ]);
    return Object.fromEntries(entries);
  }
  return json;
}

function valueWithNulls(value: unknown, json: JsonValue): JsonValue {
  const isReflected =
    typeof value === "object" && value !== null && "desc" in value && "message" in value;
  return isReflected ? withNulls(value as ReflectMessage, json) : json;
}

function isObject<Value>(json: Value): json is Extract<Value, { [key: string]: unknown }> {
  return typeof json === "object" && json !== null && !Array.isArray(json);
}
