// Peers that send requests and do not read the replies: windows of zero or one byte, sockets that are not read. The
// memory buffered for them is limited, for one connection and for all together, and the server does not wait for them
// for ever.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Bound, startTarget, type TargetServer } from "../../kit/attack/measure.ts";
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
} from "../../kit/clients/h2.ts";
import { block, indexed, literal } from "../../kit/clients/hpack.ts";
import { until } from "../../kit/until.ts";

const MB = 1024 * 1024;
const SAY = "/test.Target/Say";
const GIVE = "/test.Target/Give";
const FLOW = "/test.Target/Flow";
const WHOLE = END_HEADERS | END_STREAM;
const INITIAL_WINDOW = 4;
const NO_WINDOW = settings([INITIAL_WINDOW, 0]);
const LARGE_WINDOWS = Buffer.concat([
  settings([INITIAL_WINDOW, 2 ** 31 - 1]),
  windowUpdate(0, 2 ** 30),
]);
const IN_TIME = { http: { write_timeout: 500 } };
/** Number of open sockets when only the honest caller is connected. */
const HONEST = 1;
/** The limits of the whole pool, and as much again for the overhead of V8 and the kernel. */
const ALL = { held: 96 * MB, peak: 256 * MB };

const give = (id: number, bytes: number) => call(id, GIVE, Buffer.from(String(bytes)));

/** Waits until the server has given up all peers that do not read: their streams are reset or refused. */
async function untilGivenUp(server: TargetServer, peers: readonly RawPeer[]): Promise<void> {
  for (const peer of peers) peer.listen();
  await until("the server lets go", async () => {
    const streams = (peer: RawPeer) =>
      Array.from({ length: (peer.lastStream + 1) / 2 }, (_, at) => peer.outcomeSoFar(2 * at + 1));
    const over = (outcome: Outcome) => outcome.reset !== undefined || grpcStatus(outcome) === "8";
    return peers.every((peer) => peer.ended || streams(peer).every(over));
  });
  const { running } = await server.quickSnapshot();
  assert.equal(running, 0, "a handler is still running");
}

