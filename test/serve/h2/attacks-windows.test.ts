// Peers that let many replies wait and then widen windows by next to nothing, again and again: what a frame of a few
// bytes sets in motion is bounded, honest callers hardly notice, and replies that wait together go on in turn.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as after } from "node:timers/promises";
import { REMEMBERED_ENDS } from "#serve/h2/limits.ts";
import type { Service } from "#serve/handler.ts";
import {
  call,
  DATA,
  END_HEADERS,
  END_STREAM,
  GOAWAY,
  grpcFields,
  grpcStatus,
  headers,
  PING,
  ping,
  type RawPeer,
  RST_STREAM,
  repeated,
  reset,
  settings,
  windowUpdate,
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { type MemoryPeer, memoryServer, turns } from "../../kit/memory-peer.ts";
import { type Victim, victim } from "../../kit/watch.ts";

const SAY = "/test.Victim/Say";
const GIVE = "/test.Victim/Give";
const FIRST_WINDOW = 65_535;
/** Prefix of a gRPC message. */
const MESSAGE_HEAD = 5;
const INITIAL_WINDOW = 4;
/** Replies that wait: a little below what one connection may have at once. */
const WAITING = 990;
/** Frames: a little below what may come in a burst. */
const FRAMES = 9_900;
/** Of each: together they and the calls themselves may be kept, and frames that widen windows do not end them soon. */
const EACH_BYTES = 4_000;
const ROUNDS = 3;

const give = (id: number, bytes: number) => call(id, GIVE, Buffer.from(String(bytes)));
const initial = (window: number) => settings([INITIAL_WINDOW, window]);

/** The longest that an honest call took while `attack` went on, in ms. */
async function latency(
  t: TestContext,
  server: Victim,
  attack: () => Promise<unknown>,
): Promise<number> {
  const peer = await server.peer(t);
  let worst = 0;
  let going = true;
  const calls = (async () => {
    while (going) {
      const begun = performance.now();
      assert.equal(await peer.unary(SAY), "0");
      worst = Math.max(worst, performance.now() - begun);
      peer.frames.length = 0;
      await after(1);
    }
  })();
  await after(20);
  await attack();
  going = false;
  await calls;
  peer.socket.destroy();
  return worst;
}

interface Cost {
  /** CPU time that the server took, and the longest that an honest call waited; ms. */
  readonly cpu: number;
  readonly wait: number;
}

/** The least of several rounds: a machine that does other things too may be slow once, not each time. */
async function least(
  t: TestContext,
  server: Victim,
  ready: () => Promise<RawPeer>,
  bytes: Buffer,
): Promise<Cost> {
  let [cpu, wait] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let round = 0; round < ROUNDS; round++) {
    const peer = await ready();
    await peer.pong();
    // Collecting garbage is not the attack's doing.
    await server.look();
    const before = await server.glance();
    const waited = await latency(t, server, async () => {
      await peer.send(bytes);
      await peer.goawayOr(peer.pong());
    });
    const now = await server.glance();
    peer.socket.destroy();
    cpu = Math.min(cpu, now.cpu - before.cpu);
    wait = Math.min(wait, waited);
  }
  t.diagnostic(`CPU ${cpu.toFixed(0)} ms, an honest call waited ${wait.toFixed(0)} ms`);
  return { cpu, wait };
}

test("windows that are widened by next to nothing while many replies wait", async (t) => {
  const server = await victim(t);
  /** A peer with replies that wait for the connection's window alone. */
  const blocked = async () => {
    const peer = await server.peer(t, { greeting: initial(2 ** 31 - 1) });
    await peer.send(give(peer.next(), FIRST_WINDOW));
    await peer.send(peer.each(WAITING, (id) => give(id, EACH_BYTES)));
    return peer;
  };

  await t.test("the connection's, by a byte", async (t) => {
    const { cpu, wait } = await least(t, server, blocked, repeated(windowUpdate(0, 1), FRAMES));
    assert.ok(cpu < 250, `took ${cpu} ms`);
    assert.ok(wait < 200, `an honest call waited ${wait} ms`);
  });

  await t.test("all streams', by a byte", async (t) => {
    const ready = async () => {
      const peer = await server.peer(t, { greeting: initial(0) });
      await peer.send(peer.each(WAITING, (id) => give(id, EACH_BYTES)));
      return peer;
    };
    const drip = Array.from({ length: FRAMES }, (_, at) => initial(at + 1));
    const { cpu, wait } = await least(t, server, ready, Buffer.concat(drip));
    assert.ok(cpu < 200, `took ${cpu} ms`);
    assert.ok(wait < 250, `an honest call waited ${wait} ms`);
    const { faults } = await server.look();
    assert.equal(faults.control_flood, ROUNDS, "many streams make it worth many frames");
  });

  await t.test("all streams', to and fro, where nothing waits", async (t) => {
    const ready = async () => {
      const peer = await server.peer(t);
      await peer.send(peer.each(WAITING, (id) => headers(id, block(grpcFields(SAY)))));
      return peer;
    };
    const drip = repeated(Buffer.concat([initial(0), initial(1)]), FRAMES / 2);
    const before = await server.glance();
    const { wait } = await least(t, server, ready, drip);
    assert.ok(wait < 250, `an honest call waited ${wait} ms`);
    const { faults } = await server.glance();
    assert.equal((faults.control_flood ?? 0) - (before.faults.control_flood ?? 0), ROUNDS);
  });

  await t.test("replies that are too much to be kept", async (t) => {
    const ready = () => server.peer(t, { greeting: initial(0) });
    const asked = Array.from({ length: WAITING }, (_, at) => give(2 * at + 1, 1024 * 1024));
    const { cpu, wait } = await least(t, server, ready, Buffer.concat(asked));
    assert.ok(cpu < 150, `took ${cpu} ms`);
    assert.ok(wait < 250, `an honest call waited ${wait} ms`);
  });

  await t.test("a client that widens them as it measures is honest", async (t) => {
    const peer = await server.peer(t, { greeting: initial(0) });
    await peer.send(peer.each(WAITING, (id) => give(id, EACH_BYTES)));
    for (let window = 64; window < 2 ** 24; window *= 2) await peer.send(initial(window));
    await peer.send(windowUpdate(0, WAITING * EACH_BYTES));
    await peer.bytes(WAITING * (EACH_BYTES + MESSAGE_HEAD));
    assert.equal(grpcStatus(await peer.outcome(peer.last)), "0");
  });
});

