// Peers that let many replies wait and then widen windows by tiny increments, again and again: the work that such a
// small frame causes is limited, honest callers hardly notice it, and waiting replies continue in turn.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { GrpcService } from "#base/handler.ts";
import { CLOSED_STREAM_HISTORY } from "#h2/limits.ts";

import { startTarget } from "../../kit/attack/measure.ts";

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
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { type MemoryPeer, memoryServer, turns } from "../../kit/clients/memory-peer.ts";

const SAY = "/test.Target/Say";
const GIVE = "/test.Target/Give";
const FIRST_WINDOW = 65_535;
/** Length of a gRPC message's prefix, bytes. */
const MESSAGE_HEAD = 5;
const INITIAL_WINDOW = 4;
/** Number of waiting replies, a little below the limit of concurrent calls. */
const WAITING = 990;
/** Number of frames, a little below the burst that the budget allows. */
const FRAMES = 9_900;
/**
 * Size of each reply: all of them fit the connection's buffer limit, and the small increments do not complete them
 * soon.
 */
const EACH_BYTES = 4_000;
/** The replies and the frames, of which a few reach many streams. */
const BOUND = { frames: WAITING + FRAMES, callsPerFrame: 2, waited: 250 };

const give = (id: number, bytes: number) => call(id, GIVE, Buffer.from(String(bytes)));
const initial = (window: number) => settings([INITIAL_WINDOW, window]);

/** Sends `bytes` to a peer that has its replies waiting. */
async function attack(peer: RawPeer, bytes: Buffer): Promise<void> {
  await peer.pingRoundTrip();
  await peer.send(bytes);
  await peer.goawayOr(peer.pingRoundTrip());
}

test("bounds the cost of tiny window increments while many replies wait", async (t) => {
  const server = await startTarget(t);
  /** A peer whose replies wait for the connection window alone. */
  const blocked = async () => {
    const peer = await server.peer(t, { initialFrames: initial(2 ** 31 - 1) });
    await peer.send(give(peer.nextStream(), FIRST_WINDOW));
    await peer.send(peer.onNewStreams(WAITING, (id) => give(id, EACH_BYTES)));
    return peer;
  };

  await t.test("the connection window, one byte at a time", async (t) => {
    const updates = repeated(windowUpdate(0, 1), FRAMES);
    await server.withstand(t, BOUND, async () => attack(await blocked(), updates));
  });

  await t.test("all stream windows, one byte at a time", async (t) => {
    const ready = async () => {
      const peer = await server.peer(t, { initialFrames: initial(0) });
      await peer.send(peer.onNewStreams(WAITING, (id) => give(id, EACH_BYTES)));
      return peer;
    };
    const drip = Array.from({ length: FRAMES }, (_, at) => initial(at + 1));
    const flood = Buffer.concat(drip);
    const { faults } = await server.withstand(t, BOUND, async () => attack(await ready(), flood));
    assert.deepEqual(
      faults,
      { control_flood: 1 },
      "a SETTINGS frame counts as many frames where there are many streams",
    );
  });

  await t.test("all stream windows, back and forth, with nothing waiting", async (t) => {
    const ready = async () => {
      const peer = await server.peer(t);
      await peer.send(peer.onNewStreams(WAITING, (id) => headers(id, block(grpcFields(SAY)))));
      return peer;
    };
    const drip = repeated(Buffer.concat([initial(0), initial(1)]), FRAMES / 2);
    const { faults } = await server.withstand(t, BOUND, async () => attack(await ready(), drip));
    assert.deepEqual(faults, { control_flood: 1 });
  });

  await t.test("replies that exceed the buffer limit", async (t) => {
    const ready = () => server.peer(t, { initialFrames: initial(0) });
    const requests = Array.from({ length: WAITING }, (_, at) => give(2 * at + 1, 1024 * 1024));
    const all = Buffer.concat(requests);
    await server.withstand(t, BOUND, async () => attack(await ready(), all));
  });

  await t.test("a client that widens windows as it measures its bandwidth is honest", async (t) => {
    const peer = await server.peer(t, { initialFrames: initial(0) });
    await peer.send(peer.onNewStreams(WAITING, (id) => give(id, EACH_BYTES)));
    for (let window = 64; window < 2 ** 24; window *= 2) await peer.send(initial(window));
    await peer.send(windowUpdate(0, WAITING * EACH_BYTES));
    await peer.bytes(WAITING * (EACH_BYTES + MESSAGE_HEAD));
    assert.equal(grpcStatus(await peer.outcome(peer.lastStream)), "0");
  });
});

