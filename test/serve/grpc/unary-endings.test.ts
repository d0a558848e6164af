// Unary calls that wait: deadlines, callers that leave, timeouts, and what a waiting call holds.

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { Fault } from "#base/fault.ts";
import { framed } from "../../kit/clients/recording-stream.ts";
import { until } from "../../kit/until.ts";
import { serveMethods, turns } from "./harness.ts";
import { assertReleased, echo, message, size, unary, waiting } from "./unary-setup.ts";

test("sets the deadline to the arrival of the head plus grpc-timeout", () => {
  const left: number[] = [];
  const { call, clock } = serveMethods({
    Ask: unary((bytes, call) => {
      left.push(call.deadline - clock.now());
      return bytes;
    }),
  });
  for (const timeout of ["8H", "3M", "2S", "250m", "1500u", "500000n", "99999999H"]) {
    call("Ask", ["grpc-timeout", timeout]).send(framed(message), true);
  }
  call("Ask").send(framed(message), true);
  const late = call("Ask", ["grpc-timeout", "2S"]);
  clock.advance(500);
  late.send(framed(message), true);
  assert.deepEqual(left, [
    28_800_000,
    180_000,
    2_000,
    250,
    1.5,
    0.5,
    99_999_999 * 3_600_000,
    Number.POSITIVE_INFINITY,
    1_500,
  ]);
  assert.equal(clock.alarms, 0);
});

test("does not call the handler for a request completed after its deadline", () => {
  const { call, clock, codes } = serveMethods({
    Never: unary(() => assert.fail("the handler was called")),
  });
  const each = call("Never", ["grpc-timeout", "100m"]);
  clock.advance(100);
  each.send(framed(message), true);
  assert.equal(each.stream.reply.code, 4);
  assert.deepEqual(codes(), ["DEADLINE_EXCEEDED"]);
  assertReleased(each, clock);
});

test("ends a call whose deadline passes before the message is complete", () => {
  const { call, clock, codes } = serveMethods({ Echo: echo });
  const each = call("Echo", ["grpc-timeout", "100m"]);
  each.send(framed(message).subarray(0, 8));
  clock.advance(99);
  assert.equal(each.stream.localClosed, false);
  clock.advance(1);
  assert.equal(each.stream.reply.code, 4);
  assert.deepEqual(codes(), ["DEADLINE_EXCEEDED"]);
  assertReleased(each, clock);
});

test("ends a waiting call at its deadline and aborts the handler's signal", async () => {
  const { method, first } = waiting();
  const { call, clock, codes, log } = serveMethods({ Wait: method });
  const each = call("Wait", ["grpc-timeout", "100m"]);
  each.send(framed(message), true);
  const { call: handled, resolve } = first();
  const signal = handled.signal();
  assert.equal(clock.alarms, 1);
  clock.advance(100);
  assert.deepEqual([each.stream.reply.code, signal.aborted], [4, true]);
  assert.deepEqual([each.stream.working, clock.alarms], [true, 0]);
  // Too late: nothing more is sent or counted, and the work has ended.
  handled.reply("x-a", "1");
  resolve(message);
  await turns();
  assertReleased(each, clock);
  assert.deepEqual(codes(), ["DEADLINE_EXCEEDED"]);
  assert.deepEqual(log.lines, []);
});

test("does not fire early for a deadline ten thousand years away, and leaves no alarm behind", async () => {
  const { method, first } = waiting();
  const { call, clock } = serveMethods({ Wait: method });
  const each = call("Wait", ["grpc-timeout", "99999999H"]);
  each.send(framed(message), true);
  clock.advance(99_999_999 * 3_600_000 - 1);
  assert.deepEqual([each.stream.localClosed, clock.alarms], [false, 1]);
  first().resolve(message);
  await turns();
  assert.equal(each.stream.reply.code, 0);
  assertReleased(each, clock);
});

