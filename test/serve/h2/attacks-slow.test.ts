// Peers that take their time, so that what they began is held for ever: header blocks, frames, bodies, greetings;
// and peers that begin a lot and leave it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_STREAMS } from "#serve/h2/limits.ts";
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
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { until } from "../../kit/port.ts";
import { type Victim, victim } from "../../kit/watch.ts";

const SAY = "/test.Victim/Say";
const say = block(grpcFields(SAY));
const take = block(httpFields("POST", "/take"));
const gather = block(grpcFields("/test.Victim/Gather"));
/** What a connection may cost, in honest calls. */
const CONNECTION = 50;
const MB = 1024 * 1024;
const SHORT = {
  grpc: { connection_timeout: 250 },
  http: { read_header_timeout: 250, read_timeout: 500, write_timeout: 500 },
};

/** Sends a piece every few ms for as long as anybody listens; resolves when nobody does. */
async function drip(peer: RawPeer, piece: (at: number) => Uint8Array, every = 20): Promise<void> {
  let at = 0;
  const timer = setInterval(() => void peer.send(piece(at++)), every);
  try {
    await Promise.race([peer.closed, late(8_000)]);
  } finally {
    clearInterval(timer);
  }
  assert.ok(peer.ended, "the connection was ended");
}

function late(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}

const sockets = async (server: Victim) =>
  (await server.glance()).open.filter((kind) => kind === "TCPSocketWrap").length;

