// Streaming calls that end early: callers that leave, broken streams, deadlines and timeouts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import { framed } from "../../kit/clients/recording-stream.ts";
import { until } from "../../kit/until.ts";
import { serveMethods, type TestCall, turns } from "./harness.ts";
import {
  assertReleased,
  bidirectional,
  clientStream,
  echo,
  last,
  serverStream,
} from "./stream-setup.ts";

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
