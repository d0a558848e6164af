import assert from "node:assert/strict";
import { test } from "node:test";
import { recordsFromJson, replyToJson } from "#wire/otlp/json.ts";
import { readRecords, readReply, writeRecords, writeReply } from "#wire/otlp/protobuf.ts";

const plain = (signal: "logs" | "traces", body: unknown) =>
  recordsFromJson(signal, Buffer.from(JSON.stringify(body))).map((one) => Object.fromEntries(one));
const pair = (key: string, value: unknown) => ({ key, value });

const ATTRIBUTES = [
  pair("text", { stringValue: "é" }),
  pair("empty", { stringValue: "" }),
  pair("yes", { boolValue: true }),
  pair("int", { intValue: "-3" }),
  pair("number", { intValue: 7 }),
  pair("large", { intValue: "1795372866926" }),
  pair("double", { doubleValue: 1.5 }),
  pair("zero", { doubleValue: 0 }),
  pair("list", { arrayValue: { values: [{ stringValue: "x" }] } }),
  pair("none", {}),
  pair("null", null),
  pair("odd", { intValue: "1; 2" }),
  pair("__proto__", { stringValue: "own" }),
];
const READ = [
  ["text", "é"] as const,
  ["empty", ""] as const,
  ["yes", "true"] as const,
  ["int", -3] as const,
  ["number", 7] as const,
  ["large", 1_795_372_866_926] as const,
  ["double", 1.5] as const,
  ["zero", 0] as const,
  ["__proto__", "own"] as const,
];

test("attributes of records and spans, in both spellings of names", () => {
  for (const [signal, body] of [
    ["logs", { resourceLogs: [{ scopeLogs: [{ logRecords: [{ attributes: ATTRIBUTES }] }] }] }],
    ["traces", { resourceSpans: [{ scopeSpans: [{ spans: [{ attributes: ATTRIBUTES }] }] }] }],
    ["traces", { resource_spans: [{ scope_spans: [{ spans: [{ attributes: ATTRIBUTES }] }] }] }],
    [
      "traces",
      {
        resourceSpans: [{ instrumentationLibrarySpans: [{ spans: [{ attributes: ATTRIBUTES }] }] }],
      },
    ],
  ] as const) {
    const [record, ...more] = recordsFromJson(signal, Buffer.from(JSON.stringify(body)));
    assert.deepEqual([...(record ?? [])], READ);
    assert.deepEqual(more, []);
  }
  const snake = [pair("a", { string_value: "x" }), pair("b", { int_value: "2" })];
  assert.deepEqual(
    plain("logs", { resource_logs: [{ scope_logs: [{ log_records: [{ attributes: snake }] }] }] }),
    [{ a: "x", b: 2 }],
  );
  assert.deepEqual(recordsFromJson("logs", Buffer.from("")), []);
  assert.deepEqual(plain("logs", { resourceSpans: [{}] }), []);
});

test("a body of another form is refused as a whole", () => {
  for (const body of [
    [],
    "text",
    { resourceLogs: {} },
    { resourceLogs: [[]] },
    { resourceLogs: [{ scopeLogs: [{ logRecords: ["x"] }] }] },
    { resourceLogs: [{ scopeLogs: [{ logRecords: [{ attributes: [{ key: 1 }] }] }] }] },
  ])
    assert.throws(() => plain("logs", body), { code: "INVALID_ARGUMENT" }, JSON.stringify(body));
  assert.throws(() => recordsFromJson("logs", Buffer.from("{")), { code: "INVALID_ARGUMENT" });
});

test("records, and attributes in one record and in all, are bounded", () => {
  const attributes = (count: number) =>
    Array.from({ length: count }, (_, at) => pair(String(at), { intValue: at }));
  const of = (records: number, each: number) => {
    const list = attributes(each);
    const spans = Array.from({ length: records }, () => ({ attributes: list }));
    return { resourceSpans: [{ scopeSpans: [{ spans }] }] };
  };
  assert.equal(plain("traces", of(10_000, 1)).length, 10_000);
  assert.equal(plain("traces", of(200, 1_000)).length, 200);
  for (const [records, each] of [
    [10_001, 0],
    [1, 1_001],
    [201, 1_000],
  ] as const)
    assert.throws(() => plain("traces", of(records, each)), /wanted at most/);
});

test("a member that should be a list is named as it was written", () => {
  assert.throws(
    () => plain("logs", { resourceLogs: 5 }),
    /^\S*:? ?the body must have a list as resourceLogs$/,
  );
  const scope = { resource_logs: [{ scope_logs: [{ log_records: 5 }] }] };
  assert.throws(() => plain("logs", scope), /a scope must have a list as log_records$/);
});

test("what is written is read again, and the reply says how many records were rejected", () => {
  for (const signal of ["logs", "traces"] as const) {
    const records = [new Map<string, string | number>(READ), new Map()];
    assert.deepEqual(readRecords(signal, writeRecords(signal, records)), records);
  }
  for (const rejected of [0, 3, 300])
    assert.equal(readReply(writeReply(rejected, "why")), rejected);
  assert.equal(replyToJson("logs", 0, "why"), "{}");
  assert.deepEqual(JSON.parse(replyToJson("traces", 3, "why")), {
    partialSuccess: { rejectedSpans: "3", errorMessage: "why" },
  });
});
