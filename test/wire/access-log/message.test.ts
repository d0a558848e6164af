import assert from "node:assert/strict";
import { test } from "node:test";
import { type HttpLogEntry, TIME } from "#wire/access-log/entry.ts";
import { readLogMessage } from "#wire/access-log/message.ts";
import {
  duration,
  type Entry,
  entryOf,
  httpMessage,
  logMessage,
  readWhole,
} from "../../kit/messages/access-log.ts";

const shown = (entry: HttpLogEntry) => ({
  decision: entry.decision,
  isFinal: entry.isFinal,
  checkMs: entry.checkMs,
  statusCode: entry.statusCode,
  requestBytes: entry.requestBytes,
  responseBytes: entry.responseBytes,
  own: entry.tag("own"),
  times: Object.values(TIME).map((field) => entry.time(field)),
});

/** The entries of a message in order, and a word for each that is not read. */
function read(message: Uint8Array) {
  const found: (ReturnType<typeof shown> | string)[] = [];
  readWhole(message, {
    entry: (entry) => void found.push(shown(entry)),
    unread: (why) => void found.push(why),
  });
  return found;
}

const NOBODY = { entry() {}, unread() {} };

const WHOLE = {
  decision: "CgZh",
  isFinal: true,
  checkMs: 2,
  statusCode: 200,
  requestBytes: 40,
  responseBytes: 1_000,
  own: "1.5",
  times: [1, 4, 30, 32.25, 33],
};
const NONE = {
  decision: "",
  isFinal: true,
  checkMs: undefined,
  statusCode: undefined,
  requestBytes: 0,
  responseBytes: 0,
  own: undefined,
  times: Array(5).fill(undefined),
};

test("an entry is read as a library wrote it, and leaves nothing behind for the next one", () => {
  const identified = logMessage({
    identifier: { node: { id: "n", cluster: "c" }, logName: "ingress" },
    logEntries: { case: "httpLogs", value: { logEntry: [entryOf("CgZh"), {}, entryOf("CgZh")] } },
  });
  assert.deepEqual(read(identified), [WHOLE, NONE, WHOLE]);
  assert.deepEqual(read(httpMessage([{}])), [NONE]);
  assert.deepEqual(read(logMessage({})), []);
});

test("times beyond a second, and negative ones, as they were sent", () => {
  const of = (ms: number): Entry => ({
    commonProperties: { timeToFirstUpstreamRxByte: duration(ms) },
  });
  const [first, second] = read(httpMessage([of(61_250.5), of(-1_500)]));
  assert.ok(typeof first === "object" && typeof second === "object");
  assert.deepEqual([first.times[2], second.times[2]], [61_250.5, -1_500]);
});

test("only reports of the end of a request are final", () => {
  const types = Array.from({ length: 14 }, (_, accessLogType) => accessLogType);
  const entries = types.map((accessLogType) => entryOf("", { accessLogType }));
  const found = read(httpMessage([...entries, entryOf("", { intermediateLogEntry: true })]));
  const final = found.map((each) => typeof each === "object" && each.isFinal);
  assert.deepEqual(
    final,
    [...types, undefined].map((type) => type === 0 || type === 6),
  );
});

test("entries about TCP connections are counted and not read", () => {
  const tcp = logMessage({ logEntries: { case: "tcpLogs", value: { logEntry: [{}, {}] } } });
  assert.deepEqual(read(tcp), ["tcp", "tcp"]);
});

test("a decision of another type than text is none", () => {
  const struct = (value: unknown): Entry => ({
    commonProperties: {
      metadata: {
        filterMetadata: {
          "envoy.filters.http.ext_authz": {
            "aperture.check_response": value as never,
            ext_authz_duration: "2",
          },
        },
      },
    },
  });
  const entries = [1, true, null, ["CgZh"], { a: "CgZh" }, ""].map(struct);
  for (const each of read(httpMessage(entries))) assert.deepEqual(each, NONE);
});

test("a malformed entry costs no other one", () => {
  const good = httpMessage([entryOf("CgZh")]);
  // http_logs { log_entry: a length that exceeds the entry }
  const bad = Buffer.from([0x12, 4, 0x0a, 2, 0x0a, 9]);
  assert.deepEqual(read(Buffer.concat([good, bad, good])), [WHOLE, "malformed", WHOLE]);
});

test("the beginning of a message has its first entries, and what is cut counts as malformed", () => {
  const one = httpMessage([entryOf("CgZh")]);
  const two = Buffer.concat([one, one]);
  for (let length = 0; length < two.length; length++) {
    const whole = Math.trunc(length / one.length);
    const wanted: unknown[] = Array(whole).fill(WHOLE);
    if (length % one.length !== 0) wanted.push("malformed");
    assert.deepEqual(read(two.subarray(0, length)), wanted, `${length} bytes`);
  }
});

test("of more than 10 000 entries in a message the rest is left out, and counted once", () => {
  const many = Buffer.from([0x12, 20, ...Array(10).fill([0x0a, 0]).flat()]);
  const count = (times: number) => {
    const found = read(Buffer.concat(Array(times).fill(many)));
    return [found.filter((each) => typeof each === "object").length, found.at(-1)];
  };
  assert.deepEqual(count(1_000), [10_000, NONE]);
  assert.deepEqual(count(1_002), [10_000, "too_many"]);
});

test("an entry with more than 1 000 custom tags is malformed", () => {
  const tags = (count: number): Entry => ({
    commonProperties: {
      customTags: Object.fromEntries(Array.from({ length: count }, (_, at) => [`t${at}`, ""])),
    },
  });
  assert.deepEqual(read(httpMessage([tags(1_001), tags(1_000)])), ["malformed", NONE]);
});

test("each step reads one entry, and two messages can be read at the same time", () => {
  const seen: string[] = [];
  const to = (name: string) => ({
    entry: ({ decision }: HttpLogEntry) => void seen.push(`${name} ${decision}`),
    unread: (why: string) => void seen.push(`${name} ${why}`),
  });
  const one = readLogMessage(httpMessage([entryOf("1"), entryOf("2")]), to("a"));
  const other = readLogMessage(Buffer.concat([httpMessage([entryOf("3")]), Buffer.of(9)]), to("b"));
  const costs = [one, other, one, other].map((steps) => steps.next().value ?? 0);
  assert.deepEqual(seen, ["a 1", "b 3", "a 2", "b malformed"]);
  const bytes = httpMessage([entryOf("1")]).length;
  // The last step of the second message found no entry.
  for (const cost of costs.slice(0, 3)) assert.ok(cost > bytes - 10, `${cost} of ${bytes}`);
});

test("what is skipped costs a step, so that a message of the smallest fields has many", () => {
  const steps = [...readLogMessage(Buffer.alloc(2_000, Buffer.of(0x08, 1)), NOBODY)];
  assert.equal(steps.length, 1_000);
  assert.ok(steps.every((cost) => cost > 100));
  const empty = Buffer.from([0x12, 20, ...Array(10).fill([0x08, 0]).flat()]);
  assert.equal([...readLogMessage(empty, NOBODY)].length, 10);
});

test("an entry of more than 256 KiB is not read, and costs no other one", () => {
  const withPath = (length: number): Entry => ({ request: { path: "x".repeat(length) } });
  const entries = [withPath(256 * 1024), entryOf("CgZh"), withPath(255 * 1024)];
  assert.deepEqual(read(httpMessage(entries)), ["too_large", WHOLE, NONE]);
});
