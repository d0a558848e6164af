// Log records as OpenTelemetry exports them (opentelemetry.proto.collector.logs.v1), as much as is read of
// them here: their attributes. And the reply, which says how many records were of no use.

import { Fault } from "#base/fault.ts";
import { BYTES, FIXED64, ProtoReader, VARINT } from "./proto-reader.ts";
import { ProtoWriter } from "./proto-writer.ts";

/** Texts, numbers and truth values (as texts); lists, maps and bytes are left out. */
export type LogAttributes = ReadonlyMap<string, string | number>;

/** A proxy sends some tens of records at once. */
const MOST_RECORDS = 10_000;
const MOST_ATTRIBUTES = 1_000;
/** Of all records together: as many fill a message of 4 MiB when each has some twenty bytes. */
const MOST_IN_ALL = 200_000;

/**
 * Attributes of each record of an ExportLogsServiceRequest. Throws INVALID_ARGUMENT for what is no such
 * message or has more than 10 000 records, 1 000 attributes in one or 200 000 in all: then nothing of it counts.
 */
export function readLogRecords(message: Uint8Array): readonly LogAttributes[] {
  const reader = new ProtoReader(message);
  const records: LogAttributes[] = [];
  let all = 0;
  // ExportLogsServiceRequest.resource_logs, ResourceLogs.scope_logs, ScopeLogs.log_records
  each(reader, reader.end, 1, (resource) =>
    each(reader, resource, 2, (scope) =>
      each(reader, scope, 2, (record) => {
        if (records.length === MOST_RECORDS) throw tooMany(`${MOST_RECORDS} log records`);
        const found = attributes(reader, record);
        all += found.size;
        if (all > MOST_IN_ALL) throw tooMany(`${MOST_IN_ALL} attributes of all records`);
        records.push(found);
      }),
    ),
  );
  return records;
}

/** An ExportLogsServiceResponse. Empty when everything was taken. */
export function writeLogsReply(refused: number, why: string): Buffer {
  const out = new ProtoWriter();
  if (refused > 0) {
    // partial_success: rejected_log_records, error_message
    const start = out.open(0x0a);
    out.tag(0x08);
    out.int64(refused);
    out.textField(0x12, why);
    out.close(start);
  }
  return out.copy();
}

/** Visits each message in one field, with the end of it; the reader goes on behind whatever was read. */
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

/** LogRecord.attributes: KeyValue { key = 1, value = 2 }. Of one key the last counts. */
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
    if (found.size > MOST_ATTRIBUTES) throw tooMany(`${MOST_ATTRIBUTES} attributes of a record`);
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
