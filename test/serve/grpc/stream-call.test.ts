import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { Fault } from "#base/fault.ts";
import type { Call, Method, Stream } from "#base/handler.ts";
import { healthService } from "#serve/standard/health.ts";
import { framed, grpcHead } from "../../kit/clients/recording-stream.ts";
import { until } from "../../kit/until.ts";
import { serveMethods, type TestCall, turns } from "./harness.ts";

type Handle = (stream: Stream, call: Call) => Promise<void>;
const streaming = (client: boolean, server: boolean) => {
  return (handle: Handle): Method => ({ kind: "stream", client, server, handle });
};
const bidirectional = streaming(true, true);
const clientStream = streaming(true, false);
const serverStream = streaming(false, true);

const echo: Handle = async ({ messages, send }) => {
  for await (const each of messages) await send(each);
};
const last = Buffer.alloc(0);

function assertReleased({ stream }: TestCall, clock: { readonly alarms: number }): void {
  assert.ok(stream.localClosed);
  assert.deepEqual([stream.working, stream.held, clock.alarms], [false, 0, 0]);
}

const texts = ({ stream }: TestCall) => stream.reply.messages.map(String);

test("serves a bidirectional stream", async () => {
  const { call, clock, codes, counted } = serveMethods({ Echo: bidirectional(echo) });
  const each = call("Echo", ["grpc-timeout", "1H"]);
  assert.deepEqual([each.stream.working, clock.alarms], [true, 1]);
  each.send(framed("a"));
  await turns();
  assert.deepEqual(texts(each), ["a"]);
  each.send(Buffer.concat([framed("b"), framed(""), framed("c").subarray(0, 4)]));
  each.send(framed("c").subarray(4), true);
  await turns();
  assert.deepEqual(texts(each), ["a", "b", "", "c"]);
  assert.deepEqual(each.stream.blocks, [
    [":status", "200", "content-type", "application/grpc"],
    ["grpc-status", "0"],
  ]);
  assert.deepEqual(counted.grpc, [
    "started /test.Service/Echo bidi_stream",
    ...Array(4).fill(["received /test.Service/Echo", "sent /test.Service/Echo"]).flat(),
  ]);
  assert.deepEqual(codes(), ["OK"]);
  assertReleased(each, clock);
});

test("reassembles messages from any pieces, in order", async () => {
  const { call, clock } = serveMethods({ Echo: bidirectional(echo) });
  const messages = fc.array(fc.nat(20_000), { maxLength: 8 });
  const sizes = fc.array(fc.integer({ min: 1, max: 20_000 }), { maxLength: 10 });
  await fc.assert(
    fc.asyncProperty(messages, sizes, fc.boolean(), async (lengths, pieces, patient) => {
      const sent = lengths.map((length, at) => Buffer.alloc(length, at));
      const bytes = Buffer.concat(sent.map((message) => framed(message)));
      const each = call("Echo");
      let at = 0;
      for (const piece of pieces) {
        each.send(bytes.subarray(at, at + piece));
        at += piece;
        if (patient) await turns(1);
      }
      each.send(bytes.subarray(at), true);
      await turns();
      assert.deepEqual(each.stream.reply.messages, sent);
      assertReleased(each, clock);
    }),
    { numRuns: 50 },
  );
});

test("a client stream ends with one reply, with a fault, or with INTERNAL if there is no reply", async () => {
  const { call, clock, codes, log } = serveMethods({
    Sum: clientStream(async ({ messages, send }, call) => {
      let sum = 0;
      for await (const each of messages) sum += Number(String(each));
      call.reply("x-sum", String(sum));
      call.trailer("x-end", "1");
      if (sum < 0) throw new Fault("OUT_OF_RANGE", "below zero");
      for (let at = 0; at < sum && at < 2; at++) await send(Buffer.from(String(sum)));
    }),
  });
  const of = async (...numbers: number[]) => {
    const each = call("Sum");
    for (const number of numbers) each.send(framed(String(number)));
    each.send(last, true);
    await turns();
    assertReleased(each, clock);
    return each;
  };
  const one = await of(1);
  assert.deepEqual(texts(one), ["1"]);
  assert.equal(one.stream.reply.head["x-sum"], "1");
  assert.deepEqual(one.stream.reply.trailers, { "grpc-status": "0", "x-end": "1" });
  assert.equal((await of(-1)).stream.reply.code, 11);
  assert.equal((await of()).stream.reply.code, 13);
  assert.equal(
    (await of(3)).stream.reply.message,
    "a client-streaming method sends exactly one reply",
  );
  assert.deepEqual(codes(), ["OK", "OUT_OF_RANGE", "INTERNAL", "INTERNAL"]);
  assert.equal(log.lines.length, 2);
});

