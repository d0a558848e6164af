// OpenTelemetry's exports of logs and traces in protobuf (opentelemetry.proto.collector.logs.v1 and trace.v1): reads the
// attributes of records, writes the reply with the number of rejected ones, and does both the other way round for an
// agent that forwards records.

import { BYTES, FIXED64, ProtoReader, VARINT } from "../protobuf/reader.ts";
import { ProtoWriter } from "../protobuf/writer.ts";
import { type Attributes, RecordList, type Signal } from "./records.ts";

/** The field of the attributes in a LogRecord and in a Span. */
const ATTRIBUTES: Readonly<Record<Signal, number>> = { logs: 6, traces: 9 };

/**
 * Reads the attributes of each record in an ExportLogsServiceRequest, or of each span in an ExportTraceServiceRequest.
 * @throws Fault INVALID_ARGUMENT for a malformed message, or one that exceeds a bound
 */
export function readRecords(signal: Signal, message: Uint8Array): readonly Attributes[] {
  const reader = new ProtoReader(message);
  const list = new RecordList();
  // Request.resource_logs, ResourceLogs.scope_logs, ScopeLogs.log_records; the fields of traces have the same numbers.
  each(reader, reader.end, 1, (resource) =>
    each(reader, resource, 2, (scope) =>
      each(reader, scope, 2, (record) => {
        list.begin();
        readAttributes(reader, record, ATTRIBUTES[signal], list);
      }),
    ),
  );
  return list.records;
}

/** Writes an ExportLogsServiceResponse or ExportTraceServiceResponse; it is empty when no record was rejected. */
export function writeReply(rejected: number, reason: string): Buffer {
  const out = new ProtoWriter();
  if (rejected > 0) {
    // partial_success: rejected_log_records or rejected_spans, error_message
    const start = out.open(0x0a);
    out.tag(0x08);
    out.int64(rejected);
    out.textField(0x12, reason);
    out.close(start);
  }
  return out.copy();
}

/** The number of rejected records in a reply. */
export function readReply(reply: Uint8Array): number {
  const reader = new ProtoReader(reply);
  let rejected = 0;
  each(reader, reader.end, 1, (end) => {
    while (reader.at < end) {
      const field = reader.tag(end);
      if (field === 1 && reader.wire === VARINT) rejected = reader.int64Number(end);
      else reader.skip(field, end);
    }
  });
  return rejected;
}

/** Writes an export of one scope with these records, which have nothing but attributes. */
export function writeRecords(signal: Signal, records: readonly Attributes[]): Buffer {
  const out = new ProtoWriter();
  const resource = out.open(0x0a, 4);
  const scope = out.open(0x12, 4);
  for (const record of records) {
    const start = out.open(0x12, 4);
    for (const [key, value] of record) {
      const pair = out.open((ATTRIBUTES[signal] << 3) | BYTES, 4);
      out.textField(0x0a, key);
      const any = out.open(0x12, 4);
      // A member of a oneof is written even if it is empty or 0; the double would not be.
      if (typeof value === "string") out.text(0x0a, value);
      else if (value !== 0) out.doubleField(0x21, value);
      else {
        out.tag(0x18);
        out.int64(0);
      }
      out.close(any, 4);
      out.close(pair, 4);
    }
    out.close(start, 4);
  }
  out.close(scope, 4);
  out.close(resource, 4);
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

/** KeyValue { key = 1, value = 2 }. */
function readAttributes(reader: ProtoReader, end: number, field: number, list: RecordList): void {
  each(reader, end, field, (stop) => {
    let key = "";
    let value: string | number | undefined;
    while (reader.at < stop) {
      const field = reader.tag(stop);
      if (field === 1 && reader.wire === BYTES) key = reader.text(stop);
      else if (field === 2 && reader.wire === BYTES) value = anyValue(reader, reader.sub(stop));
      else reader.skip(field, stop);
    }
    if (value !== undefined) list.attribute(key, value);
  });
}

/** AnyValue: string = 1, bool = 2, int = 3, double = 4. */
function anyValue(reader: ProtoReader, end: number): string | number | undefined {
  let value: string | number | undefined;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) value = reader.text(end);
    else if (field === 2 && reader.wire === VARINT) value = String(reader.bool(end));
    else if (field === 3 && reader.wire === VARINT) value = reader.int64Number(end);
    else if (field === 4 && reader.wire === FIXED64) value = reader.double(end);
    else reader.skip(field, end);
  }
  return value;
}