test("bounds the cost of replies blocked by flow control", async (t) => {
  const server = await startTarget(t, { settings: IN_TIME });

  await t.test("zero window: long replies to many calls on many connections", async (t) => {
    const [connections, calls] = [10, 400];
    const bound = {
      frames: connections * calls,
      callsPerFrame: 20,
      ...ALL,
      waited: 500,
      faults: { too_many_bytes: 1 },
    };
    const peers: RawPeer[] = [];
    await server.withstand(t, bound, async () => {
      for (let made = 0; made < connections; made++) {
        const peer = await server.peer(t, { initialFrames: NO_WINDOW });
        await peer.send(peer.onNewStreams(calls, (id) => give(id, 256 * 1024)));
        await peer.goawayOr(peer.pingRoundTrip());
        peers.push(peer);
      }
    });
    const before = await server.snapshot();
    await untilGivenUp(server, peers);
    const { held, faults } = await server.snapshot();
    assert.ok((faults.slow_reader ?? 0) > 0, JSON.stringify(faults));
    assert.ok(held < before.held, "buffered replies were not released");
  });

  await t.test("zero window: streams of replies", async (t) => {
    const calls = 500;
    const bound = {
      frames: 2 * calls,
      callsPerFrame: 5,
      held: 32 * MB,
      faults: { slow_reader: 1 },
    };
    await server.withstand(t, bound, async () => {
      const peer = await server.peer(t, { initialFrames: NO_WINDOW });
      await peer.send(peer.onNewStreams(calls, (id) => call(id, FLOW)));
      await untilGivenUp(server, [peer]);
    });
  });

  await t.test("zero window: JSON replies", async (t) => {
    const bound = { frames: 100, callsPerFrame: 30, held: 32 * MB, faults: { slow_reader: 1 } };
    await server.withstand(t, bound, async () => {
      const peer = await server.peer(t, { initialFrames: NO_WINDOW });
      const get = block(httpFields("GET", `/give/${256 * 1024}`));
      await peer.send(peer.onNewStreams(100, (id) => headers(id, get, WHOLE)));
      await untilGivenUp(server, [peer]);
    });
  });

  await t.test("an exhausted connection window with large stream windows", async (t) => {
    const initialFrames = settings([INITIAL_WINDOW, 2 ** 31 - 1]);
    const bound = { frames: 30, callsPerFrame: 50, held: 32 * MB, faults: { slow_reader: 1 } };
    await server.withstand(t, bound, async () => {
      const peer = await server.peer(t, { initialFrames });
      await peer.send(peer.onNewStreams(30, (id) => give(id, 256 * 1024)));
      await untilGivenUp(server, [peer]);
    });
  });

  await t.test("a window that grows by one byte at a time", async (t) => {
    const bound = { frames: 100, callsPerFrame: 20, faults: { slow_reader: 1 } };
    await server.withstand(t, bound, async () => {
      const peer = await server.peer(t, { initialFrames: NO_WINDOW });
      const id = peer.nextStream();
      await peer.send(give(id, MB));
      const widen = () => void peer.send(windowUpdate(id, 1));
      const timer = setInterval(widen, 10);
      try {
        await peer.outcome(id);
      } finally {
        clearInterval(timer);
      }
      const { reset } = peer.outcomeSoFar(id);
      assert.notEqual(reset, undefined, "write_timeout applies to the whole reply");
    });
  });

  await t.test("a thousand WINDOW_UPDATE frames of one byte at once", async (t) => {
    const bytes = 5_000;
    const bound = { frames: bytes, callsPerFrame: 0.3 };
    const cost = await server.withstand(t, bound, async () => {
      const peer = await server.peer(t, { initialFrames: NO_WINDOW });
      const id = peer.nextStream();
      await peer.send(give(id, bytes), repeated(windowUpdate(id, 1), bytes));
      await peer.pingRoundTrip();
      const got = peer.frames.filter((is) => is.type === DATA && is.stream === id);
      const size = got.reduce((sum, { payload }) => sum + payload.length, 0);
      assert.equal(size, bytes, "exactly what the windows allow is sent");
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("negative windows: a reply waits until its window is positive again", async (t) => {
    const cost = await server.withstand(t, { frames: 100 }, async () => {
      const peer = await server.peer(t, { initialFrames: settings([INITIAL_WINDOW, 10_000]) });
      const id = peer.nextStream();
      await peer.send(give(id, 20_000));
      await peer.pingRoundTrip();
      // RFC 9113 §6.9.2: the window is now -5 000.
      await peer.send(settings([INITIAL_WINDOW, 5_000]));
      await peer.send(windowUpdate(id, 5_000));
      await peer.pingRoundTrip();
      const size = () => peer.outcomeSoFar(id).body.length;
      assert.equal(size(), 10_000);
      await peer.send(windowUpdate(id, 1));
      await peer.pingRoundTrip();
      assert.equal(size(), 10_001);
      await peer.send(windowUpdate(id, 20_000));
      assert.equal((await peer.outcome(id)).trailers["grpc-status"], "0");
      assert.equal(size(), 20_005);
    });
    assert.deepEqual(cost.faults, {});
  });
});

test("bounds the cost of sockets that are not read", async (t) => {
  const server = await startTarget(t, { settings: IN_TIME });

  /** Requests a lot in few bytes, with all windows wide open, and does not read. */
  async function requestWithoutReading(
    t: TestContext,
    ask: (peer: RawPeer) => Buffer,
    worth: Bound,
  ) {
    const bound = { ...ALL, faults: { slow_reader: 5 }, ...worth };
    await server.withstand(t, bound, async () => {
      const peers: RawPeer[] = [];
      for (let made = 0; made < 5; made++) {
        const peer = await server.peer(t, { initialFrames: LARGE_WINDOWS, paused: true });
        void peer.send(ask(peer));
        peers.push(peer);
      }
      await until("the server lets go", async () => (await sockets()) <= HONEST);
      for (const peer of peers) peer.socket.destroy();
    });
  }
  const sockets = async () =>
    (await server.quickSnapshot()).open.filter((kind) => kind === "TCPSocketWrap").length;

  await t.test("long JSON replies to calls of a dozen bytes", (t) =>
    // More than the kernel buffers for a peer that does not read (4 MiB), for which no write would wait.
    requestWithoutReading(t, (peer) => tiny(peer, 200, 3 * MB), {
      frames: 1_000,
      callsPerFrame: 30,
    }),
  );

  await t.test("long gRPC replies", (t) =>
    // Each reply is made and copied before it is found to be too much.
    requestWithoutReading(t, (peer) => peer.onNewStreams(1_000, (id) => give(id, MB)), {
      frames: 5_000,
      callsPerFrame: 60,
      waited: 1_000,
    }),
  );

  await t.test("streams of replies", (t) =>
    requestWithoutReading(t, (peer) => peer.onNewStreams(500, (id) => call(id, FLOW)), {
      frames: 2_500,
      callsPerFrame: 15,
    }),
  );

  await t.test("a peer that reads, but requests far more than it can read at once", async (t) => {
    // Nothing here is slow: the server may refuse what is too much, but must not buffer all of it.
    const bound = { frames: 500, callsPerFrame: 20, ...ALL, faults: { too_many_bytes: 1 } };
    await server.withstand(t, bound, async () => {
      const peer = await server.peer(t, { initialFrames: LARGE_WINDOWS });
      await peer.send(tiny(peer, 500, MB));
      await peer.goawayOr(peer.pingRoundTrip());
      const { head } = peer.outcomeSoFar(1);
      assert.equal(head[":status"], "200", "requests within the limits are served");
      peer.socket.destroy();
    });
  });

  await t.test("an endless stream to a peer that reads it leaves time for others", async (t) => {
    const bytes = 200 * MB;
    // Its cost is that of copying and sending its bytes.
    const bound = { frames: bytes / 16_384, callsPerFrame: 5, ...ALL };
    const cost = await server.withstand(t, bound, async () => {
      const peer = await server.peer(t, { initialFrames: LARGE_WINDOWS });
      peer.discardBodies = true;
      await peer.send(peer.onNewStreams(3, (id) => call(id, FLOW)));
      await peer.bytes(bytes);
      peer.socket.destroy();
    });
    assert.ok(cost.honest >= 10, `${cost.honest} honest calls were served meanwhile`);
  });

  await t.test("SETTINGS and PING from a peer that does not read the replies", async (t) => {
    const bound = { frames: 8_000, callsPerFrame: 0.3, held: 16 * MB };
    const cost = await server.withstand(t, bound, async () => {
      const peer = await server.peer(t, { paused: true });
      for (let sent = 0; sent < 20 && !peer.ended; sent++)
        void peer.send(repeated(settings(), 400));
      peer.listen();
      await peer.frame("an answer", ({ type, flags }) => type === SETTINGS && flags === 1);
    });
    assert.deepEqual(cost.faults, {}, "within the budget of control frames");
  });

  await t.test("peers that send requests and disconnect", async (t) => {
    const [connections, calls] = [30, 200];
    const cost = await server.withstand(
      t,
      { frames: connections * calls, callsPerFrame: 10, ...ALL, codes: { CANCELLED: 1 } },
      async () => {
        for (let made = 0; made < connections; made++) {
          const peer = await server.peer(t, { initialFrames: LARGE_WINDOWS, paused: true });
          const both = (id: number) =>
            Buffer.concat([call(id, FLOW), give(peer.nextStream(), MB / 8)]);
          await peer.send(peer.onNewStreams(calls / 2, both));
          peer.socket.resetAndDestroy();
        }
        await until("nothing is left", async () => {
          const { running, open } = await server.quickSnapshot();
          return running === 0 && open.filter((kind) => kind === "TCPSocketWrap").length <= 2;
        });
      },
    );
    assert.ok(cost.held < 16 * MB, "memory is still held for closed connections");
  });

  await t.test("honest calls after all attacks", async (t) => {
    const peer = await server.peer(t);
    assert.equal(await peer.unary(SAY), "0");
  });
});

/** The shortest requests for this many bytes each: their path is in the dynamic table. */
function tiny(peer: RawPeer, calls: number, bytes: number): Buffer {
  const path = literal([":path", `/give/${bytes}`], true);
  const authority = literal([":authority", "test"], true);
  // GET and http are in the static table.
  const first = Buffer.concat([indexed(2), indexed(6), path, authority]);
  const next = Buffer.concat([indexed(2), indexed(6), indexed(63), indexed(62)]);
  return Buffer.concat([
    headers(peer.nextStream(), first, WHOLE),
    peer.onNewStreams(calls - 1, (id) => headers(id, next, WHOLE)),
  ]);
}