for (const [timeout, code] of [
  ["0n", 4],
  ["0H", 4],
  ["", 13],
  ["5", 13],
  ["S", 13],
  ["123456789S", 13],
  ["1.5S", 13],
  ["-1S", 13],
  [" 1S", 13],
  ["1s", 13],
  ["1Sx", 13],
] as const) {
  test(`refuses grpc-timeout "${timeout}" with ${code}, without repeating it`, () => {
    const { call, codes, counted } = serveMethods({
      Never: unary(() => assert.fail("the handler was called")),
    });
    const { stream } = call("Never", ["grpc-timeout", timeout]);
    assert.equal(stream.reply.code, code);
    if (timeout.length > 1) assert.ok(!stream.reply.message.includes(timeout));
    assert.equal(codes().length, 1);
    assert.deepEqual(counted.grpc, ["started /test.Service/Never unary"]);
  });
}

test("aborts the signal when the caller cancels, and counts CANCELLED or DEADLINE_EXCEEDED", async () => {
  const { method, calls } = waiting();
  const { call, clock, codes, log } = serveMethods({ Wait: method });
  const asked = call("Wait", ["grpc-timeout", "100m"]);
  const late = call("Wait", ["grpc-timeout", "100m"]);
  const unasked = call("Wait");
  for (const each of [asked, late, unasked]) each.send(framed(message), true);
  const signal = calls[0]?.call.signal();
  assert.ok(signal !== undefined);
  const reasons: unknown[] = [];
  signal.addEventListener("abort", () => reasons.push(signal.reason));
  asked.cancel();
  assert.equal(reasons.length, 1);
  // The caller's clock may be up to a millisecond ahead.
  clock.advance(99);
  late.cancel();
  unasked.cancel();
  assert.deepEqual(codes(), ["CANCELLED", "DEADLINE_EXCEEDED", "CANCELLED"]);
  assert.equal(calls[2]?.call.signal().aborted, true);
  // However their handlers end, nothing more is sent or counted.
  calls[0]?.reject(signal.reason);
  calls[1]?.resolve(message);
  calls[2]?.reject(new Fault("CANCELLED", "stopped"));
  await turns();
  for (const each of [asked, late, unasked]) {
    assertReleased(each, clock);
    assert.deepEqual(each.stream.blocks, []);
    each.exchange.aborted();
  }
  assert.equal(codes().length, 3);
  assert.deepEqual(log.lines, []);
});

test("logs a handler that fails after its caller cancelled", async () => {
  const { method, first } = waiting();
  const { call, log, codes } = serveMethods({ Wait: method });
  const each = call("Wait");
  each.send(framed(message), true);
  first().call.signal();
  each.cancel();
  first().reject(new Error("broken"));
  await turns();
  assert.deepEqual(
    log.lines.map(({ fields }) => String(fields?.["error"])),
    ["Error: broken"],
  );
  assert.deepEqual(codes(), ["CANCELLED"]);
});