test("a server stream takes one message, and its handler begins when the request is complete", async () => {
  let begun = 0;
  const { call, open, clock, codes } = serveMethods({
    Twice: serverStream(async ({ messages, send }, call) => {
      begun++;
      call.reply("x-a", "1");
      for await (const each of messages) {
        await send(each);
        await send(each);
      }
    }),
    Never: serverStream(async () => assert.fail("the handler was called")),
  });
  const each = call("Twice", ["grpc-timeout", "1S"]);
  each.send(framed("twice").subarray(0, 7));
  each.send(framed("twice").subarray(7));
  assert.deepEqual([begun, each.stream.working, each.stream.credited > 0], [0, false, true]);
  each.send(last, true);
  await turns();
  assert.deepEqual(texts(each), ["twice", "twice"]);
  assert.equal(each.stream.reply.head["x-a"], "1");
  assertReleased(each, clock);
  const refused = (parts: readonly Buffer[]) => {
    const each = call("Never", ["grpc-timeout", "1S"]);
    for (const part of parts) if (!each.stream.localClosed) each.send(part);
    if (!each.stream.localClosed) each.send(last, true);
    assertReleased(each, clock);
    return each.stream.reply.code;
  };
  assert.equal(refused([]), 12);
  assert.equal(refused([framed("a"), framed("b")]), 12);
  assert.equal(refused([framed("a").subarray(0, 5)]), 13);
  assert.equal(refused([framed("a", 3)]), 13);
  assert.equal(refused([Buffer.from([0, 0, 0x40, 0, 1])]), 8);
  assert.equal(open(grpcHead("/test.Service/Never"), true).stream.reply.code, 12);
  const slow = call("Never");
  slow.send(framed("a").subarray(0, 2));
  slow.exchange.timedOut();
  assert.equal(slow.stream.reply.code, 4);
  const late = call("Never", ["grpc-timeout", "10m"]);
  late.send(framed("a"));
  clock.advance(10);
  assert.equal(late.stream.reply.code, 4);
  assert.equal(codes().filter((code) => code === "DEADLINE_EXCEEDED").length, 2);
  assert.equal(begun, 1);
});

test("a stream without replies ends with a trailers-only response", async () => {
  const { call, clock } = serveMethods({
    None: serverStream(async (_, call) => {
      call.reply("x-a", "1");
      call.trailer("x-t", "2");
    }),
  });
  const each = call("None");
  each.send(framed("a"), true);
  await turns();
  assert.deepEqual(each.stream.blocks, [
    [
      ":status",
      "200",
      "content-type",
      "application/grpc",
      "x-a",
      "1",
      "grpc-status",
      "0",
      "x-t",
      "2",
    ],
  ]);
  assertReleased(each, clock);
});

test("sends a fault after replies in the trailers", async () => {
  const { call, clock, codes } = serveMethods({
    Echo: bidirectional(async ({ messages, send }, call) => {
      for await (const each of messages) {
        await send(each);
        call.trailer("x-t", "1");
        call.reply("x-late", "lost");
        throw new Fault("ABORTED", "stopped");
      }
    }),
    Sync: bidirectional(() => {
      throw new Fault("UNAVAILABLE", "never began");
    }),
  });
  const each = call("Echo");
  each.send(framed("a"));
  await turns();
  assert.deepEqual(each.stream.blocks[1], [
    "grpc-status",
    "10",
    "grpc-message",
    "stopped",
    "x-t",
    "1",
  ]);
  assert.equal(each.stream.blocks[0]?.includes("x-late"), false);
  assertReleased(each, clock);
  const sync = call("Sync");
  await turns();
  assert.equal(sync.stream.reply.code, 14);
  assertReleased(sync, clock);
  assert.deepEqual(codes(), ["ABORTED", "UNAVAILABLE"]);
});

test("send() waits for window space and continues when there is some", async () => {
  let sent = 0;
  const { call, clock } = serveMethods({
    Much: serverStream(async ({ send }) => {
      for (; sent < 10; sent++) await send(Buffer.alloc(95));
    }),
  });
  const each = call("Much", [], { window: 250 });
  each.send(framed("a"), true);
  await turns();
  assert.equal(sent, 2);
  each.stream.grantWindow(200);
  each.exchange.drained();
  await turns();
  assert.equal(sent, 4);
  each.stream.grantWindow(10_000);
  each.exchange.drained();
  await turns();
  assert.equal(each.stream.reply.messages.length, 10);
  assertReleased(each, clock);
});

