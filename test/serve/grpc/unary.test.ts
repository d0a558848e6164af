import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { Fault } from "#base/fault.ts";
import type { Call, Method } from "#serve/handler.ts";
import { framed, grpcHead } from "../../kit/h2-stream.ts";
import { until } from "../../kit/port.ts";
import { serving, type TestCall, turns } from "./serving.ts";

const MIB = 1024 * 1024;
const message = Buffer.from("a message");

const unary = (handle: Extract<Method, { kind: "unary" }>["handle"]): Method => ({
  kind: "unary",
  handle,
});
const echo = unary((bytes) => bytes);
const size = unary((bytes) => Buffer.from(String(bytes.length)));

/** A handler that waits until the test says what comes of it. */
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

/** Nothing of a call is left behind. */
function over({ stream }: TestCall, clock: { readonly alarms: number }): void {
  assert.ok(stream.closed);
  assert.deepEqual([stream.working, stream.held, clock.alarms], [false, 0, 0]);
}

test("a request in one piece is answered in one", () => {
  const { call, clock, counted, codes } = serving({ Echo: echo });
  const { stream, send } = call("Echo");
  send(framed(message), true);
  assert.equal(stream.answers, 1);
  assert.deepEqual(stream.blocks, [
    [":status", "200", "content-type", "application/grpc"],
    ["grpc-status", "0"],
  ]);
  assert.deepEqual(stream.seen.messages, [message]);
  assert.deepEqual(counted.grpc, [
    "started /test.Service/Echo unary",
    "received /test.Service/Echo",
    "sent /test.Service/Echo",
  ]);
  assert.deepEqual(codes(), ["OK"]);
  assert.equal(clock.alarms, 0);
});

