// Requests of unary calls: messages in pieces, their limits, and compressed ones.

import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { framed, grpcHead } from "../../kit/clients/recording-stream.ts";
import { until } from "../../kit/until.ts";
import { serveMethods, turns } from "./harness.ts";
import { assertReleased, echo, message, size, unary, waiting } from "./unary-setup.ts";

const MIB = 1024 * 1024;

test("answers a request that arrives in one piece with one write", () => {
  const { call, clock, counted, codes } = serveMethods({ Echo: echo });
  const { stream, send } = call("Echo");
  send(framed(message), true);
  assert.equal(stream.answers, 1);
  assert.deepEqual(stream.blocks, [
    [":status", "200", "content-type", "application/grpc"],
    ["grpc-status", "0"],
  ]);
  assert.deepEqual(stream.reply.messages, [message]);
  assert.deepEqual(counted.grpc, [
    "started /test.Service/Echo unary",
    "received /test.Service/Echo",
    "sent /test.Service/Echo",
  ]);
  assert.deepEqual(codes(), ["OK"]);
  assert.equal(clock.alarms, 0);
});

test("passes a message as a view of the read buffer, and an empty message as a message", () => {
  const seen: Uint8Array[] = [];
  const { call } = serveMethods({
    Keep: unary((bytes) => {
      seen.push(bytes);
      return new Uint8Array(0);
    }),
  });
  const { exchange, stream } = call("Keep");
  const chunk = Buffer.concat([Buffer.from("before"), framed(message), Buffer.from("after")]);
  exchange.data(chunk, 6, 6 + 5 + message.length, true);
  assert.deepEqual(seen[0], message);
  assert.equal(seen[0]?.buffer, chunk.buffer);
  assert.deepEqual(stream.reply.messages, [Buffer.alloc(0)]);
  const empty = call("Keep");
  empty.send(framed(""), true);
  assert.equal(seen[1]?.length, 0);
  assert.equal(empty.stream.reply.code, 0);
});

test("reassembles a message split at any byte", () => {
  const { call, clock } = serveMethods({ Echo: echo });
  const bytes = framed(message);
  for (let at = 0; at <= bytes.length; at++) {
    for (const ends of ["with it", "after it"]) {
      const each = call("Echo");
      each.send(bytes.subarray(0, at));
      each.send(bytes.subarray(at), ends === "with it");
      if (ends === "after it") each.send(Buffer.alloc(0), true);
      assert.deepEqual(each.stream.reply.messages, [message], `${at} ${ends}`);
      assertReleased(each, clock);
    }
  }
});

test("reassembles any message from any pieces and returns their flow-control credit", () => {
  const { call, clock } = serveMethods({ Echo: echo });
  const sizes = fc.array(fc.integer({ min: 0, max: 30_000 }), { maxLength: 8 });
  fc.assert(
    fc.property(fc.nat(100_000), sizes, (length, pieces) => {
      const bytes = framed(Buffer.alloc(length, length));
      const each = call("Echo");
      let at = 0;
      for (const piece of pieces) {
        each.send(bytes.subarray(at, at + piece));
        at = Math.min(bytes.length, at + piece);
        assert.equal(each.stream.credited, at);
        // The memory of the buffer is in proportion to the bytes received.
        assert.ok(each.stream.held <= Math.max(4_096, 4 * at), `${each.stream.held} for ${at}`);
      }
      each.send(bytes.subarray(at), true);
      assert.deepEqual(each.stream.reply.messages, [bytes.subarray(5)]);
      assertReleased(each, clock);
    }),
    { numRuns: 50 },
  );
});

for (const [what, parts, code] of [
  ["no message", [""], 12],
  ["two messages", [framed("one"), framed("two")], 12],
  ["two messages at once", [Buffer.concat([framed("one"), framed("two")])], 12],
  ["a message and a byte", [Buffer.concat([framed("one"), Buffer.alloc(1)])], 12],
  ["part of a prefix", [framed("one").subarray(0, 3)], 13],
  ["a prefix alone", [framed("one").subarray(0, 5)], 13],
  ["part of a message", [framed("one").subarray(0, 7)], 13],
  ["an invalid compressed flag", [framed("one", 2)], 13],
  ["a compressed message without grpc-encoding", [framed(gzipSync("one"), 1)], 13],
] as const) {
  test(`refuses ${what} with ${code}, without calling the handler`, async () => {
    const { call, clock, codes, counted, log } = serveMethods({
      Never: unary(() => assert.fail("the handler was called")),
    });
    const each = call("Never", ["grpc-timeout", "1H"]);
    for (const part of parts) if (!each.stream.localClosed) each.send(Buffer.from(part));
    if (!each.stream.localClosed) each.send(Buffer.alloc(0), true);
    await turns();
    assert.deepEqual([each.stream.reply.status, each.stream.reply.code], [200, code]);
    assert.equal(each.stream.blocks.length, 1);
    assert.equal(codes().length, 1);
    assert.deepEqual(counted.grpc, ["started /test.Service/Never unary"]);
    assertReleased(each, clock);
    // Data that still arrives is ignored.
    each.send(framed(message), true);
    each.cancel();
    assert.equal(codes().length, 1);
    assert.deepEqual(log.lines, []);
  });
}

test("refuses a request without a message", () => {
  const { open } = serveMethods({ Echo: echo });
  assert.equal(open(grpcHead("/test.Service/Echo"), true).stream.reply.code, 12);
});