/** An in-memory peer of a service whose replies are as long as requested. */
async function connectPeer(t: TestContext, initialFrames: Buffer) {
  const service: GrpcService = {
    name: "test.Target",
    methods: {
      Give: { kind: "unary", handle: (bytes) => new Uint8Array(Number(Buffer.from(bytes))) },
      Say: { kind: "unary", handle: (bytes) => bytes },
    },
  };
  const { clock, connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect(initialFrames);
  t.after(() => peer.socket.destroy());
  const got = (id: number) => peer.of(DATA, id).reduce((sum, is) => sum + is.payload.length, 0);
  return { clock, peer, faults, got };
}

test("replies that wait for the connection window continue in turn", async (t) => {
  const { peer, got } = await connectPeer(t, initial(2 ** 31 - 1));
  // With its prefix the first reply uses up the window.
  await peer.send(give(1, FIRST_WINDOW - MESSAGE_HEAD), ...[3, 5, 7].map((id) => give(id, 1_000)));
  assert.deepEqual([1, 3, 5, 7].map(got), [FIRST_WINDOW, 0, 0, 0]);
  await peer.send(repeated(windowUpdate(0, 1), 30));
  // The first waiting piece of a reply is its prefix; after it the reply continues with its message.
  assert.deepEqual([3, 5, 7].map(got), [10, 10, 10]);
  await peer.send(windowUpdate(0, 3_000));
  assert.deepEqual([3, 5, 7].map(got), [1_005, 1_005, 1_005]);
});

test("a reply that waits for both windows continues when both are open, in either order", async (t) => {
  const { peer, got } = await connectPeer(t, initial(FIRST_WINDOW));
  const whole = 10 + MESSAGE_HEAD;
  await peer.send(give(1, FIRST_WINDOW - MESSAGE_HEAD), initial(0), give(3, 10), give(5, 10));
  await peer.send(windowUpdate(3, whole), windowUpdate(0, 2 * whole));
  assert.deepEqual([3, 5].map(got), [whole, 0]);
  await peer.send(windowUpdate(5, whole));
  assert.deepEqual([3, 5].map(got), [whole, whole]);
  // Both windows are used up. The stream's own window opens and closes without taking the turn of others.
  await peer.send(give(7, 10), give(9, 10), initial(1), initial(0), windowUpdate(9, whole));
  await peer.send(windowUpdate(0, whole));
  assert.deepEqual([7, 9].map(got), [0, whole]);
  await peer.send(windowUpdate(7, whole), windowUpdate(0, whole));
  assert.equal(got(7), whole);
});

/** A call that is answered with UNIMPLEMENTED as soon as its field block arrives. */
const nowhere = block(grpcFields("/test.Nobody/Nothing"));
const trailers = (id: number) => headers(id, block([["x-sum", "1"]]), END_HEADERS | END_STREAM);
const codes = (peer: MemoryPeer, id: number) =>
  peer.of(RST_STREAM, id).map(({ payload }) => payload.readUInt32BE(0));
const [NO_ERROR, PROTOCOL_ERROR, STREAM_CLOSED] = [0, 1, 5];

test("remembers how streams ended by the order of their ends, not of their ids", async (t) => {
  const { clock, peer, faults } = await connectPeer(t, settings());
  // The first stream is answered early and reset much later; the last id is a whole ring buffer away.
  await peer.send(headers(1, nowhere));
  const last = 1 + 2 * CLOSED_STREAM_HISTORY;
  for (let id = 3; id < last; id += 2) await peer.send(call(id, SAY));
  await peer.send(headers(last, block([[":method", "GET"]])));
  assert.deepEqual(codes(peer, last), [PROTOCOL_ERROR]);
  clock.advance(2_000);
  await turns();
  assert.deepEqual(codes(peer, 1), [NO_ERROR]);
  // Frames in flight when the streams were reset.
  await peer.send(trailers(last), trailers(1), ping());
  assert.deepEqual(peer.of(GOAWAY), []);
  assert.equal(peer.of(PING).length, 1);
  assert.deepEqual(faults, ["malformed_request"]);
  // Once the peer has seen the end, such frames are a fault.
  await peer.send(reset(1), trailers(1));
  assert.equal(peer.of(GOAWAY)[0]?.payload.readUInt32BE(4), STREAM_CLOSED);
});