test("concurrent send() calls wait for the same window space", async () => {
  let done = 0;
  const { call, clock } = serveMethods({
    Much: serverStream(async ({ send }) => {
      const all = [1, 2, 3].map((each) => send(Buffer.from([each])));
      for (const each of all) void each.then(() => done++);
      await Promise.all(all);
    }),
  });
  const each = call("Much", [], { window: 0 });
  each.send(framed("a"), true);
  await turns();
  assert.deepEqual([done, each.stream.reply.messages.length], [0, 3]);
  each.stream.grantWindow(100);
  each.exchange.drained();
  await turns();
  assert.equal(done, 3);
  assertReleased(each, clock);
});

test("returns flow-control credit only as the handler takes messages", async () => {
  const gate: (() => void)[] = [];
  const { call, clock } = serveMethods({
    Slow: clientStream(async ({ messages, send }) => {
      let bytes = 0;
      for await (const each of messages) {
        bytes += each.length;
        await new Promise<void>((resolve) => gate.push(resolve));
      }
      await send(Buffer.from(String(bytes)));
    }),
  });
  const each = call("Slow");
  await turns();
  each.send(framed(Buffer.alloc(100)));
  await turns();
  // The handler works on the first message; the others wait.
  for (let at = 0; at < 9; at++) each.send(framed(Buffer.alloc(100)));
  each.send(framed(Buffer.alloc(100)).subarray(0, 50));
  await turns();
  assert.equal(each.stream.credited, 0);
  assert.ok(each.stream.held >= 1_000);
  for (let at = 0; at < 10; at++) {
    gate[at]?.();
    await turns();
  }
  assert.equal(each.stream.credited, 10 * 105 + 50);
  each.send(framed(Buffer.alloc(100)).subarray(50), true);
  await turns();
  gate[10]?.();
  await turns();
  assert.deepEqual(texts(each), ["1100"]);
  assertReleased(each, clock);
});

test("returns credit once per byte, and only when the handler waits for more", async () => {
  const gate: (() => void)[] = [];
  const { call } = serveMethods({
    Slow: bidirectional(async ({ messages }) => {
      for await (const _ of messages) await new Promise<void>((resolve) => gate.push(resolve));
    }),
  });
  const each = call("Slow");
  await turns();
  for (let round = 1; round <= 3; round++) {
    each.send(framed(Buffer.alloc(95)));
    await turns();
    // The handler works on the message and has not asked for what arrives now.
    each.send(framed(Buffer.alloc(95)).subarray(0, 40));
    assert.equal(each.stream.credited, (round - 1) * 200);
    each.send(framed(Buffer.alloc(95)).subarray(40));
    gate.pop()?.();
    await turns();
    gate.pop()?.();
    await turns();
    assert.equal(each.stream.credited, round * 200);
    assert.equal(each.stream.held, 0);
  }
});

test("delivers a message longer than the window to a handler that waits for it", async () => {
  const { call, clock } = serveMethods({
    Size: clientStream(async ({ messages, send }) => {
      for await (const each of messages) await send(Buffer.from(String(each.length)));
    }),
  });
  const each = call("Size");
  await turns();
  const bytes = framed(Buffer.alloc(1_000_000));
  let allowed = 100_000;
  let at = 0;
  for (; at < bytes.length; ) {
    const part = Math.min(allowed, bytes.length - at);
    assert.ok(part > 0, `no credit after ${at} bytes`);
    each.send(bytes.subarray(at, at + part));
    at += part;
    await turns(1);
    allowed = 100_000 + each.stream.credited - at;
  }
  each.send(last, true);
  await turns();
  assert.deepEqual(texts(each), ["1000000"]);
  assertReleased(each, clock);
});

test("buffers a request that arrives before its handler reads it", async () => {
  const begin = Promise.withResolvers<void>();
  const { call, clock } = serveMethods({
    Echo: bidirectional(async (stream, call) => {
      await begin.promise;
      await echo(stream, call);
    }),
  });
  const each = call("Echo");
  each.send(Buffer.concat([framed("a"), framed("b")]), true);
  await turns();
  assert.equal(each.stream.credited, 0);
  begin.resolve();
  await turns();
  assert.deepEqual(texts(each), ["a", "b"]);
  assertReleased(each, clock);
});

