import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { Fault } from "#base/fault.ts";
import type { Call, Method } from "#base/handler.ts";
import { framed, grpcHead } from "../../kit/clients/recording-stream.ts";
import { until } from "../../kit/until.ts";
import { serveMethods, type TestCall, turns } from "./harness.ts";

const MIB = 1024 * 1024;
const message = Buffer.from("a message");

const unary = (handle: Extract<Method, { kind: "unary" }>["handle"]): Method => ({
  kind: "unary",
  handle,
});
const echo = unary((bytes) => bytes);
const size = unary((bytes) => Buffer.from(String(bytes.length)));

/** A handler whose calls wait until the test resolves or rejects them. */
function waiting() {
  const calls: (PromiseWithResolvers<Uint8Array> & { readonly call: Call })[] = [];
  const method = unary((_, call) => {
    const waits = { ...Promise.withResolvers<Uint8Array>(), call };
    calls.push(waits);
    return waits.promise;
  });
  const first = () => {
    assert.ok(calls[0]);
    return calls[0];
  };
  return { method, calls, first };
}

/** Asserts that nothing of a call is left behind. */
function assertReleased({ stream }: TestCall, clock: { readonly alarms: number }): void {
  assert.ok(stream.localClosed);
  assert.deepEqual([stream.working, stream.held, clock.alarms], [false, 0, 0]);
}

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

test("waits for an asynchronous handler and counts it as work", async () => {
  const { method, first } = waiting();
  const { call, clock, codes } = serveMethods({ Wait: method });
  const each = call("Wait");
  each.send(framed(message), true);
  assert.deepEqual([each.stream.working, each.stream.blocks.length, clock.alarms], [true, 0, 0]);
  first().resolve(Buffer.from("late"));
  await turns();
  assert.equal(String(each.stream.reply.messages), "late");
  assert.deepEqual(codes(), ["OK"]);
  assertReleased(each, clock);
});

test("turns what a handler throws or rejects with into the status", async () => {
  const { call, codes, log, clock } = serveMethods({
    Now: unary((_, call) => {
      call.reply("x-said", "no");
      call.trailer("grpc-status-details-bin", Buffer.from("why").toString("base64"));
      throw new Fault("PERMISSION_DENIED", "no entry ~ \ud800 ü % \n");
    }),
    Later: unary(() => Promise.reject(new Fault("ABORTED", ""))),
    Broken: unary(() => {
      throw new Error("the secret");
    }),
  });
  const now = call("Now");
  now.send(framed(message), true);
  assert.deepEqual(now.stream.blocks, [
    [
      ":status",
      "200",
      "content-type",
      "application/grpc",
      "x-said",
      "no",
      "grpc-status",
      "7",
      "grpc-message",
      "no entry ~ %EF%BF%BD %C3%BC %25 %0A",
      "grpc-status-details-bin",
      "d2h5",
    ],
  ]);
  assertReleased(now, clock);
  const later = call("Later");
  later.send(framed(message), true);
  await turns();
  assert.deepEqual(later.stream.blocks, [
    [":status", "200", "content-type", "application/grpc", "grpc-status", "10"],
  ]);
  assertReleased(later, clock);
  const broken = call("Broken");
  broken.send(framed(message), true);
  assert.deepEqual([broken.stream.reply.code, broken.stream.reply.message], [13, "internal error"]);
  assert.deepEqual(codes(), ["PERMISSION_DENIED", "ABORTED", "INTERNAL"]);
  assert.deepEqual(
    log.lines.map(({ fields }) => [fields?.["method"], String(fields?.["error"])]),
    [["/test.Service/Broken", "Error: the secret"]],
  );
});

test("sends reply headers and trailers, binary ones included", () => {
  const { call } = serveMethods({
    Say: unary((bytes, call) => {
      call.reply("x-a", "1");
      call.reply("x-b-bin", "YQ");
      call.reply("x-a", "2");
      return bytes;
    }),
    Trail: unary((bytes, call) => {
      call.reply("x-a", "1");
      call.trailer("x-t", "1");
      call.trailer("x-t-bin", "AP8=");
      call.trailer("x-t", " spaced ");
      return bytes;
    }),
  });
  const say = call("Say");
  say.send(framed(message), true);
  const { head } = say.stream.reply;
  assert.deepEqual([head["x-a"], head["x-b-bin"]], ["2", "YQ=="]);
  const trail = call("Trail");
  trail.send(framed(message), true);
  const { reply } = trail.stream;
  assert.deepEqual(reply.trailers, { "grpc-status": "0", "x-t": "spaced", "x-t-bin": "AP8=" });
  assert.deepEqual(reply.messages, [message]);
  assert.equal(reply.head["x-a"], "1");
});

for (const [name, value] of [
  ["x-a", "line\r\nbreak"],
  ["x-a", "nul\0"],
  ["x-a", "ü"],
  ["X-A", "upper"],
  ["", "empty"],
  [":status", "500"],
  ["x a", "space"],
  ["x-é", "letter"],
  ["grpc-status", "0"],
  ["content-type", "text/plain"],
  ["transfer-encoding", "chunked"],
  ["x-a-bin", "no base64!"],
  ["x-a-bin", "YQ=\r\n"],
  ["x-a-bin", "Y"],
] as const) {
  test(`rejects invalid reply metadata: ${JSON.stringify([name, value])}`, () => {
    for (const set of ["reply", "trailer"] as const) {
      const { call, log } = serveMethods({
        Say: unary((bytes, call) => {
          call[set](name, value);
          return bytes;
        }),
      });
      const { stream, send } = call("Say");
      send(framed(message), true);
      assert.deepEqual([stream.reply.code, stream.reply.message], [13, "internal error"]);
      assert.equal(log.lines.length, 1);
    }
  });
}

test("returns the first value of request metadata, and binary values in padded base64", () => {
  const fields = [
    "x-a",
    "1, one",
    "x-a",
    "2",
    "x-b-bin",
    "YQ",
    "x-c-bin",
    "YWI,Yg==",
    "x-d-bin",
    "",
  ];
  const seen: (string | undefined)[] = [];
  const { call } = serveMethods({
    Ask: unary((bytes, call) => {
      for (const name of ["x-a", "x-b-bin", "x-c-bin", "x-d-bin", "x-e", "x-e-bin", "toString"]) {
        seen.push(call.header(name));
      }
      seen.push(call.method, call.peer);
      return bytes;
    }),
  });
  call("Ask", fields).send(framed(message), true);
  assert.deepEqual(seen, [
    "1, one",
    "YQ==",
    "YWI=",
    "",
    undefined,
    undefined,
    undefined,
    "/test.Service/Ask",
    "10.1.2.3",
  ]);
});

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
    ...[28_800_000, 180_000, 2_000, 250, 1.5, 0.5, 99_999_999 * 3_600_000],
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
  assert.deepEqual(each.stream.resets, []);
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
