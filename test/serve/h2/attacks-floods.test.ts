// Frames that carry no call, in any number: each is cheap to send and must be as cheap to bear, until there are
// so many that the peer is told to calm down. Honest callers send some of each kind.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CONTROL_BURST } from "#serve/h2/limits.ts";
import type { Http2Fault } from "#serve/settings.ts";
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
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { victim } from "../../kit/watch.ts";

/** So many are sent; what is over the bound the server must not even look at. */
const FRAMES = 100_000;
/** What the server takes of them: each costs a fraction of a call. */
const TAKEN = { frames: CONTROL_BURST, each: 0.3 };
const SAY = "/test.Victim/Say";
const gather = block(grpcFields("/test.Victim/Gather"));

/** Opens stream 1 and leaves it open. */
const open = headers(1, gather);
/** Stream 1 has come and gone. */
const gone = call(1, SAY);

interface Flood {
  readonly kind: string;
  readonly one: Buffer;
  readonly before: Buffer;
  /** All that is counted. */
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
  flood("SETTINGS ACK that nobody asked for", frame(SETTINGS, ACK, 0)),
  flood("PING", ping()),
  flood("PING ACK that nobody asked for", frame(PING, ACK, 0, Buffer.alloc(8))),
  flood("PRIORITY of streams that never come", priority(7)),
  flood("PRIORITY of an open stream", priority(1), open),
  flood("WINDOW_UPDATE of the connection", windowUpdate(0, 1)),
  flood("WINDOW_UPDATE of an open stream", windowUpdate(1, 1), open),
  flood("WINDOW_UPDATE of a stream that is gone", windowUpdate(1, 1), gone),
  flood("RST_STREAM of a stream that is gone", reset(1), gone),
  flood("empty DATA", data(1), open),
  flood("DATA of nothing but padding", data(1, padded(Buffer.alloc(0), 0), PADDED), open),
  // The first is told that its stream is closed, the others are let be and counted.
  flood("DATA of a stream that is gone", data(1), gone, { control_flood: 1, stream: 1 }),
  flood("frames of an unknown kind", frame(0x42, 0, 0, Buffer.alloc(20))),
  flood("frames of an unknown kind on a stream", frame(0x42, 0, 1), open),
];

test("floods of frames that carry nothing", async (t) => {
  const server = await victim(t);
  for (const { kind, one, before, faults } of floods) {
    await t.test(kind, async (t) => {
      const cost = await server.under(t, TAKEN, async () => {
        const peer = await server.peer(t);
        void peer.send(before, repeated(one, FRAMES));
        assert.equal(await peer.goaway(), "ENHANCE_YOUR_CALM", peer.told());
        await peer.closed;
      });
      assert.deepEqual(cost.faults, faults);
    });
  }

  // Who says goodbye is left, however often: nothing is wrong with it.
  await t.test("GOAWAY", async (t) => {
    const goodbye = frame(GOAWAY, 0, 0, Buffer.concat([uint32(0), uint32(0)]));
    const cost = await server.under(t, TAKEN, async () => {
      const peer = await server.peer(t);
      void peer.send(repeated(goodbye, FRAMES));
      assert.equal(await peer.goaway(), "NO_ERROR", peer.told());
      await peer.closed;
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("a flood in small pieces, and a peer that reads none of the answers", async (t) => {
    const bound = { ...TAKEN, faults: { control_flood: 1 } };
    await server.under(t, bound, async () => {
      const peer = await server.peer(t, { deaf: true });
      for (let sent = 0; sent < 100 && !peer.ended; sent++) {
        await Promise.race([peer.send(repeated(ping(), FRAMES / 100)), peer.closed, pause(100)]);
      }
      peer.listen();
      await peer.closed;
    });
  });

  await t.test(
    "floods that stay below the bound, from connections one after the other",
    async (t) => {
      const connections = 20;
      const each = CONTROL_BURST / 2;
      const bound = { frames: connections * each, each: 0.1 };
      const cost = await server.under(t, bound, async () => {
        for (let made = 0; made < connections; made++) {
          const peer = await server.peer(t);
          await peer.send(repeated(ping(), each));
          await peer.pong();
          peer.socket.destroy();
        }
      });
      assert.deepEqual(cost.faults, {});
    },
  );

  await t.test("streams that end with an empty DATA each are calls", async (t) => {
    const calls = 3_000;
    const bound = { frames: calls, each: 1.5, codes: { OK: calls } };
    const cost = await server.under(t, bound, async () => {
      const peer = await server.peer(t, { greeting: WIDE });
      const say = block(grpcFields(SAY));
      for (let done = 0; done < 10; done++) {
        const make = (id: number) =>
          Buffer.concat([headers(id, say), data(id, message()), data(id, undefined, END_STREAM)]);
        await peer.send(peer.each(calls / 10, make));
        assert.equal(grpcStatus(await peer.outcome(peer.last)), "0", peer.told());
      }
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("callers that measure and widen windows as they call are served", async (t) => {
    const calls = 5_000;
    const cost = await server.under(t, { frames: 6 * calls, each: 0.3 }, async () => {
      const peer = await server.peer(t, { greeting: WIDE });
      for (let done = 0; done < 25; done++) {
        const make = (id: number) =>
          Buffer.concat([call(id, SAY), ping(), windowUpdate(0, 10), windowUpdate(0, 10)]);
        await peer.send(peer.each(calls / 25, make));
        assert.equal(grpcStatus(await peer.outcome(peer.last)), "0", peer.told());
        peer.frames.length = 0;
      }
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("padding is no attack: what it takes of windows is given back", async (t) => {
    const pieces = 40_000;
    const cost = await server.under(t, { frames: pieces, each: 0.5 }, async () => {
      const peer = await server.peer(t);
      const id = peer.next();
      const one = data(id, padded(message(), 200), PADDED);
      await peer.send(headers(id, gather));
      let credit = 262_144;
      let told = 0;
      const batch = 500;
      for (let sent = 0; sent < pieces; sent += batch) {
        // No more than the window lets, nor than half of it, which a server may owe at any time: one that keeps
        // padding to itself would stop this.
        while (credit < batch * 206) {
          const widened = await peer.widened(id, told);
          told += widened.length;
          credit += widened.reduce((sum, by) => sum + by, 0);
        }
        credit -= batch * 206;
        await peer.send(repeated(one, batch));
      }
      await peer.send(data(id, undefined, END_STREAM));
      const { body } = await peer.outcome(id);
      assert.equal(body.subarray(5).toString("latin1"), String(pieces), peer.told());
    });
    assert.deepEqual(cost.faults, {});
  });
});

const WIDE = Buffer.concat([settings(), windowUpdate(0, 2 ** 30)]);

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
