// What fuzzing has found, each as the few frames that show it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { World } from "../../kit/fuzz-world.ts";
import {
  data,
  END_STREAM,
  grpcFields,
  headers,
  PREFACE,
  reset,
  settings,
  windowUpdate,
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";

const HEAD = headers(1, block(grpcFields("/fuzz.Service/Echo")));
const PROTOCOL_ERROR = 1;

/** What a server makes of these bytes, sent at once behind a greeting. */
async function told(...bytes: readonly Buffer[]) {
  const world = new World();
  const line = world.connect(true);
  world.send(line, Buffer.concat([PREFACE, settings(), ...bytes]));
  await world.turns(5);
  line.socket.destroy();
  await world.until(() => line.socket.destroyed);
  const left = await world.leftovers();
  world.close();
  return { ...line, left };
}

for (const [name, frame] of [
  ["DATA", data(2, Buffer.of(1), END_STREAM)],
  ["RST_STREAM", reset(2)],
  ["WINDOW_UPDATE", windowUpdate(2, 100)],
] as const) {
  test(`${name} on a stream that only a server could open ends the connection`, async () => {
    const head = headers(3, block(grpcFields("/fuzz.Service/Wait")));
    const { judge } = await told(head, frame);
    assert.deepEqual(judge.goaways, [PROTOCOL_ERROR]);
  });
}

test("of two sizes of the header table in one frame the smaller is owed an update, too", async () => {
  const call = Buffer.concat([HEAD, data(1, Buffer.alloc(5), END_STREAM)]);
  const again = Buffer.concat([
    headers(3, block(grpcFields("/fuzz.Service/Echo"))),
    data(3, Buffer.alloc(5), END_STREAM),
  ]);
  const { judge } = await told(call, settings([1, 64], [1, 4_096]), again);
  assert.deepEqual(judge.wrong, []);
  assert.equal(judge.reply(3).state, "ended");
});

for (const [what, body] of [
  ["a broken flag", Buffer.from([9, 0, 0, 0, 0])],
  ["half a message", Buffer.from([0, 0, 0])],
] as const) {
  test(`a caller that sends ${what} to a stream's handler is no failure of ours`, async () => {
    const head = headers(1, block(grpcFields("/fuzz.Service/Gather")));
    const { judge, left } = await told(head, data(1, body, END_STREAM));
    assert.equal(new Map(judge.reply(1).fields).get("grpc-status"), "13");
    assert.deepEqual(left, []);
  });
}
