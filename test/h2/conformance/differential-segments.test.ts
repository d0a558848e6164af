// However TCP splits a caller's bytes, both transports give the same reply as to the bytes in one piece.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
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
} from "../../kit/clients/h2.ts";
import { block, HpackDecoder } from "../../kit/clients/hpack.ts";
import { FrameSplitter } from "../../lab/fuzz/engine/connection.ts";
import { Harness } from "../../lab/fuzz/engine/harness.ts";
import {
  callInSegments,
  LARGE_WINDOWS,
  type ObservedReply,
  observedReply,
  pairedPorts,
  pairedService,
} from "./paired-transports.ts";

const HEAD = block(grpcFields("/test.Pair/Echo", ["x-text", "hello"]));

/** A small call that uses as many kinds of frames as possible. */
const SMALL = Buffer.concat([
  PREFACE,
  settings([4, 65_535]),
  frame(HEADERS, 0, 1, HEAD.subarray(0, 20)),
  frame(CONTINUATION, END_HEADERS, 1, HEAD.subarray(20)),
  data(1, padded(message(Buffer.from("a mess")).subarray(0, 3), 2), PADDED),
  data(1, message(Buffer.from("a mess")).subarray(3)),
  data(1, Buffer.alloc(0), END_STREAM),
]);

/** The reply of Sluice's transport to these segments, each in a read of its own. */
async function inMemory(parts: readonly Buffer[]): Promise<ObservedReply> {
  const harness = new Harness([pairedService({ begun: 0, aborted: 0 })]);
  const connection = harness.connect(true);
  const frames: Frame[] = [];
  const decoder = new HpackDecoder();
  const splitter = new FrameSplitter((type, flags, stream, payload) => {
    const fields = type === HEADERS ? decoder.decode(payload) : undefined;
    frames.push({ type, flags, stream, payload: Buffer.from(payload), fields });
  }, 2 ** 24);
  connection.onOutput = (bytes) => splitter.push(bytes);
  for (const part of parts) harness.send(connection, part);
  assert.ok(
    await harness.until(() => connection.oracle.reply(1).state === "ended"),
    "the call was not answered",
  );
  connection.socket.destroy();
  await harness.until(() => connection.socket.destroyed);
  assert.deepEqual([...connection.oracle.violations, ...(await harness.leftovers())], []);
  harness.close();
  return observedReply(frames, 1);
}

function splitAt(bytes: Buffer, places: readonly number[]): readonly Buffer[] {
  const ends = [...new Set(places)].filter((at) => at > 0 && at < bytes.length);
  const edges = [0, ...ends.sort((a, b) => a - b), bytes.length];
  return edges.slice(1).map((end, at) => bytes.subarray(edges[at], end));
}

test("a small call gets the same reply when split at any byte, and into single bytes", async (t) => {
  const [own, library] = await pairedPorts(t);
  const whole = await callInSegments(t, library, [SMALL]);
  assert.equal(whole.code, "0");
  assert.deepEqual(await callInSegments(t, own, [SMALL]), whole);
  for (let at = 1; at < SMALL.length; at++) {
    assert.deepEqual(await inMemory(splitAt(SMALL, [at])), whole, `cut at ${at}, in memory`);
  }
  const bytes = splitAt(SMALL, [...SMALL.keys()]);
  assert.deepEqual(await inMemory(bytes), whole, "byte by byte, in memory");
  for (let at = 1; at < SMALL.length; at += 3) {
    for (const port of [own, library]) {
      assert.deepEqual(
        await callInSegments(t, port, splitAt(SMALL, [at])),
        whole,
        `${port.transport} at ${at}`,
      );
    }
  }
  for (const port of [own, library]) assert.deepEqual(await callInSegments(t, port, bytes), whole);
});

test("a larger call gets the same reply when split in many places", async (t) => {
  const [own, library] = await pairedPorts(t);
  const body = message(Buffer.alloc(50_000, "larger"));
  const frames = Array.from({ length: 10 }, (_, at) => {
    const part = body.subarray(at * 6_000, (at + 1) * 6_000);
    const last = at === 9 ? END_STREAM : 0;
    return at % 3 === 0 ? data(1, padded(part, 10 * at), last | PADDED) : data(1, part, last);
  });
  const large = Buffer.concat([PREFACE, LARGE_WINDOWS, headers(1, HEAD), ...frames]);
  const whole = await callInSegments(t, library, [large]);
  assert.match(whole.body, new RegExp(`^${body.length} bytes`));
  const places = fc.array(fc.integer({ min: 1, max: large.length - 1 }), { maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(places, async (at) => {
      assert.deepEqual(await inMemory(splitAt(large, at)), whole);
    }),
    { numRuns: 100 },
  );
  await fc.assert(
    fc.asyncProperty(places, async (at) => {
      for (const port of [own, library]) {
        assert.deepEqual(await callInSegments(t, port, splitAt(large, at)), whole, port.transport);
      }
    }),
    { numRuns: 15 },
  );
  assert.deepEqual(await inMemory(splitAt(large, [...large.keys()])), whole, "byte by byte");
});