test("accepts 4 MiB and refuses a longer message as soon as its prefix arrives", () => {
  const { call, clock, codes } = serveMethods({ Size: size });
  const fits = call("Size");
  const bytes = framed(Buffer.alloc(4 * MIB));
  for (let at = 0; at < bytes.length; at += 16_384) fits.send(bytes.subarray(at, at + 16_384));
  fits.send(Buffer.alloc(0), true);
  assert.equal(String(fits.stream.reply.messages[0]), String(4 * MIB));
  assertReleased(fits, clock);
  const prefix = Buffer.from([0, 0, 0x40, 0, 1]);
  for (const parts of [[prefix], [prefix.subarray(0, 2), prefix.subarray(2)]]) {
    const long = call("Size");
    for (const part of parts) long.send(part);
    assert.equal(long.stream.reply.code, 8);
    assertReleased(long, clock);
  }
  assert.deepEqual(codes(), ["OK", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"]);
});

test("refuses a message for which there is no buffer space", () => {
  const { call, clock } = serveMethods({ Size: size });
  const bytes = framed(Buffer.alloc(50_000));
  const each = call("Size", [], { maxHeld: 30_000 });
  each.send(bytes.subarray(0, 5_000));
  assert.equal(each.stream.localClosed, false);
  each.send(bytes.subarray(5_000));
  assert.equal(each.stream.reply.code, 8);
  assertReleased(each, clock);
});

test("allocates nothing for a long message that was only announced", () => {
  const { call } = serveMethods({ Size: size });
  const each = call("Size");
  each.send(framed(Buffer.alloc(4 * MIB)).subarray(0, 6));
  assert.ok(each.stream.held <= 4_096);
});

test("inflates gzip and deflate up to the message limit", async () => {
  const seen: number[] = [];
  const { call, clock, codes } = serveMethods({
    Size: unary((bytes) => {
      seen.push(bytes.length);
      return bytes.subarray(0, 3);
    }),
  });
  const ask = async (encoding: string, body: Buffer) => {
    const each = call("Size", ["grpc-encoding", encoding, "grpc-timeout", "1H"]);
    each.send(body, true);
    await until("reply", () => each.stream.localClosed);
    assertReleased(each, clock);
    return each.stream.reply;
  };
  const text = Buffer.from("compressed");
  for (const [encoding, compress] of [
    ["gzip", gzipSync],
    ["deflate", deflateSync],
  ] as const) {
    assert.deepEqual((await ask(encoding, framed(compress(text), 1))).messages, [
      text.subarray(0, 3),
    ]);
    assert.equal((await ask(encoding, framed(compress(Buffer.alloc(4 * MIB)), 1))).code, 0);
    assert.equal((await ask(encoding, framed(compress(Buffer.alloc(4 * MIB + 1)), 1))).code, 8);
    assert.equal((await ask(encoding, framed(compress(Buffer.alloc(64 * MIB)), 1))).code, 8);
    assert.equal((await ask(encoding, framed("neither", 1))).code, 13);
    assert.equal((await ask(encoding, framed(compress(text).subarray(0, 12), 1))).code, 13);
    assert.equal((await ask(encoding, framed("", 1))).code, 13);
  }
  assert.deepEqual(seen, [10, 4 * MIB, 10, 4 * MIB]);
  // Each message has its own compressed flag.
  assert.equal((await ask("gzip", framed(text))).code, 0);
  assert.equal((await ask("snappy", framed(text))).code, 0);
  const unknown = await ask("snappy", framed(text, 1));
  assert.equal(unknown.code, 12);
  assert.equal(unknown.head["grpc-accept-encoding"], "identity,deflate,gzip");
  assert.doesNotMatch(unknown.message, /snappy/);
  assert.equal((await ask("identity", framed(text, 1))).code, 13);
  assert.equal(codes().length, 18);
});

test("counts a handler that waits with an inflated message as work until it is done", async () => {
  const { method, calls, first } = waiting();
  const { call, clock } = serveMethods({ Wait: method });
  const each = call("Wait", ["grpc-encoding", "gzip"]);
  each.send(framed(gzipSync(message), 1), true);
  await until("call", () => calls.length === 1);
  assert.equal(each.stream.working, true);
  first().resolve(message);
  await turns();
  assert.equal(each.stream.reply.code, 0);
  assertReleased(each, clock);
});

test("counts an inflated message as buffered memory", async () => {
  const { call, clock } = serveMethods({ Size: size });
  const each = call("Size", ["grpc-encoding", "gzip"], { maxHeld: MIB });
  each.send(framed(gzipSync(Buffer.alloc(2 * MIB)), 1), true);
  await until("reply", () => each.stream.localClosed);
  assert.equal(each.stream.reply.code, 8);
  assertReleased(each, clock);
});

test("queues compressed messages and skips those of cancelled calls", async () => {
  const { call, clock, codes } = serveMethods({ Size: size });
  const body = framed(gzipSync(Buffer.alloc(MIB)), 1);
  const calls = Array.from({ length: 20 }, () => call("Size", ["grpc-encoding", "gzip"]));
  for (const each of calls) each.send(body, true);
  for (const each of calls) assert.equal(each.stream.working, true);
  for (const each of calls.slice(10)) each.cancel();
  await until("replies", () => calls.every(({ stream }) => stream.working === false));
  for (const each of calls) assertReleased(each, clock);
  assert.deepEqual(
    calls.map(({ stream }) => stream.reply.code),
    Array.from({ length: 20 }, (_, at) => (at < 10 ? 0 : undefined)),
  );
  assert.equal(codes().filter((code) => code === "OK").length, 10);
});
