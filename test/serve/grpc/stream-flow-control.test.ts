// Flow control and buffering of streaming calls.

import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { framed } from "../../kit/clients/recording-stream.ts";
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
  const before = process.cpuUsage();
  begin.resolve();
  await until("end", () => each.stream.localClosed);
  const { user, system } = process.cpuUsage(before);
  assert.equal(count, 50_000);
  assert.ok(user + system < 2_000_000, `${user + system} µs of processor time`);
});
