// Streaming calls that end well: messages in both directions, and the form of their replies.

import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { Fault } from "#base/fault.ts";
import { healthService } from "#serve/standard/health.ts";
import { framed, grpcHead } from "../../kit/clients/recording-stream.ts";
import { until } from "../../kit/until.ts";
import { serveMethods, turns } from "./harness.ts";
import {
  assertReleased,
  bidirectional,
  clientStream,
  echo,
  last,
  serverStream,
  texts,
} from "./stream-setup.ts";

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
  const health = healthService([{ name: "a.Service", methods: {} }]);
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
