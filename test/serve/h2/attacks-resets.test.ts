// Calls that are made to be thrown away: taken back by the caller (CVE-2023-44487), or broken so that the server
// resets them (CVE-2025-8671). Handlers that were started work on, so their number is what counts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_STREAMS, RESET_BURST } from "#serve/h2/limits.ts";
import {
  call,
  data,
  END_HEADERS,
  END_STREAM,
  type ErrorName,
  frame,
  grpcFields,
  grpcStatus,
  HEADERS,
  headers,
  httpFields,
  message,
  PRIORITY,
  priority,
  type RawPeer,
  repeated,
  reset,
  uint32,
  WITH_PRIORITY,
  windowUpdate,
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { victim } from "../../kit/watch.ts";

const LATER = "/test.Victim/Later";
const later = block(grpcFields(LATER));
const gather = block(grpcFields("/test.Victim/Gather"));
/** Far beyond what may be thrown away at once, so that the server looks at few of them. */
const STREAMS = 5_000;

const calm = async (peer: RawPeer) => {
  assert.equal(await peer.goaway(), "ENHANCE_YOUR_CALM", peer.told());
  await peer.closed;
};

test("calls that are thrown away", async (t) => {
  const server = await victim(t);

  await t.test("rapid reset of calls that are not whole", async (t) => {
    const bound = { frames: 2 * RESET_BURST, faults: { rapid_reset: 1 } };
    const cost = await server.under(t, bound, async () => {
      const peer = await server.peer(t);
      void peer.send(peer.each(STREAMS, (id) => Buffer.concat([headers(id, later), reset(id)])));
      await calm(peer);
    });
    assert.equal(cost.faults.rapid_reset, 1, "one connection, one fault");
  });

  await t.test("rapid reset of calls whose handlers work on", async (t) => {
    const cost = await server.under(t, { frames: STREAMS }, async () => {
      const peer = await server.peer(t);
      void peer.send(peer.each(STREAMS, (id) => Buffer.concat([call(id, LATER), reset(id)])));
      await calm(peer);
    });
    // What works on takes up places too: which bound is met first is not the point.
    const { rapid_reset = 0, too_many_streams = 0 } = cost.faults;
    assert.ok(rapid_reset + too_many_streams > 0);
    assert.ok(cost.mostRunning <= MAX_STREAMS, `${cost.mostRunning} handlers ran at once`);
  });

  await t.test("rapid reset from many connections, each in its turn", async (t) => {
    const connections = 10;
    const bound = {
      frames: RESET_BURST * connections,
      faults: { rapid_reset: connections },
    };
    await server.under(t, bound, async () => {
      for (let made = 0; made < connections; made++) {
        const peer = await server.peer(t);
        void peer.send(peer.each(STREAMS, (id) => Buffer.concat([headers(id, later), reset(id)])));
        await calm(peer);
      }
    });
  });

  await t.test("resets that honest calls in between pay for pile up no work", async (t) => {
    const bound = { frames: 2 * STREAMS, faults: { too_many_streams: 1 } };
    const cost = await server.under(t, bound, async () => {
      const peer = await server.peer(t);
      const pairs = (count: number) =>
        peer.each(count, (id) =>
          Buffer.concat([call(id, LATER), reset(id), call(peer.next(), "/test.Victim/Say")]),
        );
      await peer.send(pairs(STREAMS));
      await peer.goawayOr(peer.pong());
    });
    assert.ok(cost.mostRunning <= MAX_STREAMS, `${cost.mostRunning} handlers ran at once`);
  });

  await t.test("a caller that takes a few calls back is served on", async (t) => {
    const cost = await server.under(t, { frames: 1_000 }, async () => {
      const peer = await server.peer(t);
      await peer.send(peer.each(300, (id) => Buffer.concat([call(id, LATER), reset(id)])));
      await peer.pong();
      const stream = peer.next();
      await peer.send(call(stream, LATER, Buffer.from("still here")));
      assert.equal(grpcStatus(await peer.outcome(stream)), "0", peer.told());
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("made resets of calls whose handlers work on", async (t) => {
    const cost = await server.under(t, { frames: STREAMS }, async () => {
      const peer = await server.peer(t);
      const make = (id: number) => Buffer.concat([call(id, LATER), windowUpdate(id, 0)]);
      await peer.send(peer.each(STREAMS, make));
      await peer.goawayOr(peer.pong());
    });
    assert.ok(cost.mostRunning <= MAX_STREAMS, `${cost.mostRunning} handlers ran at once`);
    const { made_reset = 0, too_many_streams = 0 } = cost.faults;
    assert.ok(made_reset + too_many_streams > 0, "it is bounded by one or the other");
  });

  interface Breakage {
    readonly how: string;
    readonly code: ErrorName;
    /** A stream that was begun with a call whose handler goes on until it is broken. */
    readonly make: (stream: number) => Uint8Array;
  }
  const whole = (id: number) => call(id, "/test.Victim/Flow");
  const begun = (id: number) => headers(id, gather);
  const both = (id: number, before: (id: number) => Uint8Array, ...more: Uint8Array[]) =>
    Buffer.concat([before(id), ...more]);
  const breakages: readonly Breakage[] = [
    {
      how: "a window widened by nothing",
      code: "PROTOCOL_ERROR",
      make: (id) => both(id, whole, windowUpdate(id, 0)),
    },
    {
      how: "a window widened too far",
      code: "FLOW_CONTROL_ERROR",
      make: (id) => both(id, whole, windowUpdate(id, 2 ** 31 - 1)),
    },
    {
      how: "data after the end",
      code: "STREAM_CLOSED",
      make: (id) => both(id, whole, data(id, message())),
    },
    {
      how: "a header block after the end",
      code: "STREAM_CLOSED",
      make: (id) => both(id, whole, headers(id, block([["x", "y"]]), END_HEADERS | END_STREAM)),
    },
    {
      how: "a priority frame of the wrong length",
      code: "FRAME_SIZE_ERROR",
      make: (id) => both(id, whole, frame(PRIORITY, 0, id, Buffer.alloc(4))),
    },
    {
      how: "trailers that do not end the stream",
      code: "PROTOCOL_ERROR",
      make: (id) => both(id, begun, headers(id, block([["x", "y"]]))),
    },
    {
      how: "more body than content-length says",
      code: "PROTOCOL_ERROR",
      make: (id) =>
        Buffer.concat([
          headers(id, block(httpFields("POST", "/take", ["content-length", "1"]))),
          data(id, Buffer.from("{}"), END_STREAM),
        ]),
    },
    {
      how: "a head without a path",
      code: "PROTOCOL_ERROR",
      make: (id) => headers(id, block([[":method", "GET"]]), END_HEADERS | END_STREAM),
    },
  ];
  for (const { how, code, make } of breakages) {
    await t.test(`made resets: ${how}`, async (t) => {
      const bound = { frames: 3 * RESET_BURST, each: 2, faults: { made_reset: 1 } };
      const cost = await server.under(t, bound, async () => {
        const peer = await server.peer(t);
        await peer.send(make(peer.next()));
        assert.equal(await peer.reset(1), code, peer.told());
        void peer.send(peer.each(STREAMS, make));
        await calm(peer);
      });
      assert.ok(cost.mostRunning <= MAX_STREAMS, `${cost.mostRunning} handlers ran at once`);
    });
  }

  await t.test("made resets: more data than the stream's window", async (t) => {
    // The handler reads nothing, so that its window of 256 KiB stays shut.
    const ignored = block(grpcFields("/test.Victim/Ignore"));
    const piece = message(new Uint8Array(16_000));
    const body = (id: number) => repeated(data(id, piece), 20);
    // Their bytes are worth those of some calls each.
    const bound = { frames: 21 * 60, each: 5, faults: { stream: 60 } };
    const cost = await server.under(t, bound, async () => {
      const peer = await server.peer(t);
      for (let made = 0; made < 60 && !peer.ended; made++) {
        const id = peer.next();
        await peer.send(headers(id, ignored), body(id));
        assert.equal(await peer.reset(id), "FLOW_CONTROL_ERROR", peer.told());
      }
      assert.equal(await peer.unary("/test.Victim/Say"), "0", "data for broken streams is let be");
    });
    assert.equal(cost.running, 0, "the handlers were told");
  });

  for (const [how, make] of [
    ["in a frame", (id: number) => Buffer.concat([call(id, LATER), priority(id, id)])],
    [
      "in a head",
      (id: number) =>
        Buffer.concat([
          frame(
            HEADERS,
            END_HEADERS | WITH_PRIORITY,
            id,
            Buffer.concat([uint32(id), Buffer.of(0), later]),
          ),
          data(id, message(), END_STREAM),
        ]),
    ],
  ] as const) {
    // RFC 9113 gave priorities up: such a stream may be reset (as RFC 7540 had it) or just be a call.
    await t.test(`a stream that depends on itself, ${how}`, async (t) => {
      const bound = { frames: 3 * RESET_BURST };
      const cost = await server.under(t, bound, async () => {
        const peer = await server.peer(t);
        void peer.send(peer.each(STREAMS, make));
        await peer.goawayOr(peer.pong());
      });
      assert.ok(cost.mostRunning <= MAX_STREAMS, `${cost.mostRunning} handlers ran at once`);
      const { made_reset = 0, too_many_streams = 0 } = cost.faults;
      assert.ok(made_reset + too_many_streams > 0, "it is bounded by one or the other");
    });
  }
});
