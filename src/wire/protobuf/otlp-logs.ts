// Reads the attributes of log records that OpenTelemetry exports (opentelemetry.proto.collector.logs.v1), and writes
// the reply with the number of rejected records.

import { Fault } from "#base/fault.ts";
import { BYTES, FIXED64, ProtoReader, VARINT } from "./reader.ts";
import { ProtoWriter } from "./writer.ts";

/** Attributes by name: strings, numbers, and booleans as strings. Lists, maps and bytes are left out. */
export type LogAttributes = ReadonlyMap<string, string | number>;

/** Maximum number of records in a message. A proxy sends some tens at once. */
const MAX_RECORDS = 10_000;
/** Maximum number of attributes of one record. */
const MAX_ATTRIBUTES = 1_000;
/** Maximum number of attributes in a message: with twenty bytes each, they fill a message of 4 MiB. */
const MAX_TOTAL_ATTRIBUTES = 200_000;

/**
 * Reads the attributes of each record in an ExportLogsServiceRequest.
 * @throws Fault INVALID_ARGUMENT for a malformed message, or one with more than 10 000 records, 1 000 attributes in one
 * record or 200 000 in all
 */
export function readLogRecords(message: Uint8Array): readonly LogAttributes[] {
  const reader = new ProtoReader(message);
  const records: LogAttributes[] = [];
  let all = 0;
  // ExportLogsServiceRequest.resource_logs, ResourceLogs.scope_logs, ScopeLogs.log_records
  each(reader, reader.end, 1, (resource) =>
    each(reader, resource, 2, (scope) =>
      each(reader, scope, 2, (record) => {
        if (records.length === MAX_RECORDS) throw tooMany(`${MAX_RECORDS} log records`);
        const found = attributes(reader, record);
        all += found.size;
        if (all > MAX_TOTAL_ATTRIBUTES)
          throw tooMany(`${MAX_TOTAL_ATTRIBUTES} attributes of all records`);
        records.push(found);
      }),
    ),
  );
  return records;
}

/** Writes an ExportLogsServiceResponse; it is empty when no record was rejected. */
export function writeLogsReply(rejected: number, reason: string): Buffer {
  const out = new ProtoWriter();
  if (rejected > 0) {
    // partial_success: rejected_log_records, error_message
    const start = out.open(0x0a);
    out.tag(0x08);
    out.int64(rejected);
    out.textField(0x12, reason);
    out.close(start);
  }
  return out.copy();
}

/** Calls `visit` with the end of each message in one field, then continues behind that message. */
function each(
  reader: ProtoReader,
  end: number,
  wanted: number,
  visit: (end: number) => void,
): void {
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field !== wanted || reader.wire !== BYTES) {
      reader.skip(field, end);
      continue;
    }
    const stop = reader.sub(end);
    visit(stop);
    reader.at = stop;
  }
}

/** LogRecord.attributes: KeyValue { key = 1, value = 2 }. Of equal keys the last counts. */
function attributes(reader: ProtoReader, end: number): LogAttributes {
  const found = new Map<string, string | number>();
  each(reader, end, 6, (stop) => {
    let key = "";
    let value: string | number | undefined;
    while (reader.at < stop) {
      const field = reader.tag(stop);
      if (field === 1 && reader.wire === BYTES) key = reader.text(stop);
      else if (field === 2 && reader.wire === BYTES) value = anyValue(reader, reader.sub(stop));
      else reader.skip(field, stop);
    }
    if (value === undefined) return;
    found.set(key, value);
    if (found.size > MAX_ATTRIBUTES) throw tooMany(`${MAX_ATTRIBUTES} attributes of a record`);
  });
  return found;
}

/** AnyValue: string = 1, bool = 2, int = 3, double = 4. */
function anyValue(reader: ProtoReader, end: number): string | number | undefined {
  let value: string | number | undefined;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) value = reader.text(end);
    else if (field === 2 && reader.wire === VARINT) value = String(reader.bool(end));
    else if (field === 3 && reader.wire === VARINT) value = Number(reader.int64(end));
    else if (field === 4 && reader.wire === FIXED64) value = reader.double(end);
    else reader.skip(field, end);
  }
  return value;
}

function tooMany(what: string): Fault {
  return new Fault("INVALID_ARGUMENT", `wanted at most ${what}, got more`);
}
