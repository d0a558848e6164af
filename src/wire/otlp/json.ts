// OpenTelemetry's exports of logs and traces in JSON. Names are read in camelCase, as the protocol has them, and in
// snake_case, as some senders write them.

import { decimalOf } from "#base/text/decimal.ts";
import { fieldNames, invalid, parseBody, readFields, readText } from "../json/strict.ts";
import { type Attributes, RecordList, type Signal } from "./records.ts";

/** Names of the lists of resources, scopes and records. */
const LISTS: Readonly<Record<Signal, readonly ReturnType<typeof fieldNames>[]>> = {
  logs: [
    fieldNames({ resource_logs: 1 }),
    fieldNames({ scope_logs: 1, instrumentation_library_logs: 1 }),
    fieldNames({ log_records: 1 }),
  ],
  traces: [
    fieldNames({ resource_spans: 1 }),
    fieldNames({ scope_spans: 1, instrumentation_library_spans: 1 }),
    fieldNames({ spans: 1 }),
  ],
};
const RECORD = fieldNames({ attributes: 1 });
const PAIR = fieldNames({ key: 1, value: 2 });
const VALUE = fieldNames({ string_value: 1, bool_value: 2, int_value: 3, double_value: 4 });

/**
 * Reads the attributes of each record or span. An empty body is an empty message.
 * @throws Fault INVALID_ARGUMENT for a body that is not such a message or exceeds a bound
 */
export function recordsFromJson(signal: Signal, body: Uint8Array): readonly Attributes[] {
  const list = new RecordList();
  const [resources, scopes, records] = LISTS[signal];
  if (resources === undefined || scopes === undefined || records === undefined) return [];
  each(parseBody(body)?.value, resources, "the body", (resource) =>
    each(resource, scopes, "a resource", (scope) =>
      each(scope, records, "a scope", (record) => {
        list.begin();
        each(record, RECORD, "a record", (pair) => readAttribute(pair, list));
      }),
    ),
  );
  return list.records;
}

/** Calls `visit` with each item of the one list of an object that is read. */
function each(
  value: unknown,
  names: ReturnType<typeof fieldNames>,
  what: string,
  visit: (item: unknown) => void,
): void {
  const list = readFields(value, names, what)?.[1];
  if (list === undefined) return;
  if (!Array.isArray(list)) {
    const member = Object.keys(value as object).find((name) => names.has(name));
    throw invalid(`${what} must have a list as ${member}`);
  }
  for (const item of list) visit(item);
}

function readAttribute(pair: unknown, list: RecordList): void {
  const [, key, given] = readFields(pair, PAIR, "an attribute") ?? [];
  const [, text, bool, int, double] = readFields(given, VALUE, "the value of an attribute") ?? [];
  const name = readText(key, "the key of an attribute");
  if (typeof text === "string") list.attribute(name, text);
  else if (typeof bool === "boolean") list.attribute(name, String(bool));
  else {
    const number = numberOf(int ?? double);
    if (number !== undefined) list.attribute(name, number);
  }
}

/** 64-bit integers come as text, from some senders as numbers. */
function numberOf(value: unknown): number | undefined {
  if (typeof value === "number") return value;
  return typeof value === "string" ? decimalOf(value) : undefined;
}

/** ExportLogsServiceResponse or ExportTraceServiceResponse. */
export function replyToJson(signal: Signal, rejected: number, reason: string): string {
  if (rejected === 0) return "{}";
  const name = signal === "logs" ? "rejectedLogRecords" : "rejectedSpans";
  return JSON.stringify({ partialSuccess: { [name]: String(rejected), errorMessage: reason } });
}