test("limits messages that the handler does not take, empty ones included", async () => {
  const { call, clock, codes } = serveMethods({
    Idle: bidirectional(
      (_, call) =>
        new Promise((_, reject) => {
          const signal = call.signal();
          signal.addEventListener("abort", () => reject(signal.reason));
        }),
    ),
  });
  for (const message of ["", "x".repeat(1_000)]) {
    const each = call("Idle", [], { maxHeld: 20_000 });
    for (let at = 0; at < 1_000 && !each.stream.localClosed; at++) each.send(framed(message));
    assert.equal(each.stream.reply.code, 8);
    await turns();
    assertReleased(each, clock);
  }
  assert.deepEqual(codes(), ["RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"]);
});

test("counts inflated messages as buffered only while the handler works on them", async () => {
  let taken = 0;
  const { call, clock } = serveMethods({
    Take: bidirectional(async ({ messages }) => {
      for await (const each of messages) taken += each.length;
    }),
  });
  const size = 1_000_000;
  const each = call("Take", ["grpc-encoding", "gzip"], { maxHeld: 1.5 * size });
  const message = framed(gzipSync(Buffer.alloc(size, "0123456789")), 1);
  for (let sent = 1; sent <= 9; sent++) {
    each.send(message);
    await until("taken", () => taken === sent * size || each.stream.localClosed);
  }
  each.send(last, true);
  await until("end", () => each.stream.localClosed);
  assert.equal(each.stream.reply.code, 0);
  assertReleased(each, clock);
});

test("reads very many small messages in linear time", async () => {
  let count = 0;
  const begin = Promise.withResolvers<void>();
  const { call } = serveMethods({
    Count: bidirectional(async ({ messages }) => {
      await begin.promise;
      for await (const _ of messages) count++;
    }),
  });
  const each = call("Count");
  each.send(Buffer.alloc(5 * 50_000));
  each.send(last, true);
  const started = performance.now();
  begin.resolve();
  await until("end", () => each.stream.localClosed);
  assert.equal(count, 50_000);
  assert.ok(performance.now() - started < 2_000);
});

test("a handler may stop reading messages and continue to reply", async () => {
  const go = Promise.withResolvers<void>();
  const { call, clock, codes } = serveMethods({
    First: bidirectional(async ({ messages, send }) => {
      for await (const each of messages) {
        await send(each);
        break;
      }
      await go.promise;
      await send(Buffer.from("bye"));
    }),
  });
  const each = call("First", ["grpc-timeout", "1H"]);
  each.send(Buffer.concat([framed("a"), framed("b")]));
  await turns();
  each.send(framed("c"));
  go.resolve();
  await turns();
  assert.deepEqual(texts(each), ["a", "bye"]);
  assert.deepEqual(codes(), ["OK"]);
  assertReleased(each, clock);
  // The caller does not know yet.
  each.send(framed("d"), true);
  each.exchange.timedOut();
  each.exchange.drained();
  each.exchange.aborted();
  assert.deepEqual(codes(), ["OK"]);
});

test("ends the iteration of messages that outlives the handler", async () => {
  let next: Promise<IteratorResult<Uint8Array>> | undefined;
  const { call, clock } = serveMethods({
    Ask: bidirectional(async ({ messages }) => {
      next = messages[Symbol.asyncIterator]().next();
      await turns(1);
    }),
  });
  const each = call("Ask");
  await until("end", () => each.stream.localClosed);
  assert.equal((await next)?.done, true);
  await turns();
  assertReleased(each, clock);
});

for (const [what, leave, code] of [
  ["cancels", (each: TestCall) => each.cancel(), "CANCELLED"],
  ["sends an invalid message", (each: TestCall) => each.send(framed("x", 9)), "INTERNAL"],
  ["ends inside a message", (each: TestCall) => each.send(Buffer.alloc(3), true), "INTERNAL"],
] as const) {
  test(`a caller that ${what}: reading throws, the signal aborts, send() fails`, async () => {
    const seen: string[] = [];
    const { call, clock, codes, log } = serveMethods({
      Read: bidirectional(async ({ messages, send }, call) => {
        call.signal().addEventListener("abort", () => seen.push("aborted"));
        try {
          for await (const each of messages) seen.push(String(each));
          seen.push("ended");
        } catch (thrown) {
          seen.push(`read ${Fault.from(thrown).code}`);
        }
        await send(Buffer.from("too late")).catch((thrown) =>
          seen.push(`send ${Fault.from(thrown).code}`),
        );
        throw call.signal().reason;
      }),
    });
    const each = call("Read", ["grpc-timeout", "1H"]);
    each.send(framed("a"));
    await turns();
    leave(each);
    await turns();
    assert.deepEqual(seen, ["a", "aborted", `read ${code}`, "send CANCELLED"]);
    assert.deepEqual(codes(), [code]);
    assert.deepEqual(log.lines, []);
    assertReleased(each, clock);
  });
}

