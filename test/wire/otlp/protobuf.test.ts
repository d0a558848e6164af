import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import { readRecords, writeReply } from "#wire/otlp/protobuf.ts";
import { otlp } from "../../kit/messages/otlp.ts";

const encode = (message: object): Uint8Array => {
  const type = otlp.lookupType("Request");
  return type.encode(type.fromObject(message)).finish();
};
const pair = (key: string, value: object) => ({ key, value });
const plain = (message: Uint8Array) =>
  readRecords("logs", message).map((one) => Object.fromEntries(one));
const oneRecord = (attributes: readonly object[]) =>
  encode({ resourceLogs: [{ scopeLogs: [{ logRecords: [{ attributes }] }] }] });

test("the attributes of each record are read in order, whatever other fields surround them", () => {
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

test("a truncated message is refused as a whole or has fewer records, but never different ones", () => {
  const message = oneRecord([pair("key", { stringValue: "value" }), pair("n", { doubleValue: 2 })]);
  for (let length = 0; length < message.length; length++) {
    try {
      assert.deepEqual(plain(message.subarray(0, length)), [], `${length} bytes`);
    } catch (thrown) {
      assert.ok(thrown instanceof Fault && thrown.code === "INVALID_ARGUMENT", String(thrown));
    }
  }
});

test("fields of another wire type are skipped", () => {
  const odd = Buffer.from([0x08, 0x01, 0x12, 0x02, 0x10, 0x01, 0x0a, 0x02, 0x12, 0x00]);
  assert.deepEqual(plain(odd), []);
});

test("too many records or attributes are refused", () => {
  const refused = { code: "INVALID_ARGUMENT", message: /wanted at most/ };
  const logRecords = Array.from({ length: 10_001 }, () => ({}));
  const many = encode({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] });
  assert.throws(() => readRecords("logs", many), refused);
  const keys = (count: number) =>
    oneRecord(Array.from({ length: count }, (_, at) => pair(`k${at}`, { intValue: 1 })));
  assert.equal(readRecords("logs", keys(1_000))[0]?.size, 1_000);
  assert.throws(() => readRecords("logs", keys(1_001)), refused);
});

test("the reply is empty unless records were refused", () => {
  assert.equal(writeReply(0, "never said").length, 0);
  const reply = otlp.lookupType("Reply").decode(writeReply(3, "why")).toJSON();
  assert.deepEqual(reply, { partialSuccess: { rejectedLogRecords: "3", errorMessage: "why" } });
});
