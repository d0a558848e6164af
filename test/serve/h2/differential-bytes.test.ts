// However a caller's bytes are cut on their way, both transports give the reply that they give to the whole.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ask, type Seen, seen, twinService, twins, WIDE } from "../../kit/fuzz-twins.ts";
import { Cutter } from "../../kit/fuzz-wire.ts";
import { World } from "../../kit/fuzz-world.ts";
import {
  CONTINUATION,
  data,
  END_HEADERS,
  END_STREAM,
  type Frame,
  frame,
  grpcFields,
  HEADERS,
  headers,
  message,
  PADDED,
  PREFACE,
  padded,
  settings,
} from "../../kit/h2.ts";
import { block, Unpacker } from "../../kit/hpack-raw.ts";

const HEAD = block(grpcFields("/test.Twin/Echo", ["x-text", "hello"]));

/** A small call in as many kinds of frames as one can be made of. */
const SMALL = Buffer.concat([
  PREFACE,
  settings([4, 65_535]),
  frame(HEADERS, 0, 1, HEAD.subarray(0, 20)),
  frame(CONTINUATION, END_HEADERS, 1, HEAD.subarray(20)),
  data(1, padded(message(Buffer.from("a mess")).subarray(0, 3), 2), PADDED),
  data(1, message(Buffer.from("a mess")).subarray(3)),
  data(1, Buffer.alloc(0), END_STREAM),
]);

/** What the own transport answers to these parts, each of them read by itself. */
async function inMemory(parts: readonly Buffer[]): Promise<Seen> {
  const world = new World([twinService({ begun: 0, left: 0 })]);
  const line = world.connect(true);
  const frames: Frame[] = [];
  const unpacker = new Unpacker();
  const cutter = new Cutter((type, flags, stream, payload) => {
    const fields = type === HEADERS ? unpacker.unpack(payload) : undefined;
    frames.push({ type, flags, stream, payload: Buffer.from(payload), fields });
  }, 2 ** 24);
  line.heard = (bytes) => cutter.push(bytes);
  for (const part of parts) world.send(line, part);
  assert.ok(await world.until(() => line.judge.reply(1).state === "ended"), "answered");
  line.socket.destroy();
  await world.until(() => line.socket.destroyed);
  assert.deepEqual([...line.judge.wrong, ...(await world.leftovers())], []);
  world.close();
  return seen(frames, 1);
}

function cutAt(bytes: Buffer, places: readonly number[]): readonly Buffer[] {
  const ends = [...new Set(places)].filter((at) => at > 0 && at < bytes.length);
  const edges = [0, ...ends.sort((a, b) => a - b), bytes.length];
  return edges.slice(1).map((end, at) => bytes.subarray(edges[at], end));
}

test("a small call cut in two at every place, and into single bytes", async (t) => {
  const [own, library] = await twins(t);
  const whole = await ask(t, library, [SMALL]);
  assert.equal(whole.code, "0");
  assert.deepEqual(await ask(t, own, [SMALL]), whole);
  for (let at = 1; at < SMALL.length; at++) {
    assert.deepEqual(await inMemory(cutAt(SMALL, [at])), whole, `cut at ${at}, in memory`);
  }
  const bytes = cutAt(SMALL, [...SMALL.keys()]);
  assert.deepEqual(await inMemory(bytes), whole, "byte by byte, in memory");
  for (let at = 1; at < SMALL.length; at += 3) {
    for (const twin of [own, library]) {
      assert.deepEqual(await ask(t, twin, cutAt(SMALL, [at])), whole, `${twin.transport} at ${at}`);
    }
  }
  for (const twin of [own, library]) assert.deepEqual(await ask(t, twin, bytes), whole);
});

test("a larger call cut in many places", async (t) => {
  const [own, library] = await twins(t);
  const body = message(Buffer.alloc(50_000, "larger"));
  const frames = Array.from({ length: 10 }, (_, at) => {
    const part = body.subarray(at * 6_000, (at + 1) * 6_000);
    const last = at === 9 ? END_STREAM : 0;
    return at % 3 === 0 ? data(1, padded(part, 10 * at), last | PADDED) : data(1, part, last);
  });
  const large = Buffer.concat([PREFACE, WIDE, headers(1, HEAD), ...frames]);
  const whole = await ask(t, library, [large]);
  assert.match(whole.body, new RegExp(`^${body.length} bytes`));
  const places = fc.array(fc.integer({ min: 1, max: large.length - 1 }), { maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(places, async (at) => {
      assert.deepEqual(await inMemory(cutAt(large, at)), whole);
    }),
    { numRuns: 100 },
  );
  await fc.assert(
    fc.asyncProperty(places, async (at) => {
      for (const twin of [own, library]) {
        assert.deepEqual(await ask(t, twin, cutAt(large, at)), whole, twin.transport);
      }
    }),
    { numRuns: 15 },
  );
  assert.deepEqual(await inMemory(cutAt(large, [...large.keys()])), whole, "byte by byte");
});
