import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { Fault } from "#base/fault.ts";
import type { Call, Method, Stream } from "#serve/handler.ts";
import { healthOf } from "#serve/standard/health.ts";
import { framed, grpcHead } from "../../kit/h2-stream.ts";
import { until } from "../../kit/port.ts";
import { serving, type TestCall, turns } from "./serving.ts";

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

function over({ stream }: TestCall, clock: { readonly alarms: number }): void {
  assert.ok(stream.closed);
  assert.deepEqual([stream.working, stream.held, clock.alarms], [false, 0, 0]);
}

const texts = ({ stream }: TestCall) => stream.seen.messages.map(String);

test("both sides stream", async () => {
  const { call, clock, codes, counted } = serving({ Echo: bidirectional(echo) });
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
  over(each, clock);
});

test("messages in any pieces are the same messages, in order", async () => {
  const { call, clock } = serving({ Echo: bidirectional(echo) });
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
      assert.deepEqual(each.stream.seen.messages, sent);
      over(each, clock);
    }),
    { numRuns: 50 },
  );
});

test("a client's stream has one reply, a fault, or an internal error for none", async () => {
  const { call, clock, codes, log } = serving({
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
    over(each, clock);
    return each;
  };
  const one = await of(1);
  assert.deepEqual(texts(one), ["1"]);
  assert.equal(one.stream.seen.head["x-sum"], "1");
  assert.deepEqual(one.stream.seen.trailers, { "grpc-status": "0", "x-end": "1" });
  assert.equal((await of(-1)).stream.seen.code, 11);
  assert.equal((await of()).stream.seen.code, 13);
  assert.equal((await of(3)).stream.seen.message, "one reply is all a client stream gets");
  assert.deepEqual(codes(), ["OK", "OUT_OF_RANGE", "INTERNAL", "INTERNAL"]);
  assert.equal(log.lines.length, 2);
});

test("a server's stream has one message, and its handler begins when the request is whole", async () => {
  let begun = 0;
  const { call, open, clock, codes } = serving({
    Twice: serverStream(async ({ messages, send }, call) => {
      begun++;
      call.reply("x-a", "1");
      for await (const each of messages) {
        await send(each);
        await send(each);
      }
    }),
    Never: serverStream(async () => assert.fail("was asked")),
  });
  const each = call("Twice", ["grpc-timeout", "1S"]);
  each.send(framed("twice").subarray(0, 7));
  each.send(framed("twice").subarray(7));
  assert.deepEqual([begun, each.stream.working, each.stream.credited > 0], [0, false, true]);
  each.send(last, true);
  await turns();
  assert.deepEqual(texts(each), ["twice", "twice"]);
  assert.equal(each.stream.seen.head["x-a"], "1");
  over(each, clock);
  const refused = (parts: readonly Buffer[]) => {
    const each = call("Never", ["grpc-timeout", "1S"]);
    for (const part of parts) if (!each.stream.closed) each.send(part);
    if (!each.stream.closed) each.send(last, true);
    over(each, clock);
    return each.stream.seen.code;
  };
  assert.equal(refused([]), 12);
  assert.equal(refused([framed("a"), framed("b")]), 12);
  assert.equal(refused([framed("a").subarray(0, 5)]), 13);
  assert.equal(refused([framed("a", 3)]), 13);
  assert.equal(refused([Buffer.from([0, 0, 0x40, 0, 1])]), 8);
  assert.equal(open(grpcHead("/test.Service/Never"), true).stream.seen.code, 12);
  const slow = call("Never");
  slow.send(framed("a").subarray(0, 2));
  slow.exchange.slow();
  assert.equal(slow.stream.seen.code, 4);
  const late = call("Never", ["grpc-timeout", "10m"]);
  late.send(framed("a"));
  clock.advance(10);
  assert.equal(late.stream.seen.code, 4);
  assert.equal(codes().filter((code) => code === "DEADLINE_EXCEEDED").length, 2);
  assert.equal(begun, 1);
});

test("a stream without replies ends with its status alone", async () => {
  const { call, clock } = serving({
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
      ...[":status", "200", "content-type", "application/grpc", "x-a", "1"],
      ...["grpc-status", "0", "x-t", "2"],
    ],
  ]);
  over(each, clock);
});