test("peers that take their time", async (t) => {
  const server = await victim(t, { settings: SHORT });
  const slowHeaders = { frames: 50, faults: { slow_headers: 1 } };

  await t.test("a header block that is never finished", async (t) => {
    await server.under(t, slowHeaders, async () => {
      const peer = await server.peer(t);
      await peer.send(headers(1, say, 0));
      await peer.closed;
    });
  });

  await t.test("a header block that goes on and on, a little at a time", async (t) => {
    await server.under(t, slowHeaders, async () => {
      const peer = await server.peer(t);
      await peer.send(headers(1, say, 0));
      await drip(peer, () => frame(CONTINUATION, 0, 1), 50);
    });
  });

  await t.test("a frame's head, a byte at a time", async (t) => {
    const one = frame(HEADERS, 5, 1, say);
    await server.under(t, slowHeaders, async () => {
      const peer = await server.peer(t);
      await drip(peer, (at) => one.subarray(at, at + 1), 100);
    });
  });

  await t.test("a frame that never comes whole, a byte at a time", async (t) => {
    await server.under(t, slowHeaders, async () => {
      const peer = await server.peer(t);
      await peer.send(frame(0x42, 0, 0, Buffer.alloc(1), 16_000));
      await drip(peer, () => Buffer.alloc(1));
    });
  });

  await t.test("many header blocks that are never finished", async (t) => {
    const connections = 200;
    const bound = {
      frames: connections,
      each: CONNECTION,
      held: 8 * MB,
      faults: { slow_headers: connections },
    };
    await server.under(t, bound, async () => {
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
    ["a preface that stops", PREFACE.subarray(0, 10), "slow_preface"],
    ["a preface without SETTINGS", PREFACE, "slow_preface"],
    ["SETTINGS that are never whole", Buffer.concat([PREFACE, half]), "slow_preface"],
    ["nothing at all", Buffer.alloc(0), "slow_first_bytes"],
  ] as const) {
    await t.test(`a greeting that is not made: ${how}`, async (t) => {
      const connections = 50;
      const bound = { frames: connections, each: CONNECTION, refused: { [why]: connections } };
      await server.under(t, bound, async () => {
        const peers: RawPeer[] = [];
        for (let made = 0; made < connections; made++) {
          const peer = await server.peer(t, { greeting: null });
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
      ["comes a byte at a time", Buffer.from(" ")],
    ] as const) {
      await t.test(`a ${kind} body that ${how}`, async (t) => {
        const counted =
          kind === "gRPC" ? { codes: { DEADLINE_EXCEEDED: 1 } } : { statuses: { 408: 1 } };
        const bound = { frames: 50, faults: { slow_body: 1 }, ...counted };
        await server.under(t, bound, async () => {
          const peer = await server.peer(t);
          await peer.send(headers(peer.next(), head), data(1, begin));
          const timer = setInterval(() => {
            if (more !== undefined) void peer.send(data(1, more));
          }, 20);
          const { head: reply, reset } = await peer.outcome(1).finally(() => clearInterval(timer));
          const refused = reply["grpc-status"] ?? reply[":status"];
          assert.ok(reset !== undefined || refused === "4" || refused === "408", peer.told());
          assert.equal(await peer.unary(SAY), "0", "other calls of the connection go on");
        });
      });
    }
  }

  await t.test("a stream of messages may be slow", async (t) => {
    const cost = await server.under(t, { frames: 100 }, async () => {
      const peer = await server.peer(t);
      await peer.send(headers(1, gather));
      for (let sent = 0; sent < 10; sent++) {
        await peer.send(data(1, message()));
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      await peer.send(data(1, undefined, END_STREAM));
      assert.equal(grpcStatus(await peer.outcome(1)), "0", peer.told());
    });
    assert.deepEqual(cost.faults, {});
  });

  await t.test("half-closed leftovers: calls that are begun and left", async (t) => {
    const [connections, calls] = [5, 1_000];
    const bound = {
      frames: connections * calls,
      each: 2,
      held: 8 * MB,
      faults: { slow_body: connections * calls },
    };
    await server.under(t, bound, async () => {
      const peers: RawPeer[] = [];
      for (let made = 0; made < connections; made++) {
        const peer = await server.peer(t);
        await peer.send(peer.each(calls, (id) => headers(id, say)));
        peers.push(peer);
      }
      await Promise.all(peers.map((peer) => peer.outcome(peer.last)));
    });
  });
});

test("calls that are begun and left by peers that nobody hurries", async (t) => {
  const server = await victim(t, { settings: { http: { read_timeout: 600_000 } } });

  await t.test(
    "beyond a thousand at once they are refused, and served when there is room",
    async (t) => {
      const calls = 1_500;
      const bound = {
        ...{ frames: 2 * calls, held: 16 * MB },
        faults: { too_many_streams: calls - MAX_STREAMS },
      };
      await server.under(t, bound, async () => {
        const peer = await server.peer(t);
        // All in one go: their data was on its way when the server refused them, which is no fault.
        const make = (id: number) => Buffer.concat([headers(id, gather), data(id, message())]);
        await peer.send(peer.each(calls, make));
        await peer.pong();
        assert.equal(peer.outcomeSoFar(1).reset, undefined);
        for (const id of [2_001, peer.last]) {
          assert.equal(peer.outcomeSoFar(id).reset, "REFUSED_STREAM", peer.told());
        }
        await peer.send(data(1, undefined, END_STREAM));
        assert.equal(grpcStatus(await peer.outcome(1)), "0");
        assert.equal(await peer.unary(SAY), "0", peer.told());
      });
    },
  );

  await t.test("connections that leave with all their calls open", async (t) => {
    const [connections, calls] = [30, 1_000];
    const counted = { codes: { CANCELLED: connections } };
    const bound = { frames: connections * calls, each: 1.5, held: 4 * MB, ...counted };
    const cost = await server.under(t, bound, async () => {
      for (let made = 0; made < connections; made++) {
        const peer = await server.peer(t);
        const kinds = [SAY, "/test.Victim/Gather", "/test.Victim/Ignore", "/test.Victim/Later"];
        const make = (id: number) =>
          id % 4 === 1
            ? call(id, "/test.Victim/Later")
            : headers(id, block(grpcFields(kinds[((id - 1) / 2) % 3] ?? SAY)));
        await peer.send(peer.each(calls, make));
        if (made % 2 === 0) await peer.pong();
        peer.socket.destroy();
      }
      await until("nothing runs any more", async () => {
        const { running } = await server.glance();
        return running === 0 && (await sockets(server)) <= 1;
      });
    });
    assert.ok(cost.mostRunning > 0, "handlers ran");
    const timers = cost.open.filter((kind) => kind === "Timeout").length;
    assert.ok(timers < 10, `${timers} timers are left`);
  });
});
