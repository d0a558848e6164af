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
  GOAWAY,
  grpcFields,
  grpcStatus,
  HEADERS,
  headers,
  httpFields,
  message,
  PRIORITY,
  priority,
  type RawPeer,
  RST_STREAM,
  repeated,
  reset,
  uint32,
  WITH_PRIORITY,
  windowUpdate,
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { memoryServer, turns } from "../../kit/memory-peer.ts";
import { victim } from "../../kit/watch.ts";

const [REFUSED_STREAM, CALM] = [7, 11];
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
    // Which bound ends it depends on how long handlers work; both are named where they do not end by themselves.
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
    const bound = { frames: STREAMS, faults: { stream: RESET_BURST, made_reset: 1 } };
    const cost = await server.under(t, bound, async () => {
      const peer = await server.peer(t);
      const make = (id: number) => Buffer.concat([call(id, LATER), windowUpdate(id, 0)]);
      await peer.send(peer.each(STREAMS, make));
      await peer.goawayOr(peer.pong());
    });
    assert.ok(cost.mostRunning <= MAX_STREAMS, `${cost.mostRunning} handlers ran at once`);
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

  for (const [how, fault, make] of [
    ["in a frame", "stream", (id: number) => Buffer.concat([headers(id, later), priority(id, id)])],
    [
      "in a head",
      "malformed_request",
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
    // RFC 9113 gave priorities up and leaves open what becomes of such a stream: here it is reset, as RFC 7540 had it.
    await t.test(`a stream that depends on itself, ${how}`, async (t) => {
      const faults = { [fault]: RESET_BURST, made_reset: 1 };
      const cost = await server.under(t, { frames: 3 * RESET_BURST, faults }, async () => {
        const peer = await server.peer(t);
        void peer.send(peer.each(STREAMS, make));
        await calm(peer);
      });
      assert.equal(cost.mostRunning, 0, "no handler was asked");
    });
  }
});

test("calls taken back while handlers work on keep their places; then they draw on the budget", async (t) => {
  let release = () => {};
  let started = 0;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const work = () => {
    started++;
    return held.then(() => new Uint8Array());
  };
  const { connect, faults, transport } = memoryServer([
    { name: "test.Resets", healthNames: [], methods: { Work: { kind: "unary", handle: work } } },
  ]);
  t.after(() => transport.cut());
  const peer = await connect();
  t.after(() => peer.socket.destroy());
  let last = -1;
  const taken = () => {
    last += 2;
    return Buffer.concat([call(last, "/test.Resets/Work"), reset(last)]);
  };
  assert.equal(MAX_STREAMS, RESET_BURST);
  await peer.send(...Array.from({ length: MAX_STREAMS }, taken));
  assert.equal(started, MAX_STREAMS);
  assert.deepEqual(faults, []);

  await peer.send(taken());
  assert.equal(started, MAX_STREAMS, "no place is free, although no call waits for an answer");
  assert.deepEqual(
    peer.of(RST_STREAM, last).map(({ payload }) => payload.readUInt32BE(0)),
    [REFUSED_STREAM],
  );
  assert.deepEqual(faults, ["too_many_streams"]);

  release();
  await turns();
  await peer.send(taken());
  assert.equal(started, MAX_STREAMS + 1, "now there are places, but too many were taken back");
  assert.equal(peer.of(GOAWAY)[0]?.payload.readUInt32BE(4), CALM);
  assert.deepEqual(faults, ["too_many_streams", "rapid_reset"]);
});
