// Calls that are made only to be discarded: cancelled by the caller (rapid reset, CVE-2023-44487), or broken so that
// the server resets them (MadeYouReset, CVE-2025-8671). Handlers that have started keep working, so that their number
// is what counts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_CONCURRENT_CALLS, RESET_BURST } from "#h2/limits.ts";
import { startTarget } from "../../kit/attack/measure.ts";
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
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { memoryServer, turns } from "../../kit/clients/memory-peer.ts";

const [REFUSED_STREAM, CALM] = [7, 11];
const LATER = "/test.Target/Later";
const later = block(grpcFields(LATER));
const gather = block(grpcFields("/test.Target/Gather"));
/** Far more than may be discarded at once, so that the server processes few of them. */
const STREAMS = 5_000;

const calm = async (peer: RawPeer) => {
  assert.equal(await peer.goaway(), "ENHANCE_YOUR_CALM", peer.describeFrames());
  await peer.closed;
};

test("bounds the cost of calls that are made to be discarded", async (t) => {
  const server = await startTarget(t);

  await t.test("rapid reset of incomplete calls", async (t) => {
    const bound = { frames: 2 * RESET_BURST, faults: { rapid_reset: 1 } };
    const cost = await server.withstand(t, bound, async () => {
      const peer = await server.peer(t);
      void peer.send(
        peer.onNewStreams(STREAMS, (id) => Buffer.concat([headers(id, later), reset(id)])),
      );
      await calm(peer);
    });
    assert.equal(cost.faults.rapid_reset, 1, "exactly one fault for the connection");
  });

  await t.test("rapid reset of calls whose handlers keep working", async (t) => {
    const cost = await server.withstand(t, { frames: STREAMS }, async () => {
      const peer = await server.peer(t);
      void peer.send(
        peer.onNewStreams(STREAMS, (id) => Buffer.concat([call(id, LATER), reset(id)])),
      );
      await calm(peer);
    });
    // The limit that ends the connection depends on how long handlers work.
    assert.ok(cost.mostRunning <= MAX_CONCURRENT_CALLS, `${cost.mostRunning} handlers ran at once`);
  });

  await t.test("rapid reset from many connections, one after another", async (t) => {
    const connections = 10;
    const bound = {
      frames: RESET_BURST * connections,
      faults: { rapid_reset: connections },
    };
    await server.withstand(t, bound, async () => {
      for (let made = 0; made < connections; made++) {
        const peer = await server.peer(t);
        void peer.send(
          peer.onNewStreams(STREAMS, (id) => Buffer.concat([headers(id, later), reset(id)])),
        );
        await calm(peer);
      }
    });
  });

  await t.test(
    "resets within the budget, with honest calls in between, do not accumulate work",
    async (t) => {
      const bound = { frames: 2 * STREAMS, faults: { too_many_streams: 1 } };
      const cost = await server.withstand(t, bound, async () => {
        const peer = await server.peer(t);
        const pairs = (count: number) =>
          peer.onNewStreams(count, (id) =>
            Buffer.concat([
              call(id, LATER),
              reset(id),
              call(peer.nextStream(), "/test.Target/Say"),
            ]),
          );
        await peer.send(pairs(STREAMS));
        await peer.goawayOr(peer.pingRoundTrip());
      });
      assert.ok(
        cost.mostRunning <= MAX_CONCURRENT_CALLS,
        `${cost.mostRunning} handlers ran at once`,
      );
    },
  );

  await t.test("still serves a caller that cancels a few calls", async (t) => {
    const cost = await server.withstand(t, { frames: 1_000 }, async () => {
      const peer = await server.peer(t);
      await peer.send(peer.onNewStreams(300, (id) => Buffer.concat([call(id, LATER), reset(id)])));
      await peer.pingRoundTrip();
      const stream = peer.nextStream();
      await peer.send(call(stream, LATER, Buffer.from("still here")));
      assert.equal(grpcStatus(await peer.outcome(stream)), "0", peer.describeFrames());
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("MadeYouReset with calls whose handlers keep working", async (t) => {
    const bound = { frames: STREAMS, faults: { stream: RESET_BURST, made_reset: 1 } };
    const cost = await server.withstand(t, bound, async () => {
      const peer = await server.peer(t);
      const make = (id: number) => Buffer.concat([call(id, LATER), windowUpdate(id, 0)]);
      await peer.send(peer.onNewStreams(STREAMS, make));
      await peer.goawayOr(peer.pingRoundTrip());
    });
    assert.ok(cost.mostRunning <= MAX_CONCURRENT_CALLS, `${cost.mostRunning} handlers ran at once`);
  });

  interface Breakage {
    readonly how: string;
    readonly code: ErrorName;
    /** Begins a call whose handler works until the stream is broken. */
    readonly make: (stream: number) => Uint8Array;
  }
  const whole = (id: number) => call(id, "/test.Target/Flow");
  const begun = (id: number) => headers(id, gather);
  const both = (id: number, before: (id: number) => Uint8Array, ...more: Uint8Array[]) =>
    Buffer.concat([before(id), ...more]);
  const breakages: readonly Breakage[] = [
    {
      how: "WINDOW_UPDATE with increment 0",
      code: "PROTOCOL_ERROR",
      make: (id) => both(id, whole, windowUpdate(id, 0)),
    },
    {
      how: "WINDOW_UPDATE beyond 2^31-1",
      code: "FLOW_CONTROL_ERROR",
      make: (id) => both(id, whole, windowUpdate(id, 2 ** 31 - 1)),
    },
    {
      how: "DATA after END_STREAM",
      code: "STREAM_CLOSED",
      make: (id) => both(id, whole, data(id, message())),
    },
    {
      how: "HEADERS after END_STREAM",
      code: "STREAM_CLOSED",
      make: (id) => both(id, whole, headers(id, block([["x", "y"]]), END_HEADERS | END_STREAM)),
    },
    {
      how: "PRIORITY of a wrong length",
      code: "FRAME_SIZE_ERROR",
      make: (id) => both(id, whole, frame(PRIORITY, 0, id, Buffer.alloc(4))),
    },
    {
      how: "trailers without END_STREAM",
      code: "PROTOCOL_ERROR",
      make: (id) => both(id, begun, headers(id, block([["x", "y"]]))),
    },
    {
      how: "a body longer than content-length",
      code: "PROTOCOL_ERROR",
      make: (id) =>
        Buffer.concat([
          headers(id, block(httpFields("POST", "/take", ["content-length", "1"]))),
          data(id, Buffer.from("{}"), END_STREAM),
        ]),
    },
    {
      how: "a request without :path",
      code: "PROTOCOL_ERROR",
      make: (id) => headers(id, block([[":method", "GET"]]), END_HEADERS | END_STREAM),
    },
  ];
  for (const { how, code, make } of breakages) {
    await t.test(`MadeYouReset: ${how}`, async (t) => {
      const bound = { frames: 3 * RESET_BURST, callsPerFrame: 2, faults: { made_reset: 1 } };
      const cost = await server.withstand(t, bound, async () => {
        const peer = await server.peer(t);
        await peer.send(make(peer.nextStream()));
        assert.equal(await peer.reset(1), code, peer.describeFrames());
        void peer.send(peer.onNewStreams(STREAMS, make));
        await calm(peer);
      });
      assert.ok(
        cost.mostRunning <= MAX_CONCURRENT_CALLS,
        `${cost.mostRunning} handlers ran at once`,
      );
    });
  }

  await t.test("MadeYouReset: DATA beyond the stream window", async (t) => {
    // The handler reads nothing, so that its window of 256 KiB is not replenished.
    const ignored = block(grpcFields("/test.Target/Ignore"));
    const piece = message(new Uint8Array(16_000));
    const body = (id: number) => repeated(data(id, piece), 20);
    // Each of these frames has as many bytes as several calls.
    const bound = { frames: 21 * 60, callsPerFrame: 5, faults: { stream: 60 } };
    const cost = await server.withstand(t, bound, async () => {
      const peer = await server.peer(t);
      for (let made = 0; made < 60 && !peer.ended; made++) {
        const id = peer.nextStream();
        await peer.send(headers(id, ignored), body(id));
        assert.equal(await peer.reset(id), "FLOW_CONTROL_ERROR", peer.describeFrames());
      }
      assert.equal(await peer.unary("/test.Target/Say"), "0", "DATA for reset streams is ignored");
    });
    assert.equal(cost.running, 0, "the handlers were aborted");
  });

  for (const [how, fault, make] of [
    [
      "in a PRIORITY frame",
      "stream",
      (id: number) => Buffer.concat([headers(id, later), priority(id, id)]),
    ],
    [
      "in HEADERS",
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
    // RFC 9113 deprecates priorities and leaves this case open; Sluice resets the stream, as RFC 7540 required.
    await t.test(`a stream that depends on itself, ${how}`, async (t) => {
      const faults = { [fault]: RESET_BURST, made_reset: 1 };
      const cost = await server.withstand(t, { frames: 3 * RESET_BURST, faults }, async () => {
        const peer = await server.peer(t);
        void peer.send(peer.onNewStreams(STREAMS, make));
        await calm(peer);
      });
      assert.equal(cost.mostRunning, 0, "a handler was called");
    });
  }
});

test("cancelled calls keep their places while their handlers work, and then draw on the reset budget", async (t) => {
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
    { name: "test.Resets", methods: { Work: { kind: "unary", handle: work } } },
  ]);
  t.after(() => transport.cut());
  const peer = await connect();
  t.after(() => peer.socket.destroy());
  let last = -1;
  const taken = () => {
    last += 2;
    return Buffer.concat([call(last, "/test.Resets/Work"), reset(last)]);
  };
  assert.equal(MAX_CONCURRENT_CALLS, RESET_BURST);
  await peer.send(...Array.from({ length: MAX_CONCURRENT_CALLS }, taken));
  assert.equal(started, MAX_CONCURRENT_CALLS);
  assert.deepEqual(faults, []);

  await peer.send(taken());
  assert.equal(started, MAX_CONCURRENT_CALLS, "no place is free, although no call awaits a reply");
  assert.deepEqual(
    peer.of(RST_STREAM, last).map(({ payload }) => payload.readUInt32BE(0)),
    [REFUSED_STREAM],
  );
  assert.deepEqual(faults, ["too_many_streams"]);

  release();
  await turns();
  await peer.send(taken());
  assert.equal(
    started,
    MAX_CONCURRENT_CALLS + 1,
    "there are free places, but too many calls were cancelled",
  );
  assert.equal(peer.of(GOAWAY)[0]?.payload.readUInt32BE(4), CALM);
  assert.deepEqual(faults, ["too_many_streams", "rapid_reset"]);
});
