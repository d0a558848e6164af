// What is counted as kept for peers while it is, and no longer: the part of the pool that is left to those who hold
// little, what peers have taken meanwhile, what was broken off; and who has failed is kept waiting, not listened to.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Shared } from "#serve/h2/connection.ts";
import {
  CALL_HELD,
  HELD_FOR_LITTLE,
  LINGER_MS,
  LITTLE_HELD,
  MAX_HEADER_LIST,
  MAX_HELD,
  MAX_HELD_IN_ALL,
} from "#serve/h2/limits.ts";
import type { Service } from "#serve/handler.ts";
import {
  CODES,
  CONTINUATION,
  call,
  DATA,
  data,
  END_HEADERS,
  END_STREAM,
  FULL,
  frame,
  GOAWAY,
  grpcFields,
  HEADERS,
  headers,
  message,
  ping,
  RST_STREAM,
  repeated,
  reset,
  settings,
  windowUpdate,
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { type MemoryPeer, memoryServer, turns } from "../../kit/memory-peer.ts";

const KB = 1024;
const MB = 1024 * KB;
const SAY = "/test.Released/Say";
const GIVE = "/test.Released/Give";
const FLOW = "/test.Released/Flow";
const INITIAL_WINDOW = 4;
const NO_WINDOW = settings([INITIAL_WINDOW, 0]);
const SWEEP_MS = 1_000;
const PREFIX = 5;
/** Far more than one peer may have kept for it. */
const FLOWING = 2 * MAX_HELD;

const service: Service = {
  name: "test.Released",
  healthNames: [],
  methods: {
    Say: { kind: "unary", handle: (bytes) => bytes },
    /** So many bytes. */
    Give: { kind: "unary", handle: (bytes) => new Uint8Array(Number(Buffer.from(bytes))) },
    /** Messages of so many bytes. */
    Flow: {
      kind: "stream",
      client: false,
      server: true,
      handle: async (stream) => {
        for await (const asked of stream.messages) {
          const piece = new Uint8Array(Number(Buffer.from(asked)));
          for (let sent = 0; sent < FLOWING; sent += piece.length) await stream.send(piece);
        }
      },
    },
  },
};

/** A service whose handlers work until they are let go. */
function atWork() {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const unary: Service = {
    name: "test.Work",
    healthNames: [],
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
      /** A reply, and then work that nobody can end. */
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

async function begin(t: TestContext, ...more: readonly Service[]) {
  const server = memoryServer([service, ...more]);
  t.after(() => server.transport.cut());
  const connect = async (greeting?: Buffer) => {
    const peer = await server.connect(greeting);
    t.after(() => peer.socket.destroy());
    return peer;
  };
  // There is no other look at what all connections share.
  const shared = server.transport as unknown as Shared;
  return { ...server, connect, shared, held: () => heldIn(shared) };
}

/** Bytes that are held by all, found out by holding some more; below 0 when more was released than held. */
function heldIn(shared: Shared): number {
  let [least, most] = [0, 2 * MAX_HELD_IN_ALL];
  while (least < most) {
    const more = Math.ceil((least + most) / 2);
    if (shared.hold(more, true)) {
      shared.release(more);
      least = more;
    } else most = more - 1;
  }
  return MAX_HELD_IN_ALL - least;
}

const codeOf = (payload: Buffer | undefined, at: number) =>
  payload === undefined ? undefined : CODES[payload.readUInt32BE(at)];
const goAway = (peer: MemoryPeer) => codeOf(peer.of(GOAWAY)[0]?.payload, 4);
const answered = (peer: MemoryPeer, id: number) =>
  peer.of(HEADERS, id).some(({ flags }) => (flags & END_STREAM) !== 0);
const ids = (count: number) => Array.from({ length: count }, (_, at) => 2 * at + 1);

/** Asks for so many replies of so many bytes, of which the peer takes nothing. */
const asks = (count: number, bytes: number, from = 0) =>
  ids(count).map((id) => call(from + id, GIVE, Buffer.from(String(bytes))));

/** The beginning of a header block that needs a frame more, of no more bytes than a block may have. */
function unfinished(id: number): Buffer {
  const part = Buffer.alloc(FULL);
  const more = 2 * (MAX_HEADER_LIST / FULL) - 2;
  const parts = repeated(frame(CONTINUATION, 0, id, part), more);
  return Buffer.concat([headers(id, part, 0), parts]);
}

test("the greedy, however many, leave room for those who hold little", async (t) => {
  const { connect, faults, held } = await begin(t);
  const most = MAX_HELD_IN_ALL - HELD_FOR_LITTLE;
  for (let greedy = 0; greedy * MAX_HELD < MAX_HELD_IN_ALL; greedy++) {
    const peer = await connect(NO_WINDOW);
    // Ever smaller ones, so that what is left is little.
    await peer.send(...asks(7, MB), ...asks(60, 16 * KB, 100), ...asks(200, KB, 300));
  }
  assert.ok(faults.includes("too_many_bytes"));
  const little = (MAX_HELD_IN_ALL / MAX_HELD) * LITTLE_HELD;
  assert.ok(held() > most - 64 * KB && held() <= most + little, `${held()} bytes`);

  const refusals = faults.length;
  const text = Buffer.alloc(LITTLE_HELD / 4, "honest");
  const whole = message(text);
  for (let honest = 0; honest < 20; honest++) {
    const peer = await connect();
    await peer.send(headers(1, block(grpcFields(SAY))), data(1, whole.subarray(0, FULL)));
    await peer.send(data(1, whole.subarray(FULL, 2 * FULL)));
    await peer.send(data(1, whole.subarray(2 * FULL), END_STREAM));
    assert.ok(answered(peer, 1));
    const reply = Buffer.concat(peer.of(DATA, 1).map(({ payload }) => payload));
    assert.ok(reply.equals(whole));
  }
  assert.equal(faults.length, refusals);
});

test("those who hold little have their part, too, and none beyond it", async (t) => {
  const { connect, faults, shared, held } = await begin(t);
  const most = MAX_HELD_IN_ALL - HELD_FOR_LITTLE;
  assert.equal(shared.hold(most, false), true);
  const little = asks(6, LITTLE_HELD / 8);
  const peer = await connect(NO_WINDOW);
  await peer.send(...little);
  assert.deepEqual(faults, []);
  assert.ok(held() > most + 6 * (LITTLE_HELD / 8));
  // With this it is one of the greedy.
  await peer.send(...asks(1, LITTLE_HELD / 2, 100));
  assert.deepEqual(faults, ["too_many_bytes"]);

  shared.hold(MAX_HELD_IN_ALL - held(), true);
  const late = await connect(NO_WINDOW);
  await late.send(...asks(1, KB));
  assert.equal(codeOf(late.of(RST_STREAM, 1)[0]?.payload, 0), "ENHANCE_YOUR_CALM");
});

for (const [how, piece, step] of [
  ["message by message", 64 * KB, 64 * KB + PREFIX],
  ["in steps that part messages", 48 * KB, 32 * KB],
] as const) {
  test(`what a peer has taken of a stream counts no longer, ${how}`, async (t) => {
    const { connect, faults, held } = await begin(t);
    const peer = await connect(Buffer.concat([NO_WINDOW, windowUpdate(0, 2 ** 30)]));
    await peer.send(call(1, FLOW, Buffer.from(String(piece))));
    // A whole message and the call: there is never more.
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
  test(`what a handler works with counts until it is done, whoever left: ${kind}`, async (t) => {
    const work = atWork();
    const { connect, faults, held } = await begin(t, work.service);
    const whole = message(Buffer.alloc(MB / 8));
    const head = block(grpcFields(`/test.Work/${kind}`));
    const take = async (peer: MemoryPeer, id: number) => {
      const frames = [headers(id, head)];
      for (let at = 0; at < whole.length; at += FULL)
        frames.push(data(id, whole.subarray(at, at + FULL)));
      await peer.send(...frames, data(id, Buffer.alloc(0), END_STREAM));
    };
    const wide = Buffer.concat([settings(), windowUpdate(0, 2 ** 30)]);
    const peer = await connect(wide);
    for (const id of ids(4)) {
      await take(peer, id);
      await peer.send(reset(id));
    }
    assert.ok(held() > 4 * whole.length, `${held()} bytes: the calls are gone, their work is not`);
    const other = await connect(wide);
    await take(other, 1);
    other.socket.destroy();
    await turns();
    assert.ok(held() > 5 * whole.length, "nor is that of a connection that is gone");

    for (let id = 9; faults.length === 0 && id < 200; id += 2) {
      await take(peer, id);
      await peer.send(reset(id));
    }
    assert.deepEqual(faults, ["too_many_bytes"], "it is bounded");
    assert.ok(held() <= MAX_HELD + whole.length + LITTLE_HELD);
    work.release();
    await turns();
    assert.equal(held(), 0);
  });
}

test("a reply that waits counts when its handler is done, too", async (t) => {
  const work = atWork();
  const { connect, held } = await begin(t, work.service);
  const peer = await connect(NO_WINDOW);
  await peer.send(call(1, "/test.Work/Unary", Buffer.alloc(10 * KB)));
  work.release();
  await turns();
  assert.ok(held() > 10 * KB, `${held()} bytes`);
  await peer.send(windowUpdate(1, 20 * KB));
  assert.ok(answered(peer, 1));
  assert.equal(held(), 0);
});

test("a reply that waits counts no longer when its caller has left, though its handler works on", async (t) => {
  const work = atWork();
  const { connect, held } = await begin(t, work.service);
  const peer = await connect(NO_WINDOW);
  await peer.send(call(1, "/test.Work/Sends", Buffer.alloc(10 * KB)));
  const both = held();
  assert.ok(both > 20 * KB, `${both} bytes: what it works with, and what waits`);
  await peer.send(reset(1));
  assert.equal(held(), both - (10 * KB + PREFIX));
  work.release();
  await turns();
  assert.equal(held(), 0);
});

test("a call that was taken back at once counts while its handler works", async (t) => {
  const work = atWork();
  const { connect, held } = await begin(t, work.service);
  const peer = await connect();
  const calls = 50;
  await peer.send(
    ...ids(calls).flatMap((id) => [call(id, "/test.Work/Unary", Buffer.alloc(KB)), reset(id)]),
  );
  assert.ok(held() > calls * (KB + CALL_HELD), `${held()} bytes`);
  work.release();
  await turns();
  assert.equal(held(), 0);
});

test("header blocks that are not whole end their connection where there is no room", async (t) => {
  const { connect, faults, shared, held } = await begin(t);
  const room = MB;
  const size = unfinished(1).length;
  shared.hold(MAX_HELD_IN_ALL - room, true);
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
  assert.equal(held(), MAX_HELD_IN_ALL - room, "what others hold");
});

const ends: Readonly<Record<string, (peer: MemoryPeer) => unknown>> = {
  "the peer vanishes": (peer) => peer.socket.destroy(),
  "the peer closes": (peer) => peer.socket.push(null),
  "another frame comes": (peer) => peer.send(ping()),
  "its block becomes too large": (peer) =>
    peer.send(repeated(frame(CONTINUATION, 0, 1, Buffer.alloc(FULL)), 2)),
  "it does not decode": (peer) =>
    peer.send(frame(CONTINUATION, END_HEADERS, 1, Buffer.from([0x80]))),
};

for (const [how, end] of Object.entries(ends)) {
  test(`a header block that was broken off counts no longer: ${how}`, async (t) => {
    const { connect, held, clock } = await begin(t);
    for (let times = 1; times <= 20; times++) {
      const peer = await connect();
      await peer.send(unfinished(1));
      assert.ok(held() > LITTLE_HELD / 2, "it counts");
      end(peer);
      await turns();
      clock.advance(LINGER_MS);
      await turns();
      assert.equal(peer.socket.destroyed, true);
      assert.equal(held(), 0, `after ${times}`);
    }
  });
}

test("who has failed is not read from any more, and let go soon", async (t) => {
  const { connect, clock, faults } = await begin(t);
  const peer = await connect();
  await peer.send(data(1, message()));
  assert.equal(goAway(peer), "PROTOCOL_ERROR");
  const flood = repeated(ping(), 1_000);
  await peer.send(flood);
  assert.equal(peer.socket.readableLength, flood.length, "it waits where it slows its sender down");
  clock.advance(LINGER_MS - 1);
  await peer.send(flood);
  assert.equal(peer.socket.readableLength, 2 * flood.length);
  assert.equal(peer.socket.destroyed, false, "it may still read why");
  clock.advance(1);
  await turns();
  assert.equal(peer.socket.destroyed, true);
  assert.deepEqual(faults, ["protocol"]);
});

test("memory that a peer took late is shared again, even if it says nothing more", async (t) => {
  const { connect, clock, shared } = await begin(t);
  const peers = await Promise.all(Array.from({ length: 10 }, () => connect()));
  const taken = t.mock.method(shared.chunks, "take").mock;
  const given = t.mock.method(shared.chunks, "giveBack").mock;
  const lent = () => taken.callCount() - given.callCount();
  for (const peer of peers) {
    peer.socket.allow(0);
    await peer.send(call(1, SAY));
  }
  assert.equal(lent(), peers.length);
  clock.advance(SWEEP_MS);
  assert.equal(lent(), peers.length, "what waits is not given to others");
  for (const { socket } of peers) socket.allow(Number.POSITIVE_INFINITY);
  await turns();
  for (const peer of peers) assert.ok(answered(peer, 1));
  clock.advance(SWEEP_MS);
  assert.equal(lent(), 0);
});
