// Peers that ask and do not take the answers: windows of nothing or of a byte, sockets that nobody reads. What the
// server keeps for them is bounded, for one and for all together, and they are not waited for without end.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  call,
  DATA,
  END_HEADERS,
  END_STREAM,
  grpcStatus,
  headers,
  httpFields,
  type Outcome,
  type RawPeer,
  repeated,
  SETTINGS,
  settings,
  windowUpdate,
} from "../../kit/h2.ts";
import { block, indexed, literal } from "../../kit/hpack-raw.ts";
import { until } from "../../kit/port.ts";
import { type Bound, type Victim, victim } from "../../kit/watch.ts";

const MB = 1024 * 1024;
const SAY = "/test.Victim/Say";
const GIVE = "/test.Victim/Give";
const FLOW = "/test.Victim/Flow";
const WHOLE = END_HEADERS | END_STREAM;
const INITIAL_WINDOW = 4;
const NO_WINDOW = settings([INITIAL_WINDOW, 0]);
const WIDE = Buffer.concat([settings([INITIAL_WINDOW, 2 ** 31 - 1]), windowUpdate(0, 2 ** 30)]);
const IN_TIME = { http: { write_timeout: 500 } };
/** Sockets that are open where only the honest caller is. */
const HONEST = 1;
/** Bounds of all peers together, and as much again for what V8 and the system make of it. */
const ALL = { held: 96 * MB, peak: 256 * MB };

const give = (id: number, bytes: number) => call(id, GIVE, Buffer.from(String(bytes)));

/** Waits until the server has let go of everybody who does not read: reset, or refused for want of room. */
async function rid(server: Victim, peers: readonly RawPeer[]): Promise<void> {
  for (const peer of peers) peer.listen();
  await until("the server lets go", async () => {
    const streams = (peer: RawPeer) =>
      Array.from({ length: (peer.last + 1) / 2 }, (_, at) => peer.outcomeSoFar(2 * at + 1));
    const over = (outcome: Outcome) => outcome.reset !== undefined || grpcStatus(outcome) === "8";
    return peers.every((peer) => peer.ended || streams(peer).every(over));
  });
  const { running } = await server.glance();
  assert.equal(running, 0, "no handler is left");
}