test("a fault after replies goes into the trailers", async () => {
  const { call, clock, codes } = serving({
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
    ...["grpc-status", "10", "grpc-message", "stopped", "x-t", "1"],
  ]);
  assert.equal(each.stream.blocks[0]?.includes("x-late"), false);
  over(each, clock);
  const sync = call("Sync");
  await turns();
  assert.equal(sync.stream.seen.code, 14);
  over(sync, clock);
  assert.deepEqual(codes(), ["ABORTED", "UNAVAILABLE"]);
});

test("sending waits for room, and goes on when there is some", async () => {
  let sent = 0;
  const { call, clock } = serving({
    Much: serverStream(async ({ send }) => {
      for (; sent < 10; sent++) await send(Buffer.alloc(95));
    }),
  });
  const each = call("Much", [], { window: 250 });
  each.send(framed("a"), true);
  await turns();
  assert.equal(sent, 2);
  each.stream.widen(200);
  each.exchange.drained();
  await turns();
  assert.equal(sent, 4);
  each.stream.widen(10_000);
  each.exchange.drained();
  await turns();
  assert.equal(each.stream.seen.messages.length, 10);
  over(each, clock);
});

test("those who send at once all wait for the same room", async () => {
  let done = 0;
  const { call, clock } = serving({
    Much: serverStream(async ({ send }) => {
      const all = [1, 2, 3].map((each) => send(Buffer.from([each])));
      for (const each of all) void each.then(() => done++);
      await Promise.all(all);
    }),
  });
  const each = call("Much", [], { window: 0 });
  each.send(framed("a"), true);
  await turns();
  assert.deepEqual([done, each.stream.seen.messages.length], [0, 3]);
  each.stream.widen(100);
  each.exchange.drained();
  await turns();
  assert.equal(done, 3);
  over(each, clock);
});