/** A peer in memory, of a service whose replies are as long as they are asked to be. */
async function taking(t: TestContext, greeting: Buffer) {
  const service: Service = {
    name: "test.Victim",
    healthNames: [],
    methods: {
      Give: { kind: "unary", handle: (bytes) => new Uint8Array(Number(Buffer.from(bytes))) },
      Say: { kind: "unary", handle: (bytes) => bytes },
    },
  };
  const { clock, connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect(greeting);
  t.after(() => peer.socket.destroy());
  const got = (id: number) => peer.of(DATA, id).reduce((sum, is) => sum + is.payload.length, 0);
  return { clock, peer, faults, got };
}

test("replies that wait for the connection's window go on in turn", async (t) => {
  const { peer, got } = await taking(t, initial(2 ** 31 - 1));
  // With its prefix the first takes all of the window.
  await peer.send(give(1, FIRST_WINDOW - MESSAGE_HEAD), ...[3, 5, 7].map((id) => give(id, 1_000)));
  assert.deepEqual([1, 3, 5, 7].map(got), [FIRST_WINDOW, 0, 0, 0]);
  await peer.send(repeated(windowUpdate(0, 1), 30));
  // Of a reply, the first piece that waits is its prefix; who has sent it goes on with what lies behind.
  assert.deepEqual([3, 5, 7].map(got), [10, 10, 10]);
  await peer.send(windowUpdate(0, 3_000));
  assert.deepEqual([3, 5, 7].map(got), [1_005, 1_005, 1_005]);
});

test("a reply that waits for both windows goes on when both are there, in either order", async (t) => {
  const { peer, got } = await taking(t, initial(FIRST_WINDOW));
  const whole = 10 + MESSAGE_HEAD;
  await peer.send(give(1, FIRST_WINDOW - MESSAGE_HEAD), initial(0), give(3, 10), give(5, 10));
  await peer.send(windowUpdate(3, whole), windowUpdate(0, 2 * whole));
  assert.deepEqual([3, 5].map(got), [whole, 0]);
  await peer.send(windowUpdate(5, whole));
  assert.deepEqual([3, 5].map(got), [whole, whole]);
  // Both windows are used up. This one's own comes and goes, and does not keep the place of others.
  await peer.send(give(7, 10), give(9, 10), initial(1), initial(0), windowUpdate(9, whole));
  await peer.send(windowUpdate(0, whole));
  assert.deepEqual([7, 9].map(got), [0, whole]);
  await peer.send(windowUpdate(7, whole), windowUpdate(0, whole));
  assert.equal(got(7), whole);
});

/** Answered UNIMPLEMENTED as soon as its head is there. */
const nowhere = block(grpcFields("/test.Nobody/Nothing"));
const trailers = (id: number) => headers(id, block([["x-sum", "1"]]), END_HEADERS | END_STREAM);
const codes = (peer: MemoryPeer, id: number) =>
  peer.of(RST_STREAM, id).map(({ payload }) => payload.readUInt32BE(0));
const [NO_ERROR, PROTOCOL_ERROR, STREAM_CLOSED] = [0, 1, 5];

test("how a stream ended is known by its order among ends, not among ids", async (t) => {
  const { clock, peer, faults } = await taking(t, settings());
  // The first is answered early and asked to stop much later; the last has an id that is a whole ring away.
  await peer.send(headers(1, nowhere));
  const last = 1 + 2 * REMEMBERED_ENDS;
  for (let id = 3; id < last; id += 2) await peer.send(call(id, SAY));
  await peer.send(headers(last, block([[":method", "GET"]])));
  assert.deepEqual(codes(peer, last), [PROTOCOL_ERROR]);
  clock.advance(2_000);
  await turns();
  assert.deepEqual(codes(peer, 1), [NO_ERROR]);
  // What was on its way when they were reset.
  await peer.send(trailers(last), trailers(1), ping());
  assert.deepEqual(peer.of(GOAWAY), []);
  assert.equal(peer.of(PING).length, 1);
  assert.deepEqual(faults, ["malformed_request"]);
  // When the peer has seen the end, too, there is no excuse any more.
  await peer.send(reset(1), trailers(1));
  assert.equal(peer.of(GOAWAY)[0]?.payload.readUInt32BE(4), STREAM_CLOSED);
});