test("windows that let nothing through", async (t) => {
  const server = await victim(t, { settings: IN_TIME });

  await t.test("zero window: long replies to many calls on many connections", async (t) => {
    const [connections, calls] = [10, 400];
    const bound = {
      ...{ frames: connections * calls, each: 20, ...ALL },
      ...{ waited: 500, faults: { too_many_bytes: 1 } },
    };
    const peers: RawPeer[] = [];
    await server.under(t, bound, async () => {
      for (let made = 0; made < connections; made++) {
        const peer = await server.peer(t, { greeting: NO_WINDOW });
        await peer.send(peer.each(calls, (id) => give(id, 256 * 1024)));
        await peer.goawayOr(peer.pong());
        peers.push(peer);
      }
    });
    const before = await server.look();
    await rid(server, peers);
    const { held, faults } = await server.look();
    assert.ok((faults.slow_reader ?? 0) > 0, JSON.stringify(faults));
    assert.ok(held < before.held, "what was kept is let go");
  });

  await t.test("zero window: streams of replies", async (t) => {
    const calls = 500;
    const bound = { frames: 2 * calls, each: 5, held: 32 * MB, faults: { slow_reader: 1 } };
    await server.under(t, bound, async () => {
      const peer = await server.peer(t, { greeting: NO_WINDOW });
      await peer.send(peer.each(calls, (id) => call(id, FLOW)));
      await rid(server, [peer]);
    });
  });

  await t.test("zero window: JSON replies", async (t) => {
    const bound = { frames: 100, each: 30, held: 32 * MB, faults: { slow_reader: 1 } };
    await server.under(t, bound, async () => {
      const peer = await server.peer(t, { greeting: NO_WINDOW });
      const get = block(httpFields("GET", `/give/${256 * 1024}`));
      await peer.send(peer.each(100, (id) => headers(id, get, WHOLE)));
      await rid(server, [peer]);
    });
  });

  await t.test("a connection's window that is used up, and streams' that are wide", async (t) => {
    const greeting = settings([INITIAL_WINDOW, 2 ** 31 - 1]);
    const bound = { frames: 30, each: 50, held: 32 * MB, faults: { slow_reader: 1 } };
    await server.under(t, bound, async () => {
      const peer = await server.peer(t, { greeting });
      await peer.send(peer.each(30, (id) => give(id, 256 * 1024)));
      await rid(server, [peer]);
    });
  });

  await t.test("a window that is widened by a byte at a time", async (t) => {
    const bound = { frames: 100, each: 20, faults: { slow_reader: 1 } };
    await server.under(t, bound, async () => {
      const peer = await server.peer(t, { greeting: NO_WINDOW });
      const id = peer.next();
      await peer.send(give(id, MB));
      const widen = () => void peer.send(windowUpdate(id, 1));
      const timer = setInterval(widen, 10);
      try {
        await peer.outcome(id);
      } finally {
        clearInterval(timer);
      }
      const { reset } = peer.outcomeSoFar(id);
      assert.notEqual(reset, undefined, "write_timeout is for the whole reply");
    });
  });

  await t.test("a window that is widened by a byte, a thousand times at once", async (t) => {
    const bytes = 5_000;
    const bound = { frames: bytes, each: 0.3 };
    const cost = await server.under(t, bound, async () => {
      const peer = await server.peer(t, { greeting: NO_WINDOW });
      const id = peer.next();
      await peer.send(give(id, bytes), repeated(windowUpdate(id, 1), bytes));
      await peer.pong();
      const got = peer.frames.filter((is) => is.type === DATA && is.stream === id);
      const size = got.reduce((sum, { payload }) => sum + payload.length, 0);
      assert.equal(size, bytes, "what windows allow is sent");
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("windows that are taken back: a stream that owes data waits", async (t) => {
    const cost = await server.under(t, { frames: 100 }, async () => {
      const peer = await server.peer(t, { greeting: settings([INITIAL_WINDOW, 10_000]) });
      const id = peer.next();
      await peer.send(give(id, 20_000));
      await peer.pong();
      // RFC 9113 §6.9.2: the window is now 5 000 below nothing.
      await peer.send(settings([INITIAL_WINDOW, 5_000]));
      await peer.send(windowUpdate(id, 5_000));
      await peer.pong();
      const size = () => peer.outcomeSoFar(id).body.length;
      assert.equal(size(), 10_000);
      await peer.send(windowUpdate(id, 1));
      await peer.pong();
      assert.equal(size(), 10_001);
      await peer.send(windowUpdate(id, 20_000));
      assert.equal((await peer.outcome(id)).trailers["grpc-status"], "0");
      assert.equal(size(), 20_005);
    });
    assert.deepEqual(cost.faults, {});
  });
});

test("sockets that nobody reads", async (t) => {
  const server = await victim(t, { settings: IN_TIME });

  /** Asks for a lot in few bytes with all windows wide open, and does not read. */
  async function deaf(t: TestContext, ask: (peer: RawPeer) => Buffer, worth: Bound) {
    const bound = { ...ALL, faults: { slow_reader: 5 }, ...worth };
    await server.under(t, bound, async () => {
      const peers: RawPeer[] = [];
      for (let made = 0; made < 5; made++) {
        const peer = await server.peer(t, { greeting: WIDE, deaf: true });
        void peer.send(ask(peer));
        peers.push(peer);
      }
      await until("the server lets go", async () => (await sockets()) <= HONEST);
      for (const peer of peers) peer.socket.destroy();
    });
  }
  const sockets = async () =>
    (await server.glance()).open.filter((kind) => kind === "TCPSocketWrap").length;

  await t.test("long JSON replies to calls of a dozen bytes", (t) =>
    // Longer than what a system takes for a peer that does not read (4 MiB): what it takes, nobody waits for.
    deaf(t, (peer) => tiny(peer, 200, 3 * MB), { frames: 1_000, each: 30 }),
  );

  await t.test("long gRPC replies", (t) =>
    // Each is made, copied, before it is too much.
    deaf(t, (peer) => peer.each(1_000, (id) => give(id, MB)), {
      ...{ frames: 5_000, each: 60, waited: 1_000 },
    }),
  );

  await t.test("streams of replies", (t) =>
    deaf(t, (peer) => peer.each(500, (id) => call(id, FLOW)), { frames: 2_500, each: 15 }),
  );

  await t.test("a peer that reads, and asks for far more than it can read at once", async (t) => {
    // Nothing here is slow: the server may refuse what is too much, not keep all of it.
    const bound = { frames: 500, each: 20, ...ALL, faults: { too_many_bytes: 1 } };
    await server.under(t, bound, async () => {
      const peer = await server.peer(t, { greeting: WIDE });
      await peer.send(tiny(peer, 500, MB));
      await peer.goawayOr(peer.pong());
      const { head } = peer.outcomeSoFar(1);
      assert.equal(head[":status"], "200", "what is not too much is served");
      peer.socket.destroy();
    });
  });

  await t.test("a stream without end to a peer that reads it leaves room for others", async (t) => {
    const bytes = 200 * MB;
    // Its bytes cost what copying and sending them costs.
    const bound = { frames: bytes / 16_384, each: 5, ...ALL };
    const cost = await server.under(t, bound, async () => {
      const peer = await server.peer(t, { greeting: WIDE });
      peer.forgetful = true;
      await peer.send(peer.each(3, (id) => call(id, FLOW)));
      await peer.bytes(bytes);
      peer.socket.destroy();
    });
    assert.ok(cost.honest >= 10, `${cost.honest} honest calls were served meanwhile`);
  });

  await t.test("settings and pings that nobody reads the answers of", async (t) => {
    const bound = { frames: 8_000, each: 0.3, held: 16 * MB };
    const cost = await server.under(t, bound, async () => {
      const peer = await server.peer(t, { deaf: true });
      for (let sent = 0; sent < 20 && !peer.ended; sent++)
        void peer.send(repeated(settings(), 400));
      peer.listen();
      await peer.frame("an answer", ({ type, flags }) => type === SETTINGS && flags === 1);
    });
    assert.deepEqual(cost.faults, {}, "fewer than are too many");
  });

  await t.test("peers that ask and are gone", async (t) => {
    const [connections, calls] = [30, 200];
    const cost = await server.under(
      t,
      { frames: connections * calls, each: 10, ...ALL, codes: { CANCELLED: 1 } },
      async () => {
        for (let made = 0; made < connections; made++) {
          const peer = await server.peer(t, { greeting: WIDE, deaf: true });
          const both = (id: number) => Buffer.concat([call(id, FLOW), give(peer.next(), MB / 8)]);
          await peer.send(peer.each(calls / 2, both));
          peer.socket.resetAndDestroy();
        }
        await until("nothing is left", async () => {
          const { running, open } = await server.glance();
          return running === 0 && open.filter((kind) => kind === "TCPSocketWrap").length <= 2;
        });
      },
    );
    assert.ok(cost.held < 16 * MB, "nothing is kept for those that are gone");
  });

  await t.test("honest calls after all of it", async (t) => {
    const peer = await server.peer(t);
    assert.equal(await peer.unary(SAY), "0");
  });
});

/** Requests for so many bytes each that are as short as HPACK makes them: the path is in the table. */
function tiny(peer: RawPeer, calls: number, bytes: number): Buffer {
  const path = literal([":path", `/give/${bytes}`], true);
  const authority = literal([":authority", "test"], true);
  // GET and http stand in the static table.
  const first = Buffer.concat([indexed(2), indexed(6), path, authority]);
  const next = Buffer.concat([indexed(2), indexed(6), indexed(63), indexed(62)]);
  return Buffer.concat([
    headers(peer.next(), first, WHOLE),
    peer.each(calls - 1, (id) => headers(id, next, WHOLE)),
  ]);
}