test("does not log a handler that rethrows the error from its messages", async () => {
  const { call, clock, log } = serveMethods({ Echo: bidirectional(echo) });
  const bad = [framed("x", 9), framed("no gzip", 1), Buffer.alloc(3)];
  for (const bytes of bad) {
    const each = call("Echo", ["grpc-encoding", "gzip"]);
    await turns();
    each.send(bytes, true);
    await until("end", () => each.stream.localClosed && each.stream.working === false);
    assert.equal(each.stream.reply.code, 13);
    assertReleased(each, clock);
  }
  assert.deepEqual(log.lines, []);
});

test("discards messages sent before the caller cancelled, and does not report a normal end", async () => {
  for (const together of [true, false]) {
    const seen: string[] = [];
    const gate = Promise.withResolvers<void>();
    const { call, clock } = serveMethods({
      Read: clientStream(async ({ messages }) => {
        try {
          for await (const each of messages) {
            seen.push(String(each));
            await gate.promise;
          }
          seen.push("ended");
        } catch (thrown) {
          seen.push(Fault.from(thrown).code);
        }
      }),
    });
    const each = call("Read");
    each.send(framed("a"));
    if (!together) await turns();
    each.send(framed("b"), true);
    await turns();
    each.cancel();
    gate.resolve();
    await turns();
    assert.deepEqual(seen, ["a", "CANCELLED"]);
    assertReleased(each, clock);
  }
});

test("reports a normal end when the caller cancels after its last message was taken", async () => {
  const seen: string[] = [];
  const gate = Promise.withResolvers<void>();
  const { call, clock } = serveMethods({
    Read: clientStream(async ({ messages }) => {
      for await (const each of messages) {
        seen.push(String(each));
        await gate.promise;
      }
      seen.push("ended");
    }),
  });
  const each = call("Read");
  each.send(framed("a"), true);
  await turns();
  each.cancel();
  gate.resolve();
  await turns();
  assert.deepEqual(seen, ["a", "ended"]);
  assertReleased(each, clock);
});

test("releases a send() that waits for window space when the caller cancels", async () => {
  const ended: string[] = [];
  const { call, clock, codes } = serveMethods({
    Much: serverStream(async ({ send }) => {
      for (;;) {
        await send(Buffer.alloc(10)).catch((thrown) => {
          ended.push(Fault.from(thrown).code);
          throw thrown;
        });
      }
    }),
  });
  const each = call("Much", [], { window: 0 });
  each.send(framed("a"), true);
  await turns();
  each.cancel();
  await turns();
  assert.deepEqual(ended, ["CANCELLED"]);
  assert.deepEqual(codes(), ["CANCELLED"]);
  assertReleased(each, clock);
});

test("ends the call when the stream breaks during a write, with or without a close event", async () => {
  for (const notified of [true, false]) {
    const { call, clock, codes } = serveMethods({
      Much: bidirectional(async ({ send }) => {
        for (;;) await send(Buffer.alloc(10));
      }),
    });
    const each = call("Much", [], { window: 15 });
    await turns();
    const write = each.stream.write.bind(each.stream);
    each.stream.write = (bytes, ends) => {
      write(bytes, ends);
      each.stream.resetByPeer();
      if (notified) each.exchange.aborted();
      return false;
    };
    each.exchange.drained();
    await turns();
    assert.deepEqual(codes(), ["CANCELLED"]);
    assertReleased(each, clock);
  }
});

test("a deadline ends a stream whatever it is waiting for", async () => {
  const { call, clock, codes } = serveMethods({
    Read: bidirectional(echo),
    Write: bidirectional(async ({ send }) => {
      for (;;) await send(Buffer.alloc(10));
    }),
  });
  for (const name of ["Read", "Write"]) {
    const each = call(name, ["grpc-timeout", "100m"], { window: 20 });
    await turns();
    clock.advance(100);
    assert.equal(each.stream.reply.code, 4);
    await turns();
    assertReleased(each, clock);
  }
  assert.deepEqual(codes(), ["DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"]);
});

