import assert from "node:assert/strict";
import { test } from "node:test";
import { exportLogs } from "#api/access-log.ts";
import { ProtoWriter } from "#wire/protobuf/writer.ts";
import { callOf } from "../kit/api/agent.ts";

/** One record for each text, which is its attribute `name`. */
function message(names: readonly string[]): Buffer {
  const out = new ProtoWriter();
  const resource = out.open(0x0a, 4);
  const scope = out.open(0x12, 4);
  for (const name of names) {
    const record = out.open(0x12);
    const pair = out.open(0x32);
    out.text(0x0a, "name");
    const value = out.open(0x12);
    out.text(0x0a, name);
    out.close(value);
    out.close(pair);
    out.close(record);
  }
  out.close(scope, 4);
  out.close(resource, 4);
  return out.copy();
}

function accessLogEndpoint() {
  const taken: unknown[] = [];
  const handle = exportLogs({
    consume(record) {
      taken.push(record.get("name"));
      return record.get("name") !== "bad";
    },
  });
  return { taken, ask: async (bytes: Uint8Array) => Buffer.from(await handle(bytes, callOf())) };
}

test("records are consumed in order, and an empty reply means that all were usable", async () => {
  const { taken, ask } = accessLogEndpoint();
  assert.equal((await ask(message(["one", "two"]))).length, 0);
  assert.deepEqual(taken, ["one", "two"]);
  assert.equal((await ask(Buffer.alloc(0))).length, 0);
});

test("bad records do not affect others, and the reply counts them", async () => {
  const { taken, ask } = accessLogEndpoint();
  const reply = await ask(message(["bad", "good", "bad"]));
  assert.deepEqual(taken, ["bad", "good", "bad"]);
  // partial_success { rejected_log_records: 2, … }
  assert.deepEqual([reply[0], reply[2], reply[3]], [0x0a, 0x08, 2]);
  assert.match(reply.toString(), /without a readable decision/);
});

test("a malformed message is refused as a whole: none of its records is consumed", () => {
  const { taken, ask } = accessLogEndpoint();
  const bytes = message(["one", "two"]);
  return assert
    .rejects(ask(bytes.subarray(0, bytes.length - 1)), { code: "INVALID_ARGUMENT" })
    .then(() => assert.deepEqual(taken, []));
});