test("a caller that sends ahead is allowed more only as messages are taken", async () => {
  const gate: (() => void)[] = [];
  const { call, clock } = serving({
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
  // The first one is being worked on; the others wait.
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
  over(each, clock);
});

test("what came is allowed anew once, and only to a handler that waits for it", async () => {
  const gate: (() => void)[] = [];
  const { call } = serving({
    Slow: bidirectional(async ({ messages }) => {
      for await (const _ of messages) await new Promise<void>((resolve) => gate.push(resolve));
    }),
  });
  const each = call("Slow");
  await turns();
  for (let round = 1; round <= 3; round++) {
    each.send(framed(Buffer.alloc(95)));
    await turns();
    // At work on it; of what comes now nothing is asked yet.
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

test("a message longer than any window comes through to a handler that waits for it", async () => {
  const { call, clock } = serving({
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
    assert.ok(part > 0, `stuck at ${at}`);
    each.send(bytes.subarray(at, at + part));
    at += part;
    await turns(1);
    allowed = 100_000 + each.stream.credited - at;
  }
  each.send(last, true);
  await turns();
  assert.deepEqual(texts(each), ["1000000"]);
  over(each, clock);
});

test("a request may come before its handler asks for it", async () => {
  const begin = Promise.withResolvers<void>();
  const { call, clock } = serving({
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
  over(each, clock);
});

test("messages that nobody takes are bounded, empty ones too", async () => {
  const { call, clock, codes } = serving({
    Idle: bidirectional(
      (_, call) =>
        new Promise((_, reject) => {
          const signal = call.signal();
          signal.addEventListener("abort", () => reject(signal.reason));
        }),
    ),
  });
  for (const message of ["", "x".repeat(1_000)]) {
    const each = call("Idle", [], { most: 20_000 });
    for (let at = 0; at < 1_000 && !each.stream.closed; at++) each.send(framed(message));
    assert.equal(each.stream.seen.code, 8);
    await turns();
    over(each, clock);
  }
  assert.deepEqual(codes(), ["RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"]);
});

test("inflated messages are kept no longer than their handler is at work on them", async () => {
  let taken = 0;
  const { call, clock } = serving({
    Take: bidirectional(async ({ messages }) => {
      for await (const each of messages) taken += each.length;
    }),
  });
  const size = 1_000_000;
  const each = call("Take", ["grpc-encoding", "gzip"], { most: 1.5 * size });
  const message = framed(gzipSync(Buffer.alloc(size, "0123456789")), 1);
  for (let sent = 1; sent <= 9; sent++) {
    each.send(message);
    await until("taken", () => taken === sent * size || each.stream.closed);
  }
  each.send(last, true);
  await until("end", () => each.stream.closed);
  assert.equal(each.stream.seen.code, 0);
  over(each, clock);
});

test("very many small messages are taken in a time that grows no faster than they do", async () => {
  let count = 0;
  const begin = Promise.withResolvers<void>();
  const { call } = serving({
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
  await until("end", () => each.stream.closed);
  assert.equal(count, 50_000);
  assert.ok(performance.now() - started < 2_000);
});

test("a handler that stops taking messages may go on otherwise", async () => {
  const go = Promise.withResolvers<void>();
  const { call, clock, codes } = serving({
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
  over(each, clock);
  // The caller has not heard of it yet.
  each.send(framed("d"), true);
  each.exchange.slow();
  each.exchange.drained();
  each.exchange.gone();
  assert.deepEqual(codes(), ["OK"]);
});

test("whoever still asks for messages when the handler is done gets their end", async () => {
  let next: Promise<IteratorResult<Uint8Array>> | undefined;
  const { call, clock } = serving({
    Ask: bidirectional(async ({ messages }) => {
      next = messages[Symbol.asyncIterator]().next();
      await turns(1);
    }),
  });
  const each = call("Ask");
  await until("end", () => each.stream.closed);
  assert.equal((await next)?.done, true);
  await turns();
  over(each, clock);
});

for (const [what, leave, code] of [
  ["leaves", (each: TestCall) => each.leave(), "CANCELLED"],
  ["sends rubbish", (each: TestCall) => each.send(framed("x", 9)), "INTERNAL"],
  ["ends inside a message", (each: TestCall) => each.send(Buffer.alloc(3), true), "INTERNAL"],
] as const) {
  test(`a caller that ${what}: messages throw, the signal aborts, sending ends`, async () => {
    const seen: string[] = [];
    const { call, clock, codes, log } = serving({
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
    over(each, clock);
  });
}

test("a handler that passes on why its messages ended has not failed", async () => {
  const { call, clock, log } = serving({ Echo: bidirectional(echo) });
  const bad = [framed("x", 9), framed("no gzip", 1), Buffer.alloc(3)];
  for (const bytes of bad) {
    const each = call("Echo", ["grpc-encoding", "gzip"]);
    await turns();
    each.send(bytes, true);
    await until("end", () => each.stream.closed && each.stream.working === false);
    assert.equal(each.stream.seen.code, 13);
    over(each, clock);
  }
  assert.deepEqual(log.lines, []);
});

test("what a caller sent before it left is not handled, and not taken for the end", async () => {
  for (const together of [true, false]) {
    const seen: string[] = [];
    const gate = Promise.withResolvers<void>();
    const { call, clock } = serving({
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
    each.leave();
    gate.resolve();
    await turns();
    assert.deepEqual(seen, ["a", "CANCELLED"]);
    over(each, clock);
  }
});

test("a caller that leaves after its last message was taken ended it well", async () => {
  const seen: string[] = [];
  const gate = Promise.withResolvers<void>();
  const { call, clock } = serving({
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
  each.leave();
  gate.resolve();
  await turns();
  assert.deepEqual(seen, ["a", "ended"]);
  over(each, clock);
});

test("a caller that leaves frees whoever waits for room", async () => {
  const ended: string[] = [];
  const { call, clock, codes } = serving({
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
  each.leave();
  await turns();
  assert.deepEqual(ended, ["CANCELLED"]);
  assert.deepEqual(codes(), ["CANCELLED"]);
  over(each, clock);
});

test("a stream that breaks while it is written to ends the call, told or not", async () => {
  for (const told of [true, false]) {
    const { call, clock, codes } = serving({
      Much: bidirectional(async ({ send }) => {
        for (;;) await send(Buffer.alloc(10));
      }),
    });
    const each = call("Much", [], { window: 15 });
    await turns();
    const write = each.stream.write.bind(each.stream);
    each.stream.write = (bytes, ends) => {
      write(bytes, ends);
      each.stream.drop();
      if (told) each.exchange.gone();
      return false;
    };
    each.exchange.drained();
    await turns();
    assert.deepEqual(codes(), ["CANCELLED"]);
    over(each, clock);
  }
});

test("a deadline ends a stream, whatever it waits for", async () => {
  const { call, clock, codes } = serving({
    Read: bidirectional(echo),
    Write: bidirectional(async ({ send }) => {
      for (;;) await send(Buffer.alloc(10));
    }),
  });
  for (const name of ["Read", "Write"]) {
    const each = call(name, ["grpc-timeout", "100m"], { window: 20 });
    await turns();
    clock.advance(100);
    assert.equal(each.stream.seen.code, 4);
    await turns();
    over(each, clock);
  }
  assert.deepEqual(codes(), ["DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"]);
});

test("a stream may take its time between messages, but not within one that its handler waits for", async () => {
  const go = Promise.withResolvers<void>();
  const { call, clock, codes } = serving({
    Echo: bidirectional(echo),
    Late: bidirectional(async (stream, call) => {
      await go.promise;
      await echo(stream, call);
    }),
  });
  const each = call("Echo");
  await turns();
  const seen: (number | undefined)[] = [each.exchange.begun];
  for (const part of [framed("a").subarray(0, 3), framed("a").subarray(3, 5), framed("ab")]) {
    each.send(part);
    await turns();
    seen.push(each.exchange.begun);
  }
  assert.equal(seen[0], 0);
  assert.notEqual(seen[1], 0);
  assert.equal(seen[2], seen[1], "the same message");
  assert.notEqual(seen[3], seen[1], "the next one");
  assert.notEqual(seen[3], 0);
  assert.equal(each.exchange.slow(), true);
  await turns();
  assert.equal(each.stream.seen.code, 4);
  assert.equal(each.exchange.slow(), false, "it has ended");
  assert.deepEqual(codes(), ["DEADLINE_EXCEEDED"]);
  over(each, clock);
  // Whoever is not asked for more may have no window to send it.
  const late = call("Late");
  late.send(framed("a").subarray(0, 3));
  await turns();
  assert.equal(late.exchange.begun, 0);
  go.resolve();
  await turns();
  assert.notEqual(late.exchange.begun, 0);
  late.send(framed("a").subarray(3));
  await turns();
  assert.equal(late.exchange.begun, 0);
  late.send(last, true);
  await turns();
  assert.equal(late.stream.seen.code, 0);
  over(late, clock);
});

test("of a stream's only message its peer has to send the end, too", () => {
  const { call } = serving({ Never: serverStream(async () => assert.fail("not asked")) });
  const each = call("Never");
  assert.notEqual(each.exchange.begun, 0);
  each.send(framed("a"));
  assert.notEqual(each.exchange.begun, 0);
});

test("compressed messages keep their order, and what inflates too far ends the call", async () => {
  const { call, clock, codes } = serving({ Echo: bidirectional(echo) });
  const open = () => call("Echo", ["grpc-encoding", "gzip"]);
  const each = open();
  const large = Buffer.alloc(1_000_000, "x");
  each.send(
    Buffer.concat([framed(gzipSync(large), 1), framed("plain"), framed(gzipSync("b"), 1)]),
    true,
  );
  await until("end", () => each.stream.closed && each.stream.working === false);
  assert.deepEqual(each.stream.seen.messages, [large, Buffer.from("plain"), Buffer.from("b")]);
  over(each, clock);
  for (const [body, code] of [
    [gzipSync(Buffer.alloc(5 * 1024 * 1024)), 8],
    [Buffer.from("no gzip"), 13],
  ] as const) {
    const bad = open();
    bad.send(framed(body, 1));
    await until("end", () => bad.stream.closed && bad.stream.working === false);
    assert.equal(bad.stream.seen.code, code);
    over(bad, clock);
  }
  const left = open();
  left.send(framed(gzipSync(large), 1));
  await turns(1);
  left.leave();
  await until("end", () => left.stream.working === false);
  over(left, clock);
  assert.deepEqual(codes(), ["OK", "RESOURCE_EXHAUSTED", "INTERNAL", "CANCELLED"]);
});

test("health is watched until the caller leaves", async () => {
  const health = healthOf([{ name: "a.Service", healthNames: [], methods: {} }]);
  const { Watch } = health.service.methods;
  assert.ok(Watch !== undefined);
  const { call, clock, codes } = serving({ Watch });
  const each = call("Watch");
  each.send(framed(Buffer.from([0x0a, 9, ...Buffer.from("a.Service")])), true);
  await turns();
  health.set("a.Service", false);
  await turns();
  assert.deepEqual(
    each.stream.seen.messages.map((message) => message[1]),
    [1, 2],
  );
  each.leave();
  await turns();
  assert.deepEqual(codes(), ["CANCELLED"]);
  over(each, clock);
  const closed = call("Watch");
  closed.send(framed(""), true);
  await turns();
  health.close();
  await turns();
  assert.equal(closed.stream.seen.code, 14);
  over(closed, clock);
});
