// Peers that send slowly, so that the server would hold what they began for ever: prefaces, frames, field blocks,
// bodies; and peers that begin many calls and leave them unfinished.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_CONCURRENT_CALLS } from "#h2/limits.ts";
import { readTimeoutPassed, startTarget, type TargetServer } from "../../kit/attack/measure.ts";
import {
  CONTINUATION,
  call,
  data,
  END_STREAM,
  frame,
  grpcFields,
  grpcStatus,
  HEADERS,
  headers,
  httpFields,
  message,
  PREFACE,
  type RawPeer,
  settings,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { until } from "../../kit/until.ts";

const SAY = "/test.Target/Say";
const say = block(grpcFields(SAY));
const take = block(httpFields("POST", "/take"));
const gather = block(grpcFields("/test.Target/Gather"));
/** CPU cost that a connection may have, in honest calls. */
const CONNECTION = 50;
const MB = 1024 * 1024;
const SHORT = {
  grpc: { connection_timeout: 250 },
  http: { read_header_timeout: 250, read_timeout: 500, write_timeout: 500 },
};

/** Sends a piece every few ms until the server ends the connection. */
async function drip(peer: RawPeer, piece: (at: number) => Uint8Array, every = 20): Promise<void> {
  let at = 0;
  const timer = setInterval(() => void peer.send(piece(at++)), every);
  try {
    await Promise.race([peer.closed, late(40_000)]);
  } finally {
    clearInterval(timer);
  }
  assert.ok(peer.ended, "the connection is still open");
}

function late(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}

const sockets = async (server: TargetServer) =>
  (await server.quickSnapshot()).open.filter((kind) => kind === "TCPSocketWrap").length;

test("ends what slow senders began, after the timeout that applies", async (t) => {
  const server = await startTarget(t, { settings: SHORT });
  const slowHeaders = { frames: 50, faults: { slow_headers: 1 } };

  await t.test("a field block that is never finished", async (t) => {
    await server.withstand(t, slowHeaders, async () => {
      const peer = await server.peer(t);
      await peer.send(headers(1, say, 0));
      await peer.closed;
    });
  });

  await t.test("a field block that continues for ever, a little at a time", async (t) => {
    await server.withstand(t, slowHeaders, async () => {
      const peer = await server.peer(t);
      await peer.send(headers(1, say, 0));
      await drip(peer, () => frame(CONTINUATION, 0, 1), 50);
    });
  });

  await t.test("a frame header, one byte at a time", async (t) => {
    // Its last byte never comes, however late the server is.
    const one = frame(HEADERS, 5, 1, say).subarray(0, 8);
    await server.withstand(t, slowHeaders, async () => {
      const peer = await server.peer(t);
      await drip(peer, (at) => one.subarray(at, at + 1), 100);
    });
  });

  await t.test("a frame that is never complete, one byte at a time", async (t) => {
    await server.withstand(t, slowHeaders, async () => {
      const peer = await server.peer(t);
      await peer.send(frame(0x42, 0, 0, Buffer.alloc(1), 16_000));
      await drip(peer, () => Buffer.alloc(1));
    });
  });

  await t.test("many field blocks that are never finished", async (t) => {
    const connections = 200;
    const bound = {
      frames: connections,
      callsPerFrame: CONNECTION,
      held: 8 * MB,
      faults: { slow_headers: connections },
    };
    await server.withstand(t, bound, async () => {
      const peers: RawPeer[] = [];
      for (let made = 0; made < connections; made++) {
        const peer = await server.peer(t);
        void peer.send(headers(1, say, 0));
        peers.push(peer);
      }
      await Promise.all(peers.map((peer) => peer.closed));
    });
  });

  const half = settings([3, 1]).subarray(0, 12);
  for (const [how, bytes, why] of [
    ["an incomplete preface", PREFACE.subarray(0, 10), "slow_preface"],
    ["a preface without SETTINGS", PREFACE, "slow_preface"],
    ["an incomplete SETTINGS frame", Buffer.concat([PREFACE, half]), "slow_preface"],
    ["nothing at all", Buffer.alloc(0), "slow_first_bytes"],
  ] as const) {
    await t.test(`a connection preface that never completes: ${how}`, async (t) => {
      const connections = 50;
      const bound = {
        frames: connections,
        callsPerFrame: CONNECTION,
        refused: { [why]: connections },
      };
      await server.withstand(t, bound, async () => {
        const peers: RawPeer[] = [];
        for (let made = 0; made < connections; made++) {
          const peer = await server.peer(t, { initialFrames: null });
          void peer.send(bytes);
          peers.push(peer);
        }
        await Promise.all(peers.map((peer) => peer.closed));
      });
    });
  }

  for (const [kind, head, begin] of [
    ["gRPC", say, message(Buffer.alloc(2_000)).subarray(0, 10)],
    ["JSON", take, Buffer.from('{"a":"')],
  ] as const) {
    for (const [how, more] of [
      ["stops", undefined],
      ["arrives one byte at a time", Buffer.from(" ")],
    ] as const) {
      await t.test(`a ${kind} body that ${how}`, async (t) => {
        const counted =
          kind === "gRPC" ? { codes: { DEADLINE_EXCEEDED: 1 } } : { statuses: { 408: 1 } };
        const bound = { frames: 50, faults: { slow_body: 1 }, ...counted };
        await server.withstand(t, bound, async () => {
          const peer = await server.peer(t);
          await peer.send(headers(peer.nextStream(), head), data(1, begin));
          const timer = setInterval(() => {
            if (more !== undefined) void peer.send(data(1, more));
          }, 20);
          const { head: reply, reset } = await peer.outcome(1).finally(() => clearInterval(timer));
          const refused = reply["grpc-status"] ?? reply[":status"];
          assert.ok(
            reset !== undefined || refused === "4" || refused === "408",
            peer.describeFrames(),
          );
          assert.equal(await peer.unary(SAY), "0", "other calls of the connection are served");
        });
      });
    }
  }

  await t.test("a stream of messages may be slow", async (t) => {
    const cost = await server.withstand(t, { frames: 100 }, async () => {
      const [peer, other] = [await server.peer(t), await server.peer(t)];
      await peer.send(headers(1, gather));
      for (let sent = 0; sent < 3; sent++) {
        await peer.send(data(1, message()));
        await readTimeoutPassed(other);
      }
      await peer.send(data(1, undefined, END_STREAM));
      assert.equal(grpcStatus(await peer.outcome(1)), "0", peer.describeFrames());
    });
    assert.deepEqual(cost.faults, { slow_body: 3 });
  });

  await t.test("unfinished calls: begun and left open", async (t) => {
    const [connections, calls] = [5, 1_000];
    const bound = {
      frames: connections * calls,
      callsPerFrame: 2,
      held: 8 * MB,
      faults: { slow_body: connections * calls },
    };
    await server.withstand(t, bound, async () => {
      const peers: RawPeer[] = [];
      for (let made = 0; made < connections; made++) {
        const peer = await server.peer(t);
        await peer.send(peer.onNewStreams(calls, (id) => headers(id, say)));
        peers.push(peer);
      }
      await Promise.all(peers.map((peer) => peer.outcome(peer.lastStream)));
    });
  });
});

test("bounds the cost of unfinished calls without timeouts", async (t) => {
  const server = await startTarget(t, { settings: { http: { read_timeout: 600_000 } } });

  await t.test(
    "calls beyond a thousand at once are refused, and served when there is a free place",
    async (t) => {
      const calls = 1_500;
      const bound = {
        frames: 2 * calls,
        held: 16 * MB,
        faults: { too_many_streams: calls - MAX_CONCURRENT_CALLS },
      };
      await server.withstand(t, bound, async () => {
        const peer = await server.peer(t);
        // All at once: their data was in flight when the server refused them, which is not a fault.
        const make = (id: number) => Buffer.concat([headers(id, gather), data(id, message())]);
        await peer.send(peer.onNewStreams(calls, make));
        await peer.pingRoundTrip();
        assert.equal(peer.outcomeSoFar(1).reset, undefined);
        for (const id of [2_001, peer.lastStream]) {
          assert.equal(peer.outcomeSoFar(id).reset, "REFUSED_STREAM", peer.describeFrames());
        }
        await peer.send(data(1, undefined, END_STREAM));
        assert.equal(grpcStatus(await peer.outcome(1)), "0");
        assert.equal(await peer.unary(SAY), "0", peer.describeFrames());
      });
    },
  );

  await t.test("connections that end with all their calls open", async (t) => {
    const [connections, calls] = [30, 1_000];
    const counted = { codes: { CANCELLED: connections } };
    const bound = { frames: connections * calls, callsPerFrame: 1.5, held: 4 * MB, ...counted };
    const cost = await server.withstand(t, bound, async () => {
      for (let made = 0; made < connections; made++) {
        const peer = await server.peer(t);
        const kinds = [SAY, "/test.Target/Gather", "/test.Target/Ignore", "/test.Target/Later"];
        const make = (id: number) =>
          id % 4 === 1
            ? call(id, "/test.Target/Later")
            : headers(id, block(grpcFields(kinds[((id - 1) / 2) % 3] ?? SAY)));
        await peer.send(peer.onNewStreams(calls, make));
        if (made % 2 === 0) await peer.pingRoundTrip();
        peer.socket.destroy();
      }
      await until("nothing runs any more", async () => {
        const { running } = await server.quickSnapshot();
        return running === 0 && (await sockets(server)) <= 1;
      });
    });
    assert.ok(cost.mostRunning > 0, "no handler ran");
    const timers = cost.open.filter((kind) => kind === "Timeout").length;
    assert.ok(timers < 10, `${timers} timers are left`);
  });
});
