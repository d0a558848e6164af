// Bugs that fuzzing found, each reduced to the few frames that show it.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  data,
  END_STREAM,
  grpcFields,
  headers,
  PREFACE,
  reset,
  settings,
  windowUpdate,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { Harness } from "../../lab/fuzz/engine/harness.ts";

const HEAD = headers(1, block(grpcFields("/fuzz.Service/Echo")));
const PROTOCOL_ERROR = 1;

/** Sends these bytes at once after the client's preface, ends the connection and returns what the server did. */
async function afterSending(...bytes: readonly Buffer[]) {
  const harness = new Harness();
  const connection = harness.connect(true);
  harness.send(connection, Buffer.concat([PREFACE, settings(), ...bytes]));
  await harness.turns(5);
  connection.socket.destroy();
  await harness.until(() => connection.socket.destroyed);
  const left = await harness.leftovers();
  harness.close();
  return { ...connection, left };
}

for (const [name, frame] of [
  ["DATA", data(2, Buffer.of(1), END_STREAM)],
  ["RST_STREAM", reset(2)],
  ["WINDOW_UPDATE", windowUpdate(2, 100)],
] as const) {
  test(`${name} on an even-numbered idle stream is a connection error`, async () => {
    const head = headers(3, block(grpcFields("/fuzz.Service/Wait")));
    const { oracle } = await afterSending(head, frame);
    assert.deepEqual(oracle.goaways, [PROTOCOL_ERROR]);
  });
}

test("announces the smaller of two SETTINGS_HEADER_TABLE_SIZE values received in one frame", async () => {
  const call = Buffer.concat([HEAD, data(1, Buffer.alloc(5), END_STREAM)]);
  const again = Buffer.concat([
    headers(3, block(grpcFields("/fuzz.Service/Echo"))),
    data(3, Buffer.alloc(5), END_STREAM),
  ]);
  const { oracle } = await afterSending(call, settings([1, 64], [1, 4_096]), again);
  assert.deepEqual(oracle.violations, []);
  assert.equal(oracle.reply(3).state, "ended");
});

for (const [what, body] of [
  ["a broken flag", Buffer.from([9, 0, 0, 0, 0])],
  ["half a message", Buffer.from([0, 0, 0])],
] as const) {
  test(`a caller that sends ${what} to a streaming handler gets INTERNAL and logs no error`, async () => {
    const head = headers(1, block(grpcFields("/fuzz.Service/Gather")));
    const { oracle, left } = await afterSending(head, data(1, body, END_STREAM));
    assert.equal(new Map(oracle.reply(1).fields).get("grpc-status"), "13");
    assert.deepEqual(left, []);
  });
}
