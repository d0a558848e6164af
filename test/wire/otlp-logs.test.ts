import assert from "node:assert/strict";
import { test } from "node:test";
import protobuf from "protobufjs";
import { Fault } from "#base/fault.ts";
import { readLogRecords, writeLogsReply } from "#wire/otlp-logs.ts";

/** The public messages with the fields around those that are read, so that a library is the oracle. */
const { root } = protobuf.parse(`
  syntax = "proto3";
  message Request { repeated ResourceLogs resource_logs = 1; }
  message ResourceLogs { Resource resource = 1; repeated ScopeLogs scope_logs = 2; string schema_url = 3; }
  message Resource { repeated KeyValue attributes = 1; uint32 dropped_attributes_count = 2; }
  message ScopeLogs { Scope scope = 1; repeated LogRecord log_records = 2; string schema_url = 3; }
  message Scope { string name = 1; string version = 2; }
  message LogRecord {
    fixed64 time_unix_nano = 1; int32 severity_number = 2; string severity_text = 3; AnyValue body = 5;
    repeated KeyValue attributes = 6; uint32 dropped_attributes_count = 7; fixed32 flags = 8;
    bytes trace_id = 9; bytes span_id = 10; fixed64 observed_time_unix_nano = 11;
  }
  message AnyValue {
    oneof value {
      string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4;
      ArrayValue array_value = 5; KeyValueList kvlist_value = 6; bytes bytes_value = 7;
    }
  }
  message ArrayValue { repeated AnyValue values = 1; }
  message KeyValueList { repeated KeyValue values = 1; }
  message KeyValue { string key = 1; AnyValue value = 2; }
  message Reply { PartialSuccess partial_success = 1; }
  message PartialSuccess { int64 rejected_log_records = 1; string error_message = 2; }
`);
const encode = (message: object): Uint8Array => {
  const type = root.lookupType("Request");
  return type.encode(type.fromObject(message)).finish();
};
const pair = (key: string, value: object) => ({ key, value });
const plain = (message: Uint8Array) =>
  readLogRecords(message).map((one) => Object.fromEntries(one));
const oneRecord = (attributes: readonly object[]) =>
  encode({ resourceLogs: [{ scopeLogs: [{ logRecords: [{ attributes }] }] }] });

test("attributes of every record come in order, whatever stands around them", () => {
  const record = {
    timeUnixNano: 5,
    severityText: "INFO",
    body: { stringValue: "a line" },
    flags: 1,
    traceId: Buffer.alloc(16, 1),
    observedTimeUnixNano: 7,
    attributes: [
      pair("text", { stringValue: "é" }),
      pair("empty", { stringValue: "" }),
      pair("yes", { boolValue: true }),
      pair("int", { intValue: -3 }),
      pair("double", { doubleValue: 1.5 }),
      pair("list", { arrayValue: { values: [{ stringValue: "x" }] } }),
      pair("map", { kvlistValue: { values: [pair("k", { stringValue: "x" })] } }),
      pair("bytes", { bytesValue: Buffer.from("x") }),
      pair("none", {}),
      pair("text", { stringValue: "last" }),
    ],
  };
  const message = encode({
    resourceLogs: [
      { resource: { attributes: [pair("r", { stringValue: "x" })] }, schemaUrl: "u" },
      {
        scopeLogs: [
          { scope: { name: "s" }, logRecords: [record, {}], schemaUrl: "u" },
          { logRecords: [{ attributes: [pair("second", { intValue: 2 ** 40 })] }] },
        ],
      },
      { scopeLogs: [{ logRecords: [{ attributes: [pair("third", { stringValue: "3" })] }] }] },
    ],
  });
  assert.deepEqual(plain(message), [
    { text: "last", empty: "", yes: "true", int: -3, double: 1.5 },
    {},
    { second: 2 ** 40 },
    { third: "3" },
  ]);
  assert.deepEqual(plain(encode({})), []);
});

test("a message cut anywhere is refused whole or has fewer records, never others", () => {
  const message = oneRecord([pair("key", { stringValue: "value" }), pair("n", { doubleValue: 2 })]);
  for (let length = 0; length < message.length; length++) {
    try {
      assert.deepEqual(plain(message.subarray(0, length)), [], `${length} bytes`);
    } catch (thrown) {
      assert.ok(thrown instanceof Fault && thrown.code === "INVALID_ARGUMENT", String(thrown));
    }
  }
});

test("fields of another wire type are passed over", () => {
  const odd = Buffer.from([0x08, 0x01, 0x12, 0x02, 0x10, 0x01, 0x0a, 0x02, 0x12, 0x00]);
  assert.deepEqual(plain(odd), []);
});

test("records and attributes beyond their bounds are refused", () => {
  const refused = { code: "INVALID_ARGUMENT", message: /wanted at most/ };
  const logRecords = Array.from({ length: 10_001 }, () => ({}));
  const many = encode({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] });
  assert.throws(() => readLogRecords(many), refused);
  const keys = (count: number) =>
    oneRecord(Array.from({ length: count }, (_, at) => pair(`k${at}`, { intValue: 1 })));
  assert.equal(readLogRecords(keys(1_000))[0]?.size, 1_000);
  assert.throws(() => readLogRecords(keys(1_001)), refused);
});

test("the reply is empty unless records were refused", () => {
  assert.equal(writeLogsReply(0, "never said").length, 0);
  const reply = root.lookupType("Reply").decode(writeLogsReply(3, "why")).toJSON();
  assert.deepEqual(reply, { partialSuccess: { rejectedLogRecords: "3", errorMessage: "why" } });
});
