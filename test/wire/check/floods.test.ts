// Memory that readers keep for messages that consist of repeats of one field: next to none, since a repeated
// scalar replaces the one before and lists are bounded.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type protobuf from "protobufjs";
import { Fault } from "#base/fault.ts";
import type { HttpLogEntry } from "#wire/access-log/entry.ts";
import { readAuthRequest } from "#wire/check/ext-authz-reader.ts";
import { HeaderNames } from "#wire/check/headers.ts";
import { readLoggedDecision } from "#wire/check/logged-decision.ts";
import { readCheckHttpRequest, readCheckRequest, readFlowEndRequest } from "#wire/check/request.ts";
import { checkFromJson } from "#wire/check-json/request.ts";
import { readRecords } from "#wire/otlp/protobuf.ts";
import { withoutGarbage } from "../../kit/attack/memory.ts";
import { readWhole } from "../../kit/messages/access-log.ts";
import { definitions } from "../../kit/messages/definitions.ts";
import { otlp } from "../../kit/messages/otlp.ts";
import { floodsOf } from "../../kit/messages/protobuf-flood.ts";

const names = new HeaderNames(() => 0.5);
const CHECK = "aperture.flowcontrol.check.v1";

/** Until it is read to its end, the reader keeps one entry. */
const readEntries = (message: Uint8Array) => {
  const last: HttpLogEntry[] = [];
  readWhole(message, { entry: (entry) => void last.splice(0, 1, entry), unread() {} });
  return last;
};
const readLogs = (message: Uint8Array) => readRecords("logs", message);

const READERS: readonly (readonly [protobuf.Type, (message: Buffer) => unknown])[] = [
  [definitions.type(`${CHECK}.CheckRequest`), readCheckRequest],
  [definitions.type(`${CHECK}.FlowEndRequest`), readFlowEndRequest],
  [
    definitions.type("aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest"),
    (message) => readCheckHttpRequest(message, names),
  ],
  [
    definitions.type("envoy.service.auth.v3.CheckRequest"),
    (message) => readAuthRequest(message, names),
  ],
  [otlp.lookupType("Request"), readLogs],
  [definitions.type("envoy.service.accesslog.v3.StreamAccessLogsMessage"), readEntries],
  [
    definitions.type(`${CHECK}.CheckResponse`),
    (message) => readLoggedDecision(message.toString("base64")),
  ],
];

const SIZE = 256 * 1024;
/** Number of messages measured together, since each measurement is a garbage collection. */
const BATCH = 16;
/** Average number of bytes per message; a thousand labels would be twice that. */
const MAX_KEPT = 96 * 1024;
/** Ten thousand records with one attribute each. */
const MAX_KEPT_OF_LOGS = 3 * 1024 * 1024;

/** The message that was read; undefined where it was refused with a Fault. */
function attempt(read: () => unknown): unknown {
  try {
    return read();
  } catch (thrown) {
    assert.ok(thrown instanceof Fault);
    return undefined;
  }
}

describe("a message that consists of repeats of one field", () => {
  for (const [type, read] of READERS) {
    it(`keeps little memory or is refused, for each field of ${type.fullName}`, () => {
      const floods = floodsOf(type, 6);
      const empty = new Uint8Array();
      const most = BATCH * (read === readLogs ? MAX_KEPT_OF_LOGS : MAX_KEPT);
      for (let from = 0; from < floods.length; from += BATCH) {
        const batch = floods.slice(from, from + BATCH);
        const before = withoutGarbage().heapUsed;
        const results = batch.map(({ make }) => attempt(() => read(make(SIZE, empty))));
        const kept = withoutGarbage().heapUsed - before;
        assert.equal(results.length, batch.length);
        const what = batch.map(({ name }) => name).join("\n");
        assert.ok(kept < most, `${kept} bytes are kept of one of\n${what}`);
      }
    });
  }
});

describe("the attributes of a message of log records", () => {
  it("are bounded in total, over all records", () => {
    const logs = otlp.lookupType("Request");
    const message = (records: number, each: number) => {
      const attributes = Array.from({ length: each }, (_, at) => ({
        key: `k${at}`,
        value: { stringValue: "" },
      }));
      const logRecords = Array.from({ length: records }, () => ({ attributes }));
      return Buffer.from(
        logs.encode(logs.fromObject({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] })).finish(),
      );
    };
    assert.equal(readLogs(message(200, 1_000)).length, 200);
    assert.throws(() => readLogs(message(201, 1_000)), {
      code: "INVALID_ARGUMENT",
      message: /at most 200000 attributes/,
    });
  });
});

describe("the cached values that a check asks for", () => {
  it("are at most a thousand in either encoding, in any number of parts", () => {
    const type = definitions.type(`${CHECK}.CheckRequest`);
    const keys = (count: number) => Array.from({ length: count }, (_, at) => `k${at}`);
    const whole = (globalCacheKeys: readonly string[]) =>
      type.encode(type.fromObject({ cacheLookupRequest: { globalCacheKeys } })).finish();
    const parts = (count: number) => Buffer.concat(keys(count).map((key) => whole([key])));
    const json = (count: number) =>
      Buffer.from(JSON.stringify({ cache_lookup_request: { global_cache_keys: keys(count) } }));
    const reads = [
      (count: number) => readCheckRequest(whole(keys(count))),
      (count: number) => readCheckRequest(parts(count)),
      (count: number) => checkFromJson(json(count)),
    ];
    for (const read of reads) {
      assert.deepEqual(read(1_000).cacheLookup?.globalKeys, keys(1_000));
      assert.throws(() => read(1_001), { code: "RESOURCE_EXHAUSTED", http: 413 });
    }
  });
});

describe("a check that asks for the most cached values", () => {
  it("does not process them again with each further part", () => {
    const type = definitions.type(`${CHECK}.CheckRequest`);
    const globalCacheKeys = Array.from({ length: 1_000 }, (_, at) => `k${at}`);
    const keys = type.encode(type.fromObject({ cacheLookupRequest: { globalCacheKeys } })).finish();
    const message = Buffer.concat([keys, Buffer.alloc(4_000_000, Uint8Array.of(0x22, 0))]);
    const before = process.cpuUsage();
    assert.equal(readCheckRequest(message).cacheLookup?.globalKeys.length, 1_000);
    const { user, system } = process.cpuUsage(before);
    assert.ok(user + system < 250_000, `${user + system} µs`);
  });
});

describe("the flux meters of a logged decision", () => {
  it("are at most a thousand", () => {
    const type = definitions.type(`${CHECK}.CheckResponse`);
    const read = (count: number) => {
      const fluxMeterInfos = Array.from({ length: count }, (_, at) => ({
        fluxMeterName: `m${at}`,
      }));
      const bytes = type.encode(type.fromObject({ fluxMeterInfos })).finish();
      return readLoggedDecision(Buffer.from(bytes).toString("base64"));
    };
    assert.equal(read(1_000).fluxMeters.length, 1_000);
    assert.throws(() => read(1_001), { code: "INVALID_ARGUMENT" });
  });
});