test("a message is a view of what was read, and an empty one is a message", () => {
  const seen: Uint8Array[] = [];
  const { call } = serving({
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
  assert.deepEqual(stream.seen.messages, [Buffer.alloc(0)]);
  const empty = call("Keep");
  empty.send(framed(""), true);
  assert.equal(seen[1]?.length, 0);
  assert.equal(empty.stream.seen.code, 0);
});

test("a message split at every byte is the same message", () => {
  const { call, clock } = serving({ Echo: echo });
  const bytes = framed(message);
  for (let at = 0; at <= bytes.length; at++) {
    for (const ends of ["with it", "after it"]) {
      const each = call("Echo");
      each.send(bytes.subarray(0, at));
      each.send(bytes.subarray(at), ends === "with it");
      if (ends === "after it") each.send(Buffer.alloc(0), true);
      assert.deepEqual(each.stream.seen.messages, [message], `${at} ${ends}`);
      over(each, clock);
    }
  }
});

test("any message in any pieces is the same message, and what comes of it is allowed anew", () => {
  const { call, clock } = serving({ Echo: echo });
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
        // What is kept is in proportion to what came.
        assert.ok(each.stream.held <= Math.max(4_096, 4 * at), `${each.stream.held} for ${at}`);
      }
      each.send(bytes.subarray(at), true);
      assert.deepEqual(each.stream.seen.messages, [bytes.subarray(5)]);
      over(each, clock);
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
  ["an odd compressed flag", [framed("one", 2)], 13],
  ["a compressed message that does not say how", [framed(gzipSync("one"), 1)], 13],
] as const) {
  test(`${what}: refused with ${code}, without asking the handler`, async () => {
    const { call, clock, codes, counted, log } = serving({
      Never: unary(() => assert.fail("was asked")),
    });
    const each = call("Never", ["grpc-timeout", "1H"]);
    for (const part of parts) if (!each.stream.closed) each.send(Buffer.from(part));
    if (!each.stream.closed) each.send(Buffer.alloc(0), true);
    await turns();
    assert.deepEqual([each.stream.seen.status, each.stream.seen.code], [200, code]);
    assert.equal(each.stream.blocks.length, 1);
    assert.equal(codes().length, 1);
    assert.deepEqual(counted.grpc, ["started /test.Service/Never unary"]);
    over(each, clock);
    // What still comes is nobody's business.
    each.send(framed(message), true);
    each.leave();
    assert.equal(codes().length, 1);
    assert.deepEqual(log.lines, []);
  });
}

test("a request without a body has no message", () => {
  const { open } = serving({ Echo: echo });
  assert.equal(open(grpcHead("/test.Service/Echo"), true).stream.seen.code, 12);
});

test("4 MiB pass; a longer message is refused by its prefix alone", () => {
  const { call, clock, codes } = serving({ Size: size });
  const fits = call("Size");
  const bytes = framed(Buffer.alloc(4 * MIB));
  for (let at = 0; at < bytes.length; at += 16_384) fits.send(bytes.subarray(at, at + 16_384));
  fits.send(Buffer.alloc(0), true);
  assert.equal(String(fits.stream.seen.messages[0]), String(4 * MIB));
  over(fits, clock);
  const prefix = Buffer.from([0, 0, 0x40, 0, 1]);
  for (const parts of [[prefix], [prefix.subarray(0, 2), prefix.subarray(2)]]) {
    const long = call("Size");
    for (const part of parts) long.send(part);
    assert.equal(long.stream.seen.code, 8);
    over(long, clock);
  }
  assert.deepEqual(codes(), ["OK", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"]);
});

test("a message that may not be kept is refused", () => {
  const { call, clock } = serving({ Size: size });
  const bytes = framed(Buffer.alloc(50_000));
  const each = call("Size", [], { most: 30_000 });
  each.send(bytes.subarray(0, 5_000));
  assert.equal(each.stream.closed, false);
  each.send(bytes.subarray(5_000));
  assert.equal(each.stream.seen.code, 8);
  over(each, clock);
});

test("a long message that was only promised takes no memory", () => {
  const { call } = serving({ Size: size });
  const each = call("Size");
  each.send(framed(Buffer.alloc(4 * MIB)).subarray(0, 6));
  assert.ok(each.stream.held <= 4_096);
});

test("gzip and deflate are inflated, within the limit", async () => {
  const seen: number[] = [];
  const { call, clock, codes } = serving({
    Size: unary((bytes) => {
      seen.push(bytes.length);
      return bytes.subarray(0, 3);
    }),
  });
  const ask = async (encoding: string, body: Buffer) => {
    const each = call("Size", ["grpc-encoding", encoding, "grpc-timeout", "1H"]);
    each.send(body, true);
    await until("reply", () => each.stream.closed);
    over(each, clock);
    return each.stream.seen;
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
  // Each message says for itself whether it is compressed.
  assert.equal((await ask("gzip", framed(text))).code, 0);
  assert.equal((await ask("snappy", framed(text))).code, 0);
  const unknown = await ask("snappy", framed(text, 1));
  assert.equal(unknown.code, 12);
  assert.equal(unknown.head["grpc-accept-encoding"], "identity,deflate,gzip");
  assert.doesNotMatch(unknown.message, /snappy/);
  assert.equal((await ask("identity", framed(text, 1))).code, 13);
  assert.equal(codes().length, 18);
});

test("a handler that waits with an inflated message is work until it is done", async () => {
  const { method, calls, first } = waiting();
  const { call, clock } = serving({ Wait: method });
  const each = call("Wait", ["grpc-encoding", "gzip"]);
  each.send(framed(gzipSync(message), 1), true);
  await until("call", () => calls.length === 1);
  assert.equal(each.stream.working, true);
  first().resolve(message);
  await turns();
  assert.equal(each.stream.seen.code, 0);
  over(each, clock);
});

test("an inflated message counts as kept", async () => {
  const { call, clock } = serving({ Size: size });
  const each = call("Size", ["grpc-encoding", "gzip"], { most: MIB });
  each.send(framed(gzipSync(Buffer.alloc(2 * MIB)), 1), true);
  await until("reply", () => each.stream.closed);
  assert.equal(each.stream.seen.code, 8);
  over(each, clock);
});

test("many compressed messages wait their turn, and those whose callers left are skipped", async () => {
  const { call, clock, codes } = serving({ Size: size });
  const body = framed(gzipSync(Buffer.alloc(MIB)), 1);
  const calls = Array.from({ length: 20 }, () => call("Size", ["grpc-encoding", "gzip"]));
  for (const each of calls) each.send(body, true);
  for (const each of calls) assert.equal(each.stream.working, true);
  for (const each of calls.slice(10)) each.leave();
  await until("replies", () => calls.every(({ stream }) => stream.working === false));
  for (const each of calls) over(each, clock);
  assert.deepEqual(
    calls.map(({ stream }) => stream.seen.code),
    Array.from({ length: 20 }, (_, at) => (at < 10 ? 0 : undefined)),
  );
  assert.equal(codes().filter((code) => code === "OK").length, 10);
});

test("a handler that waits is waited for, and counts as work", async () => {
  const { method, first } = waiting();
  const { call, clock, codes } = serving({ Wait: method });
  const each = call("Wait");
  each.send(framed(message), true);
  assert.deepEqual([each.stream.working, each.stream.blocks.length, clock.alarms], [true, 0, 0]);
  first().resolve(Buffer.from("late"));
  await turns();
  assert.equal(String(each.stream.seen.messages), "late");
  assert.deepEqual(codes(), ["OK"]);
  over(each, clock);
});

test("what a handler throws becomes the status, at once or later", async () => {
  const { call, codes, log, clock } = serving({
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
      ...[":status", "200", "content-type", "application/grpc", "x-said", "no"],
      ...["grpc-status", "7", "grpc-message", "no entry ~ %EF%BF%BD %C3%BC %25 %0A"],
      ...["grpc-status-details-bin", "d2h5"],
    ],
  ]);
  over(now, clock);
  const later = call("Later");
  later.send(framed(message), true);
  await turns();
  assert.deepEqual(later.stream.blocks, [
    [":status", "200", "content-type", "application/grpc", "grpc-status", "10"],
  ]);
  over(later, clock);
  const broken = call("Broken");
  broken.send(framed(message), true);
  assert.deepEqual([broken.stream.seen.code, broken.stream.seen.message], [13, "internal error"]);
  assert.deepEqual(codes(), ["PERMISSION_DENIED", "ABORTED", "INTERNAL"]);
  assert.deepEqual(
    log.lines.map(({ fields }) => [fields?.["method"], String(fields?.["error"])]),
    [["/test.Service/Broken", "Error: the secret"]],
  );
});

test("reply headers and trailers, binary ones too", () => {
  const { call } = serving({
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
  const { head } = say.stream.seen;
  assert.deepEqual([head["x-a"], head["x-b-bin"]], ["2", "YQ=="]);
  const trail = call("Trail");
  trail.send(framed(message), true);
  const { seen } = trail.stream;
  assert.deepEqual(seen.trailers, { "grpc-status": "0", "x-t": "spaced", "x-t-bin": "AP8=" });
  assert.deepEqual(seen.messages, [message]);
  assert.equal(seen.head["x-a"], "1");
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
  test(`metadata that no reply may have: ${JSON.stringify([name, value])}`, () => {
    for (const set of ["reply", "trailer"] as const) {
      const { call, log } = serving({
        Say: unary((bytes, call) => {
          call[set](name, value);
          return bytes;
        }),
      });
      const { stream, send } = call("Say");
      send(framed(message), true);
      assert.deepEqual([stream.seen.code, stream.seen.message], [13, "internal error"]);
      assert.equal(log.lines.length, 1);
    }
  });
}

test("request metadata: the first value of a name, binary ones in padded base64", () => {
  const fields = [
    ...["x-a", "1, one", "x-a", "2", "x-b-bin", "YQ", "x-c-bin", "YWI,Yg==", "x-d-bin", ""],
  ];
  const seen: (string | undefined)[] = [];
  const { call } = serving({
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
    ...["1, one", "YQ==", "YWI=", "", undefined, undefined, undefined],
    ...["/test.Service/Ask", "10.1.2.3"],
  ]);
});

test("the deadline is the head's time and grpc-timeout", () => {
  const left: number[] = [];
  const { call, clock } = serving({
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
    ...[Number.POSITIVE_INFINITY, 1_500],
  ]);
  assert.equal(clock.alarms, 0);
});

test("a request that is whole after its deadline is not handled", () => {
  const { call, clock, codes } = serving({ Never: unary(() => assert.fail("was asked")) });
  const each = call("Never", ["grpc-timeout", "100m"]);
  clock.advance(100);
  each.send(framed(message), true);
  assert.equal(each.stream.seen.code, 4);
  assert.deepEqual(codes(), ["DEADLINE_EXCEEDED"]);
  over(each, clock);
});

test("a deadline that passes while the message is incomplete ends the call", () => {
  const { call, clock, codes } = serving({ Echo: echo });
  const each = call("Echo", ["grpc-timeout", "100m"]);
  each.send(framed(message).subarray(0, 8));
  clock.advance(99);
  assert.equal(each.stream.closed, false);
  clock.advance(1);
  assert.equal(each.stream.seen.code, 4);
  assert.deepEqual(codes(), ["DEADLINE_EXCEEDED"]);
  over(each, clock);
});

test("a deadline ends a handler that waits, which is told", async () => {
  const { method, first } = waiting();
  const { call, clock, codes, log } = serving({ Wait: method });
  const each = call("Wait", ["grpc-timeout", "100m"]);
  each.send(framed(message), true);
  const { call: seen, resolve } = first();
  const signal = seen.signal();
  assert.equal(clock.alarms, 1);
  clock.advance(100);
  assert.deepEqual([each.stream.seen.code, signal.aborted], [4, true]);
  assert.deepEqual([each.stream.working, clock.alarms], [true, 0]);
  // Too late: nothing is sent or counted any more, and the work is over.
  seen.reply("x-a", "1");
  resolve(message);
  await turns();
  over(each, clock);
  assert.deepEqual(codes(), ["DEADLINE_EXCEEDED"]);
  assert.deepEqual(log.lines, []);
});

test("a deadline in ten thousand years does not ring before, nor does its alarm stay", async () => {
  const { method, first } = waiting();
  const { call, clock } = serving({ Wait: method });
  const each = call("Wait", ["grpc-timeout", "99999999H"]);
  each.send(framed(message), true);
  clock.advance(99_999_999 * 3_600_000 - 1);
  assert.deepEqual([each.stream.closed, clock.alarms], [false, 1]);
  first().resolve(message);
  await turns();
  assert.equal(each.stream.seen.code, 0);
  over(each, clock);
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
  test(`grpc-timeout "${timeout}" is refused with ${code}, without repeating it`, () => {
    const { call, codes, counted } = serving({ Never: unary(() => assert.fail("was asked")) });
    const { stream } = call("Never", ["grpc-timeout", timeout]);
    assert.equal(stream.seen.code, code);
    if (timeout.length > 1) assert.ok(!stream.seen.message.includes(timeout));
    assert.equal(codes().length, 1);
    assert.deepEqual(counted.grpc, ["started /test.Service/Never unary"]);
  });
}

test("a caller that leaves aborts the signal, and is counted for what it did", async () => {
  const { method, calls } = waiting();
  const { call, clock, codes, log } = serving({ Wait: method });
  const asked = call("Wait", ["grpc-timeout", "100m"]);
  const late = call("Wait", ["grpc-timeout", "100m"]);
  const unasked = call("Wait");
  for (const each of [asked, late, unasked]) each.send(framed(message), true);
  const signal = calls[0]?.call.signal();
  assert.ok(signal !== undefined);
  const reasons: unknown[] = [];
  signal.addEventListener("abort", () => reasons.push(signal.reason));
  asked.leave();
  assert.equal(reasons.length, 1);
  // The caller's clock is up to a millisecond ahead of ours.
  clock.advance(99);
  late.leave();
  unasked.leave();
  assert.deepEqual(codes(), ["CANCELLED", "DEADLINE_EXCEEDED", "CANCELLED"]);
  assert.equal(calls[2]?.call.signal().aborted, true);
  // However their handlers end, nothing more comes of it.
  calls[0]?.reject(signal.reason);
  calls[1]?.resolve(message);
  calls[2]?.reject(new Fault("CANCELLED", "stopped"));
  await turns();
  for (const each of [asked, late, unasked]) {
    over(each, clock);
    assert.deepEqual(each.stream.blocks, []);
    each.exchange.gone();
  }
  assert.equal(codes().length, 3);
  assert.deepEqual(log.lines, []);
});

test("a handler that breaks after its caller left is logged", async () => {
  const { method, first } = waiting();
  const { call, log, codes } = serving({ Wait: method });
  const each = call("Wait");
  each.send(framed(message), true);
  first().call.signal();
  each.leave();
  first().reject(new Error("broken"));
  await turns();
  assert.deepEqual(
    log.lines.map(({ fields }) => String(fields?.["error"])),
    ["Error: broken"],
  );
  assert.deepEqual(codes(), ["CANCELLED"]);
});

test("an ordinary end aborts nothing", async () => {
  const { method, first } = waiting();
  const { call } = serving({ Wait: method });
  const each = call("Wait", ["grpc-timeout", "1S"]);
  each.send(framed(message), true);
  const signal = first().call.signal();
  assert.equal(first().call.signal(), signal);
  first().resolve(message);
  await turns();
  each.exchange.gone();
  assert.equal(signal.aborted, false);
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("a caller that leaves in the middle of its request leaves nothing", () => {
  const { call, clock, codes } = serving({ Echo: echo });
  for (const part of [0, 3, 5, 8]) {
    const each = call("Echo", ["grpc-timeout", "1S"]);
    each.send(framed(message).subarray(0, part));
    each.leave();
    over(each, clock);
  }
  assert.deepEqual(codes(), Array(4).fill("CANCELLED"));
});

test("a request that takes too long is refused", () => {
  const { call, clock, codes } = serving({ Echo: echo });
  const each = call("Echo", ["grpc-timeout", "1H"]);
  each.send(framed(message).subarray(0, 7));
  each.exchange.slow();
  assert.equal(each.stream.seen.code, 4);
  assert.deepEqual(each.stream.resets, []);
  assert.deepEqual(codes(), ["DEADLINE_EXCEEDED"]);
  over(each, clock);
});

test("a message that its handler waits with counts as kept, once", async () => {
  const { method, calls } = waiting();
  const { call, clock, codes } = serving({ Wait: method });
  const bytes = Buffer.alloc(10_000, "0123456789");
  const whole = call("Wait");
  whole.send(framed(bytes), true);
  assert.equal(whole.stream.held, bytes.length);
  const parts = call("Wait");
  parts.send(framed(bytes).subarray(0, 9_000));
  parts.send(framed(bytes).subarray(9_000), true);
  assert.equal(parts.stream.held, bytes.length, "what was collected is counted already");
  const packed = call("Wait", ["grpc-encoding", "gzip"]);
  const small = gzipSync(bytes);
  packed.send(framed(small, 1), true);
  await until("asked", () => calls.length === 3);
  assert.equal(packed.stream.held, small.length + bytes.length);
  for (const { resolve } of calls) resolve(message);
  await turns();
  assert.deepEqual(codes(), ["OK", "OK", "OK"]);
  for (const each of [whole, parts, packed]) over(each, clock);
});

test("a handler may not wait with more than may be kept, and answers at once with any", async () => {
  const { method, first } = waiting();
  const { call, clock, codes } = serving({ Wait: method, Size: size });
  const bytes = Buffer.alloc(10_000);
  const each = call("Wait", ["grpc-timeout", "1H"], { most: bytes.length - 1 });
  each.send(framed(bytes), true);
  assert.equal(each.stream.seen.code, 8);
  assert.equal(first().call.signal().aborted, true);
  assert.equal(each.stream.working, true, "until its handler is done");
  first().resolve(message);
  await turns();
  over(each, clock);
  const sync = call("Size", [], { most: 0 });
  sync.send(framed(bytes), true);
  assert.deepEqual(sync.stream.seen.messages.map(String), ["10000"]);
  assert.deepEqual(codes(), ["RESOURCE_EXHAUSTED", "OK"]);
});

test("times are those of the port's clock", async () => {
  const { method, first } = waiting();
  const { call, clock, counted } = serving({ Wait: method });
  call("Wait").send(framed(message), true);
  clock.advance(12.5);
  first().resolve(message);
  await turns();
  assert.equal(counted.handled[0]?.ms, 12.5);
});
