// Accounting of buffered memory: bytes count against the pool exactly as long as they are buffered, part of the pool
// is reserved for connections that hold little, and a connection that failed is no longer read.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { GrpcService } from "#base/handler.ts";
import type { ConnectionContext } from "#h2/connection/connection.ts";
import {
  BUFFERED_PER_CALL,
  LINGER_MS,
  MAX_BUFFERED_PER_CONNECTION,
  MAX_BUFFERED_TOTAL,
  MAX_CONCURRENT_CALLS,
  MAX_HEADER_LIST_SIZE,
  MAX_LIGHT_CONNECTION,
  RESERVED_FOR_LIGHT_CONNECTIONS,
} from "#h2/limits.ts";
import {
  ACK,
  CODES,
  CONTINUATION,
  call,
  DATA,
  data,
  END_HEADERS,
  END_STREAM,
  frame,
  GOAWAY,
  grpcFields,
  HEADERS,
  headers,
  MAX_FRAME_SIZE,
  message,
  ping,
  RST_STREAM,
  repeated,
  reset,
  SETTINGS,
  settings,
  windowUpdate,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { type MemoryPeer, memoryServer, turns } from "../../kit/clients/memory-peer.ts";
import { until } from "../../kit/until.ts";

const KB = 1024;
const MB = 1024 * KB;
const SAY = "/test.Released/Say";
const GIVE = "/test.Released/Give";
const FLOW = "/test.Released/Flow";
const INITIAL_WINDOW = 4;
const NO_WINDOW = settings([INITIAL_WINDOW, 0]);
const SWEEP_MS = 1_000;
const PREFIX = 5;
/** Far more than one connection may have buffered. */
const FLOWING = 2 * MAX_BUFFERED_PER_CONNECTION;

const service: GrpcService = {
  name: "test.Released",
  methods: {
    Say: { kind: "unary", handle: (bytes) => bytes },
    /** Returns as many bytes as the message says. */
    Give: { kind: "unary", handle: (bytes) => new Uint8Array(Number(Buffer.from(bytes))) },
    /** For each message, sends pieces of as many bytes as it says. */
    Flow: {
      kind: "stream",
      client: false,
      server: true,
      handle: async (stream) => {
        for await (const size of stream.messages) {
          const piece = new Uint8Array(Number(Buffer.from(size)));
          for (let sent = 0; sent < FLOWING; sent += piece.length) await stream.send(piece);
        }
      },
    },
  },
};

/** A service whose handlers work until the test releases them. */
function atWork() {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const unary: GrpcService = {
    name: "test.Work",
    methods: {
      Unary: { kind: "unary", handle: (bytes) => released.then(() => bytes) },
      Streamed: {
        kind: "stream",
        client: true,
        server: false,
        handle: async (stream) => {
          for await (const _ of stream.messages) await released;
        },
      },
      /** Sends a reply and then works until released, whatever happens to the call. */
      Sends: {
        kind: "stream",
        client: false,
        server: true,
        handle: async (stream) => {
          for await (const message of stream.messages) {
            void stream.send(message);
            await released;
          }
        },
      },
    },
  };
  return { service: unary, release };
}

async function startServer(t: TestContext, ...more: readonly GrpcService[]) {
  const server = memoryServer([service, ...more]);
  t.after(() => server.transport.cut());
  const connect = async (initialFrames?: Buffer) => {
    const peer = await server.connect(initialFrames);
    t.after(() => peer.socket.destroy());
    return peer;
  };
  // The shared state of all connections is not visible in any other way.
  const shared = server.transport as unknown as ConnectionContext;
  return { ...server, connect, shared, held: () => heldIn(shared) };
}

/**
 * Bytes buffered for all connections, determined by reserving the rest of the pool; negative if more was released
 * than reserved.
 */
function heldIn(shared: ConnectionContext): number {
  let [least, most] = [0, 2 * MAX_BUFFERED_TOTAL];
  while (least < most) {
    const more = Math.ceil((least + most) / 2);
    if (shared.reserve(more, true)) {
      shared.release(more);
      least = more;
    } else most = more - 1;
  }
  return MAX_BUFFERED_TOTAL - least;
}

const codeOf = (payload: Buffer | undefined, at: number) =>
  payload === undefined ? undefined : CODES[payload.readUInt32BE(at)];
const goAway = (peer: MemoryPeer) => codeOf(peer.of(GOAWAY)[0]?.payload, 4);
const answered = (peer: MemoryPeer, id: number) =>
  peer.of(HEADERS, id).some(({ flags }) => (flags & END_STREAM) !== 0);
const ids = (count: number) => Array.from({ length: count }, (_, at) => 2 * at + 1);

/** Requests this many replies of this many bytes, none of which the peer can receive. */
const asks = (count: number, bytes: number, from = 0) =>
  ids(count).map((id) => call(from + id, GIVE, Buffer.from(String(bytes))));

/** The largest permitted beginning of a field block, without END_HEADERS. */
function unfinished(id: number): Buffer {
  const part = Buffer.alloc(MAX_FRAME_SIZE);
  const more = 2 * (MAX_HEADER_LIST_SIZE / MAX_FRAME_SIZE) - 2;
  const parts = repeated(frame(CONTINUATION, 0, id, part), more);
  return Buffer.concat([headers(id, part, 0), parts]);
}

test("connections that hold much, however many, leave space for those that hold little", async (t) => {
  const { connect, faults, held } = await startServer(t);
  const most = MAX_BUFFERED_TOTAL - RESERVED_FOR_LIGHT_CONNECTIONS;
  for (let greedy = 0; greedy * MAX_BUFFERED_PER_CONNECTION < MAX_BUFFERED_TOTAL; greedy++) {
    const peer = await connect(NO_WINDOW);
    // Ever smaller replies, so that little space is left.
    await peer.send(...asks(7, MB), ...asks(60, 16 * KB, 100), ...asks(200, KB, 300));
  }
  assert.ok(faults.includes("too_many_bytes"));
  const little = (MAX_BUFFERED_TOTAL / MAX_BUFFERED_PER_CONNECTION) * MAX_LIGHT_CONNECTION;
  assert.ok(held() > most - 64 * KB && held() <= most + little, `${held()} bytes`);

  const refusals = faults.length;
  const text = Buffer.alloc(MAX_LIGHT_CONNECTION / 4, "honest");
  const whole = message(text);
  for (let honest = 0; honest < 20; honest++) {
    const peer = await connect();
    await peer.send(headers(1, block(grpcFields(SAY))), data(1, whole.subarray(0, MAX_FRAME_SIZE)));
    await peer.send(data(1, whole.subarray(MAX_FRAME_SIZE, 2 * MAX_FRAME_SIZE)));
    await peer.send(data(1, whole.subarray(2 * MAX_FRAME_SIZE), END_STREAM));
    assert.ok(answered(peer, 1));
    const reply = Buffer.concat(peer.of(DATA, 1).map(({ payload }) => payload));
    assert.ok(reply.equals(whole));
  }
  assert.equal(faults.length, refusals);
});

test("connections that hold little have a reserved part of the pool and no more", async (t) => {
  const { connect, faults, shared, held } = await startServer(t);
  const most = MAX_BUFFERED_TOTAL - RESERVED_FOR_LIGHT_CONNECTIONS;
  assert.equal(shared.reserve(most, false), true);
  const little = asks(6, MAX_LIGHT_CONNECTION / 8);
  const peer = await connect(NO_WINDOW);
  await peer.send(...little);
  assert.deepEqual(faults, []);
  assert.ok(held() > most + 6 * (MAX_LIGHT_CONNECTION / 8));
  // With this it holds too much for the reserved part.
  await peer.send(...asks(1, MAX_LIGHT_CONNECTION / 2, 100));
  assert.deepEqual(faults, ["too_many_bytes"]);

  shared.reserve(MAX_BUFFERED_TOTAL - held(), true);
  const late = await connect(NO_WINDOW);
  await late.send(...asks(1, KB));
  assert.equal(codeOf(late.of(RST_STREAM, 1)[0]?.payload, 0), "ENHANCE_YOUR_CALM");
});

for (const [how, piece, step] of [
  ["message by message", 64 * KB, 64 * KB + PREFIX],
  ["in steps that split messages", 48 * KB, 32 * KB],
] as const) {
  test(`releases what a peer has received of a stream, ${how}`, async (t) => {
    const { connect, faults, held } = await startServer(t);
    const peer = await connect(Buffer.concat([NO_WINDOW, windowUpdate(0, 2 ** 30)]));
    await peer.send(call(1, FLOW, Buffer.from(String(piece))));
    // One message and the call: there is never more.
    const most = held();
    assert.ok(most >= piece + PREFIX && most < 2 * piece, `${most} bytes`);
    let steps = 0;
    for (; !answered(peer, 1) && steps < 2_000; steps++) {
      assert.ok(held() <= most, `step ${steps}: ${held()} bytes`);
      await peer.send(windowUpdate(1, step));
    }
    assert.ok(answered(peer, 1));
    assert.ok(steps * step >= FLOWING);
    assert.equal(held(), 0);
    assert.deepEqual(faults, []);
  });
}

for (const kind of ["Unary", "Streamed"]) {
  test(`counts what a handler works with until it is done, even if the caller has left: ${kind}`, async (t) => {
    const work = atWork();
    const { connect, faults, held } = await startServer(t, work.service);
    const whole = message(Buffer.alloc(MB / 8));
    const head = block(grpcFields(`/test.Work/${kind}`));
    const take = async (peer: MemoryPeer, id: number) => {
      const frames = [headers(id, head)];
      for (let at = 0; at < whole.length; at += MAX_FRAME_SIZE)
        frames.push(data(id, whole.subarray(at, at + MAX_FRAME_SIZE)));
      await peer.send(...frames, data(id, Buffer.alloc(0), END_STREAM));
    };
    const wide = Buffer.concat([settings(), windowUpdate(0, 2 ** 30)]);
    const peer = await connect(wide);
    for (const id of ids(4)) {
      await take(peer, id);
      await peer.send(reset(id));
    }
    assert.ok(
      held() > 4 * whole.length,
      `${held()} bytes: the calls have ended, their handlers have not`,
    );
    const other = await connect(wide);
    await take(other, 1);
    other.socket.destroy();
    await turns();
    assert.ok(held() > 5 * whole.length, "the handlers of a closed connection count, too");

    for (let id = 9; faults.length === 0 && id < 200; id += 2) {
      await take(peer, id);
      await peer.send(reset(id));
    }
    assert.deepEqual(faults, ["too_many_bytes"], "the total is limited");
    assert.ok(held() <= MAX_BUFFERED_PER_CONNECTION + whole.length + MAX_LIGHT_CONNECTION);
    work.release();
    await turns();
    assert.equal(held(), 0);
  });
}

test("a peer with more calls in flight than fit is told how many it may have, and makes the others again", async (t) => {
  const work = atWork();
  const { connect, faults, held } = await startServer(t, work.service);
  const peer = await connect(Buffer.concat([settings(), windowUpdate(0, 2 ** 30)]));
  const make = (id: number) => call(id, "/test.Work/Streamed", Buffer.alloc(8 * KB));
  const all = ids(MAX_CONCURRENT_CALLS);
  const most = () =>
    peer
      .of(SETTINGS)
      .flatMap(({ flags, payload }) =>
        (flags & ACK) === 0 && payload.length === 6 ? [payload.readUInt32BE(2)] : [],
      );
  for (const id of all) await peer.send(make(id));
  const refused = all.filter((id) => peer.of(RST_STREAM, id).length > 0);
  const codes = refused.map((id) => codeOf(peer.of(RST_STREAM, id)[0]?.payload, 0));
  assert.deepEqual([...new Set(codes)], ["REFUSED_STREAM"]);
  const open = MAX_CONCURRENT_CALLS - refused.length;
  assert.ok(open >= 500, `${open} calls fit`);
  assert.deepEqual(most(), [open]);
  assert.deepEqual([...new Set(faults)], ["too_many_bytes"]);

  work.release();
  await until("it may have as many as usual", () => most().length > 1);
  assert.deepEqual(most(), [open, MAX_CONCURRENT_CALLS]);
  const again = refused.map((id) => id + 2 * MAX_CONCURRENT_CALLS);
  for (const id of again) await peer.send(make(id));
  const taken = [...all.filter((id) => !refused.includes(id)), ...again];
  await until("all calls are answered", () => taken.every((id) => answered(peer, id)));
  assert.equal(goAway(peer), undefined);
  assert.equal(held(), 0);
});

test("counts a waiting reply after its handler is done", async (t) => {
  const work = atWork();
  const { connect, held } = await startServer(t, work.service);
  const peer = await connect(NO_WINDOW);
  await peer.send(call(1, "/test.Work/Unary", Buffer.alloc(10 * KB)));
  work.release();
  await turns();
  assert.ok(held() > 10 * KB, `${held()} bytes`);
  await peer.send(windowUpdate(1, 20 * KB));
  assert.ok(answered(peer, 1));
  assert.equal(held(), 0);
});

test("releases a waiting reply when its caller has left, although its handler still works", async (t) => {
  const work = atWork();
  const { connect, held } = await startServer(t, work.service);
  const peer = await connect(NO_WINDOW);
  await peer.send(call(1, "/test.Work/Sends", Buffer.alloc(10 * KB)));
  const both = held();
  assert.ok(both > 20 * KB, `${both} bytes: the handler's message and the waiting reply`);
  await peer.send(reset(1));
  assert.equal(held(), both - (10 * KB + PREFIX));
  work.release();
  await turns();
  assert.equal(held(), 0);
});

test("counts a call that was cancelled at once while its handler works", async (t) => {
  const work = atWork();
  const { connect, held } = await startServer(t, work.service);
  const peer = await connect();
  const calls = 50;
  await peer.send(
    ...ids(calls).flatMap((id) => [call(id, "/test.Work/Unary", Buffer.alloc(KB)), reset(id)]),
  );
  assert.ok(held() > calls * (KB + BUFFERED_PER_CALL), `${held()} bytes`);
  work.release();
  await turns();
  assert.equal(held(), 0);
});

test("ends the connection of an incomplete field block when the pool is full", async (t) => {
  const { connect, faults, shared, held } = await startServer(t);
  const room = MB;
  const size = unfinished(1).length;
  shared.reserve(MAX_BUFFERED_TOTAL - room, true);
  const peers: MemoryPeer[] = [];
  for (let begun = 0; begun < (2 * room) / size; begun++) {
    const peer = await connect();
    peers.push(peer);
    await peer.send(unfinished(1));
  }
  const fit = Math.floor(room / size);
  for (const peer of peers.slice(0, fit)) assert.equal(goAway(peer), undefined);
  for (const peer of peers.slice(fit)) assert.equal(goAway(peer), "ENHANCE_YOUR_CALM");
  assert.deepEqual(faults, Array(peers.length - fit).fill("too_many_bytes"));
  for (const { socket } of peers) socket.destroy();
  await turns();
  assert.equal(held(), MAX_BUFFERED_TOTAL - room, "only what others hold is left");
});

const ends: Readonly<Record<string, (peer: MemoryPeer) => unknown>> = {
  "the peer vanishes": (peer) => peer.socket.destroy(),
  "the peer closes": (peer) => peer.socket.push(null),
  "another frame arrives": (peer) => peer.send(ping()),
  "the block becomes too large": (peer) =>
    peer.send(repeated(frame(CONTINUATION, 0, 1, Buffer.alloc(MAX_FRAME_SIZE)), 2)),
  "the block does not decode": (peer) =>
    peer.send(frame(CONTINUATION, END_HEADERS, 1, Buffer.from([0x80]))),
};

for (const [how, end] of Object.entries(ends)) {
  test(`releases an unfinished field block when ${how}`, async (t) => {
    const { connect, held, clock } = await startServer(t);
    for (let times = 1; times <= 20; times++) {
      const peer = await connect();
      await peer.send(unfinished(1));
      assert.ok(held() > MAX_LIGHT_CONNECTION / 2, "the block is counted");
      end(peer);
      await turns();
      clock.advance(LINGER_MS);
      await turns();
      assert.equal(peer.socket.destroyed, true);
      assert.equal(held(), 0, `after ${times}`);
    }
  });
}

test("stops reading from a connection that failed and closes it soon", async (t) => {
  const { connect, clock, faults } = await startServer(t);
  const peer = await connect();
  await peer.send(data(1, message()));
  assert.equal(goAway(peer), "PROTOCOL_ERROR");
  const flood = repeated(ping(), 1_000);
  await peer.send(flood);
  assert.equal(peer.socket.readableLength, flood.length, "unread bytes slow the sender down");
  clock.advance(LINGER_MS - 1);
  await peer.send(flood);
  assert.equal(peer.socket.readableLength, 2 * flood.length);
  assert.equal(peer.socket.destroyed, false, "the peer may still read the GOAWAY");
  clock.advance(1);
  await turns();
  assert.equal(peer.socket.destroyed, true);
  assert.deepEqual(faults, ["protocol"]);
});

test("returns chunks that a slow peer received late to the pool, even if it sends nothing more", async (t) => {
  const { connect, clock, shared } = await startServer(t);
  const peers = await Promise.all(Array.from({ length: 10 }, () => connect()));
  const taken = t.mock.method(shared.chunkPool, "acquire").mock;
  const given = t.mock.method(shared.chunkPool, "release").mock;
  const lent = () => taken.callCount() - given.callCount();
  for (const peer of peers) {
    peer.socket.acceptBytes(0);
    await peer.send(call(1, SAY));
  }
  assert.equal(lent(), peers.length);
  clock.advance(SWEEP_MS);
  assert.equal(lent(), peers.length, "chunks that still wait are not given to others");
  for (const { socket } of peers) socket.acceptBytes(Number.POSITIVE_INFINITY);
  await turns();
  for (const peer of peers) assert.ok(answered(peer, 1));
  clock.advance(SWEEP_MS);
  assert.equal(lent(), 0);
});