test("does not abort the signal when a call ends normally", async () => {
  const { method, first } = waiting();
  const { call } = serveMethods({ Wait: method });
  const each = call("Wait", ["grpc-timeout", "1S"]);
  each.send(framed(message), true);
  const signal = first().call.signal();
  assert.equal(first().call.signal(), signal);
  first().resolve(message);
  await turns();
  each.exchange.aborted();
  assert.equal(signal.aborted, false);
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("releases everything when a caller cancels in the middle of its request", () => {
  const { call, clock, codes } = serveMethods({ Echo: echo });
  for (const part of [0, 3, 5, 8]) {
    const each = call("Echo", ["grpc-timeout", "1S"]);
    each.send(framed(message).subarray(0, part));
    each.cancel();
    assertReleased(each, clock);
  }
  assert.deepEqual(codes(), Array(4).fill("CANCELLED"));
});

test("ends a request that is not complete within read_timeout", () => {
  const { call, clock, codes } = serveMethods({ Echo: echo });
  const each = call("Echo", ["grpc-timeout", "1H"]);
  each.send(framed(message).subarray(0, 7));
  each.exchange.timedOut();
  assert.equal(each.stream.reply.code, 4);
  assert.equal(each.stream.cancelled, false);
  assert.deepEqual(codes(), ["DEADLINE_EXCEEDED"]);
  assertReleased(each, clock);
});

test("counts the message of a waiting handler as buffered, once", async () => {
  const { method, calls } = waiting();
  const { call, clock, codes } = serveMethods({ Wait: method });
  const bytes = Buffer.alloc(10_000, "0123456789");
  const whole = call("Wait");
  whole.send(framed(bytes), true);
  assert.equal(whole.stream.held, bytes.length);
  const parts = call("Wait");
  parts.send(framed(bytes).subarray(0, 9_000));
  parts.send(framed(bytes).subarray(9_000), true);
  assert.equal(
    parts.stream.held,
    bytes.length,
    "the bytes of a collected message were counted twice",
  );
  const packed = call("Wait", ["grpc-encoding", "gzip"]);
  const small = gzipSync(bytes);
  packed.send(framed(small, 1), true);
  await until("three handlers to be called", () => calls.length === 3);
  assert.equal(packed.stream.held, small.length + bytes.length);
  for (const { resolve } of calls) resolve(message);
  await turns();
  assert.deepEqual(codes(), ["OK", "OK", "OK"]);
  for (const each of [whole, parts, packed]) assertReleased(each, clock);
});

test("refuses to let a handler wait with more than may be buffered, but accepts an immediate answer", async () => {
  const { method, first } = waiting();
  const { call, clock, codes } = serveMethods({ Wait: method, Size: size });
  const bytes = Buffer.alloc(10_000);
  const each = call("Wait", ["grpc-timeout", "1H"], { maxHeld: bytes.length - 1 });
  each.send(framed(bytes), true);
  assert.equal(each.stream.reply.code, 8);
  assert.equal(first().call.signal().aborted, true);
  assert.equal(each.stream.working, true, "the call counts as work until its handler is done");
  first().resolve(message);
  await turns();
  assertReleased(each, clock);
  const sync = call("Size", [], { maxHeld: 0 });
  sync.send(framed(bytes), true);
  assert.deepEqual(sync.stream.reply.messages.map(String), ["10000"]);
  assert.deepEqual(codes(), ["RESOURCE_EXHAUSTED", "OK"]);
});

test("measures times by the port's clock", async () => {
  const { method, first } = waiting();
  const { call, clock, counted } = serveMethods({ Wait: method });
  call("Wait").send(framed(message), true);
  clock.advance(12.5);
  first().resolve(message);
  await turns();
  assert.equal(counted.handled[0]?.ms, 12.5);
});

test("what a reply leaves taken belongs to the stream once the reply is sent, and is released otherwise", async () => {
  const taken = () => {
    const held = { size: 100, released: 0, release: () => void held.released++ };
    return held;
  };
  const own = waiting();
  const answer = taken();
  const fails = taken();
  const { call, clock, codes } = serveMethods({
    Answer: unary((bytes, call) => {
      call.releaseIfUndelivered(answer);
      return bytes;
    }),
    Fail: unary((_, call) => {
      call.releaseIfUndelivered(fails);
      throw new Fault("INTERNAL", "no reply");
    }),
    Late: unary((bytes, call) => {
      call.releaseIfUndelivered(fails);
      clock.advance(20);
      return bytes;
    }),
    Wait: own.method,
  });
  const answered = call("Answer");
  answered.send(framed(message), true);
  assert.deepEqual([answered.stream.unconfirmed, answer.released], [[answer], 0]);

  const failed = call("Fail");
  failed.send(framed(message), true);
  assert.deepEqual([failed.stream.unconfirmed, fails.released], [[], 1]);

  // The deadline passes while the handler works: its caller takes no reply.
  const late = call("Late", ["grpc-timeout", "10m"]);
  late.send(framed(message), true);
  assert.deepEqual([late.stream.unconfirmed, fails.released], [[], 2]);
  assert.deepEqual(codes(), ["OK", "INTERNAL", "DEADLINE_EXCEEDED"]);

  // The caller has left before the handler takes anything.
  const left = call("Wait");
  left.send(framed(message), true);
  left.cancel();
  own.first().call.releaseIfUndelivered(fails);
  assert.equal(fails.released, 3);
  own.first().resolve(message);
  await turns();
});