test("a stream may pause between messages, but not within one that its handler waits for", async () => {
  const go = Promise.withResolvers<void>();
  const { call, clock, codes } = serveMethods({
    Echo: bidirectional(echo),
    Late: bidirectional(async (stream, call) => {
      await go.promise;
      await echo(stream, call);
    }),
  });
  const each = call("Echo");
  await turns();
  const seen: (number | undefined)[] = [each.exchange.incompletePart];
  for (const part of [framed("a").subarray(0, 3), framed("a").subarray(3, 5), framed("ab")]) {
    each.send(part);
    await turns();
    seen.push(each.exchange.incompletePart);
  }
  assert.equal(seen[0], 0);
  assert.notEqual(seen[1], 0);
  assert.equal(seen[2], seen[1], "the time is that of the same message");
  assert.notEqual(seen[3], seen[1], "the time is that of the next message");
  assert.notEqual(seen[3], 0);
  assert.equal(each.exchange.timedOut(), true);
  await turns();
  assert.equal(each.stream.reply.code, 4);
  assert.equal(each.exchange.timedOut(), false, "the call has ended");
  assert.deepEqual(codes(), ["DEADLINE_EXCEEDED"]);
  assertReleased(each, clock);
  // A caller from which no message is awaited may have no window to send it.
  const late = call("Late");
  late.send(framed("a").subarray(0, 3));
  await turns();
  assert.equal(late.exchange.incompletePart, 0);
  go.resolve();
  await turns();
  assert.notEqual(late.exchange.incompletePart, 0);
  late.send(framed("a").subarray(3));
  await turns();
  assert.equal(late.exchange.incompletePart, 0);
  late.send(last, true);
  await turns();
  assert.equal(late.stream.reply.code, 0);
  assertReleased(late, clock);
});

test("a server stream's request must also be ended within read_timeout", () => {
  const { call } = serveMethods({
    Never: serverStream(async () => assert.fail("the handler was called")),
  });
  const each = call("Never");
  assert.notEqual(each.exchange.incompletePart, 0);
  each.send(framed("a"));
  assert.notEqual(each.exchange.incompletePart, 0);
});

test("keeps compressed messages in order and ends the call when one inflates too far", async () => {
  const { call, clock, codes } = serveMethods({ Echo: bidirectional(echo) });
  const open = () => call("Echo", ["grpc-encoding", "gzip"]);
  const each = open();
  const large = Buffer.alloc(1_000_000, "x");
  each.send(
    Buffer.concat([framed(gzipSync(large), 1), framed("plain"), framed(gzipSync("b"), 1)]),
    true,
  );
  await until("end", () => each.stream.localClosed && each.stream.working === false);
  assert.deepEqual(each.stream.reply.messages, [large, Buffer.from("plain"), Buffer.from("b")]);
  assertReleased(each, clock);
  for (const [body, code] of [
    [gzipSync(Buffer.alloc(5 * 1024 * 1024)), 8],
    [Buffer.from("no gzip"), 13],
  ] as const) {
    const bad = open();
    bad.send(framed(body, 1));
    await until("end", () => bad.stream.localClosed && bad.stream.working === false);
    assert.equal(bad.stream.reply.code, code);
    assertReleased(bad, clock);
  }
  const left = open();
  left.send(framed(gzipSync(large), 1));
  await turns(1);
  left.cancel();
  await until("end", () => left.stream.working === false);
  assertReleased(left, clock);
  assert.deepEqual(codes(), ["OK", "RESOURCE_EXHAUSTED", "INTERNAL", "CANCELLED"]);
});

test("serves Health.Watch until the caller cancels", async () => {
  const health = healthService([{ name: "a.Service", healthNames: [], methods: {} }]);
  const { Watch } = health.service.methods;
  assert.ok(Watch !== undefined);
  const { call, clock, codes } = serveMethods({ Watch });
  const each = call("Watch");
  each.send(framed(Buffer.from([0x0a, 9, ...Buffer.from("a.Service")])), true);
  await turns();
  health.set("a.Service", false);
  await turns();
  assert.deepEqual(
    each.stream.reply.messages.map((message) => message[1]),
    [1, 2],
  );
  each.cancel();
  await turns();
  assert.deepEqual(codes(), ["CANCELLED"]);
  assertReleased(each, clock);
  const closed = call("Watch");
  closed.send(framed(""), true);
  await turns();
  health.close();
  await turns();
  assert.equal(closed.stream.reply.code, 14);
  assertReleased(closed, clock);
});
