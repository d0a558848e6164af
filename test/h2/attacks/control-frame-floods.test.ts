// Floods of frames that carry no call. Each is cheap to send and must be cheap to process, until there are so many
// that the server ends the connection with ENHANCE_YOUR_CALM. Honest callers send some of each kind.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Http2Fault } from "#base/server-meter.ts";
import { CONTROL_FRAME_BURST, RESET_BURST } from "#h2/limits.ts";

import { startTarget } from "../../kit/attack/measure.ts";

import {
  ACK,
  call,
  data,
  END_STREAM,
  frame,
  GOAWAY,
  grpcFields,
  grpcStatus,
  headers,
  message,
  PADDED,
  PING,
  padded,
  ping,
  priority,
  repeated,
  reset,
  SETTINGS,
  settings,
  uint32,
  windowUpdate,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";

/** Number of frames sent; the server must not even parse those beyond the budget. */
const FRAMES = 100_000;
/** Frames that the server processes; each may cost a fraction of a call. */
const PROCESSED = { frames: CONTROL_FRAME_BURST, callsPerFrame: 0.3 };
const SAY = "/test.Target/Say";
const gather = block(grpcFields("/test.Target/Gather"));

/** Opens stream 1 and leaves it open. */
const open = headers(1, gather);
/** Opens and completes stream 1. */
const closed = call(1, SAY);
/** Opens stream 1 with a header section that is refused, and does not end it. */
const malformed = headers(1, block([[":method", "GET"]]));

interface Flood {
  readonly kind: string;
  readonly one: Buffer;
  readonly before: Buffer;
  /** Exactly the faults that are counted. */
  readonly faults: Partial<Record<Http2Fault, number>>;
}
const flood = (
  kind: string,
  one: Buffer,
  before: Buffer = Buffer.alloc(0),
  faults: Flood["faults"] = { control_flood: 1 },
): Flood => ({ kind, one, before, faults });

const floods: readonly Flood[] = [
  flood("SETTINGS", settings()),
  flood("SETTINGS with many entries", settings(...Array(20).fill([0x99, 1]))),
  flood("SETTINGS that change windows", settings([4, 1], [4, 65_535]), open),
  flood("SETTINGS that change the table", settings([1, 0], [1, 4_096])),
  flood("SETTINGS ACK without a request", frame(SETTINGS, ACK, 0)),
  flood("PING", ping()),
  flood("PING ACK without a request", frame(PING, ACK, 0, Buffer.alloc(8))),
  flood("PRIORITY of an idle stream", priority(7)),
  flood("PRIORITY of an open stream", priority(1), open),
  flood("WINDOW_UPDATE of the connection", windowUpdate(0, 1)),
  flood("WINDOW_UPDATE of an open stream", windowUpdate(1, 1), open),
  flood("WINDOW_UPDATE of a closed stream", windowUpdate(1, 1), closed),
  flood("RST_STREAM of a closed stream", reset(1), closed),
  flood("empty DATA", data(1), open),
  flood("DATA with padding only", data(1, padded(Buffer.alloc(0), 0), PADDED), open),
  // Each frame is answered with STREAM_CLOSED and counts as a broken call.
  flood("DATA of a closed stream", data(1), closed, { made_reset: 1, stream: RESET_BURST + 1 }),
  // The stream was refused before it ended: frames may have been in transit, so they are ignored and counted.
  flood("DATA of a stream that was reset", data(1), malformed, {
    control_flood: 1,
    malformed_request: 1,
  }),
  flood("frames of an unknown type", frame(0x42, 0, 0, Buffer.alloc(20))),
  flood("frames of an unknown type on a stream", frame(0x42, 0, 1), open),
];

test("ends floods of control frames with ENHANCE_YOUR_CALM at low cost", async (t) => {
  const server = await startTarget(t);
  for (const { kind, one, before, faults } of floods) {
    await t.test(kind, async (t) => {
      const cost = await server.withstand(t, PROCESSED, async () => {
        const peer = await server.peer(t);
        void peer.send(before, repeated(one, FRAMES));
        assert.equal(await peer.goaway(), "ENHANCE_YOUR_CALM", peer.describeFrames());
        await peer.closed;
      });
      assert.deepEqual(cost.faults, faults);
    });
  }

  // A GOAWAY ends the connection without an error, however often it is repeated.
  await t.test("GOAWAY", async (t) => {
    const goodbye = frame(GOAWAY, 0, 0, Buffer.concat([uint32(0), uint32(0)]));
    const cost = await server.withstand(t, PROCESSED, async () => {
      const peer = await server.peer(t);
      void peer.send(repeated(goodbye, FRAMES));
      assert.equal(await peer.goaway(), "NO_ERROR", peer.describeFrames());
      await peer.closed;
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("a flood in small pieces from a peer that does not read the replies", async (t) => {
    const bound = { ...PROCESSED, faults: { control_flood: 1 } };
    await server.withstand(t, bound, async () => {
      const peer = await server.peer(t, { paused: true });
      for (let sent = 0; sent < 100 && !peer.ended; sent++) {
        await Promise.race([peer.send(repeated(ping(), FRAMES / 100)), peer.closed, pause(100)]);
      }
      peer.listen();
      await peer.closed;
    });
  });

  await t.test("floods below the budget on one connection after another", async (t) => {
    const connections = 20;
    const each = CONTROL_FRAME_BURST / 2;
    const bound = { frames: connections * each, callsPerFrame: 0.1 };
    const cost = await server.withstand(t, bound, async () => {
      for (let made = 0; made < connections; made++) {
        const peer = await server.peer(t);
        await peer.send(repeated(ping(), each));
        await peer.pingRoundTrip();
        peer.socket.destroy();
      }
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("streams that end with an empty DATA frame are ordinary calls", async (t) => {
    const calls = 3_000;
    const bound = { frames: calls, callsPerFrame: 1.5, codes: { OK: calls } };
    const cost = await server.withstand(t, bound, async () => {
      const peer = await server.peer(t, { initialFrames: LARGE_WINDOWS });
      const say = block(grpcFields(SAY));
      for (let done = 0; done < 10; done++) {
        const make = (id: number) =>
          Buffer.concat([headers(id, say), data(id, message()), data(id, undefined, END_STREAM)]);
        await peer.send(peer.onNewStreams(calls / 10, make));
        assert.equal(grpcStatus(await peer.outcome(peer.lastStream)), "0", peer.describeFrames());
      }
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("serves callers that send PING and WINDOW_UPDATE as they call", async (t) => {
    const calls = 5_000;
    const cost = await server.withstand(t, { frames: 6 * calls, callsPerFrame: 0.3 }, async () => {
      const peer = await server.peer(t, { initialFrames: LARGE_WINDOWS });
      for (let done = 0; done < 25; done++) {
        const make = (id: number) =>
          Buffer.concat([call(id, SAY), ping(), windowUpdate(0, 10), windowUpdate(0, 10)]);
        await peer.send(peer.onNewStreams(calls / 25, make));
        assert.equal(grpcStatus(await peer.outcome(peer.lastStream)), "0", peer.describeFrames());
        peer.frames.length = 0;
      }
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("padding is not an attack: its flow-control credit is returned", async (t) => {
    const pieces = 40_000;
    const cost = await server.withstand(t, { frames: pieces, callsPerFrame: 0.5 }, async () => {
      const peer = await server.peer(t);
      const id = peer.nextStream();
      const one = data(id, padded(message(), 200), PADDED);
      await peer.send(headers(id, gather));
      let credit = 262_144;
      let seen = 0;
      const batch = 500;
      for (let sent = 0; sent < pieces; sent += batch) {
        // Stays within the window and within half of it, as a server may delay that much credit. A server that does
        // not return the credit of padding would stop this loop.
        while (credit < batch * 206) {
          const increments = await peer.windowUpdates(id, seen);
          seen += increments.length;
          credit += increments.reduce((sum, by) => sum + by, 0);
        }
        credit -= batch * 206;
        await peer.send(repeated(one, batch));
      }
      await peer.send(data(id, undefined, END_STREAM));
      const { body } = await peer.outcome(id);
      assert.equal(body.subarray(5).toString("latin1"), String(pieces), peer.describeFrames());
    });
    assert.deepEqual(cost.faults, {});
  });
});

const LARGE_WINDOWS = Buffer.concat([settings(), windowUpdate(0, 2 ** 30)]);

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
