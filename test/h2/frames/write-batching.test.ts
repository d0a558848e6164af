// Writes to the socket: one for each turn of the event loop as far as one chunk holds the output, and at most a fixed
// share for each connection and turn, so that other connections get theirs.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { GrpcService } from "#base/handler.ts";
import { MAX_BYTES_PER_TURN } from "#h2/limits.ts";
import {
  call,
  DATA,
  END_HEADERS,
  END_STREAM,
  grpcFields,
  HEADERS,
  headers,
  MAX_FRAME_SIZE,
  settings,
  windowUpdate,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { type MemoryPeer, memoryServer, turns } from "../../kit/clients/memory-peer.ts";

const KB = 1024;
const MB = 1024 * KB;
/** Most bytes of one write. */
const CHUNK = 64 * KB;
const INITIAL_WINDOW = 4;
const WIDE = Buffer.concat([settings([INITIAL_WINDOW, 2 ** 31 - 1]), windowUpdate(0, 2 ** 30)]);
const SAY = "/test.Writes/Say";
const LATER = "/test.Writes/Later";
const GIVE = "/test.Writes/Give";
const FLOW = "/test.Writes/Flow";
const FLOWING = 16 * MB;

async function startServer(t: TestContext) {
  const waiting: (() => void)[] = [];
  const service: GrpcService = {
    name: "test.Writes",
    methods: {
      Say: { kind: "unary", handle: (bytes) => bytes },
      /** Returns the message when the test releases it. */
      Later: {
        kind: "unary",
        handle: (bytes) => {
          const copy = Uint8Array.from(bytes);
          return new Promise((resolve) => waiting.push(() => resolve(copy)));
        },
      },
      Give: { kind: "unary", handle: (bytes) => new Uint8Array(Number(Buffer.from(bytes))) },
      Flow: {
        kind: "stream",
        client: false,
        server: true,
        handle: async (stream) => {
          const piece = new Uint8Array(MAX_FRAME_SIZE);
          for (let sent = 0; sent < FLOWING; sent += MAX_FRAME_SIZE) await stream.send(piece);
        },
      },
    },
  };
  const { connect, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect(WIDE);
  t.after(() => peer.socket.destroy());
  return { peer, written: writesOf(t, peer), release: () => waiting.splice(0).map((go) => go()) };
}

/** Records the sizes of the writes to the server's socket from now on, turn by turn. */
function writesOf(t: TestContext, { socket }: MemoryPeer): readonly (readonly number[])[] {
  const writes: number[][] = [];
  let turn: number[] | undefined;
  const write = socket.write.bind(socket);
  t.mock.method(socket, "write", (bytes: Buffer) => {
    if (turn === undefined) {
      turn = [];
      writes.push(turn);
      setImmediate(() => {
        turn = undefined;
      });
    }
    turn.push(bytes.length);
    return write(bytes);
  });
  return writes;
}

const sum = (sizes: readonly number[]) => sizes.reduce((all, size) => all + size, 0);
const ids = (count: number) => Array.from({ length: count }, (_, at) => 2 * at + 1);
const answered = ({ frames }: MemoryPeer) =>
  frames.filter(({ type, flags }) => type === HEADERS && (flags & END_STREAM) !== 0).length;

test("sends the replies to all requests of a read in one write", async (t) => {
  const { peer, written } = await startServer(t);
  await peer.send(...ids(100).map((id) => call(id, SAY, Buffer.from("hello"))));
  assert.equal(answered(peer), 100);
  assert.deepEqual(
    written.map((turn) => turn.length),
    [1],
  );
});

test("sends replies of different kinds in one write", async (t) => {
  const { peer, written } = await startServer(t);
  const bad = headers(9, block([[":method", "GET"]]), END_HEADERS | END_STREAM);
  const nowhere = headers(11, block(grpcFields("/test.Nobody/Nothing")), END_HEADERS | END_STREAM);
  const small = [call(1, SAY), settings(), call(3, GIVE, Buffer.from("20000")), call(5, SAY)];
  await peer.send(...small, bad, nowhere, call(13, SAY));
  assert.equal(answered(peer), 5);
  assert.deepEqual(
    written.map((turn) => turn.length),
    [1],
  );
});

test("sends replies that exceed a chunk in as few writes as possible", async (t) => {
  const [count, size] = [40, 10 * KB];
  const { peer, written } = await startServer(t);
  await peer.send(...ids(count).map((id) => call(id, GIVE, Buffer.from(String(size)))));
  assert.equal(answered(peer), count);
  const [sizes = []] = written;
  assert.equal(written.length, 1);
  assert.equal(sizes.length, Math.ceil(sum(sizes) / CHUNK));
  assert.ok(sum(sizes) > count * size);
});

test("sends replies that become ready in the same turn in one write", async (t) => {
  const { peer, written, release } = await startServer(t);
  await peer.send(...ids(10).map((id) => call(id, LATER, Buffer.from("hello"))));
  assert.equal(written.length, 0, "something was written before any reply was ready");
  release();
  await turns();
  assert.equal(answered(peer), 10);
  assert.deepEqual(
    written.map((turn) => turn.length),
    [1],
  );
});

test("sends the replies of a read and those that become ready meanwhile in one write each", async (t) => {
  const { peer, written, release } = await startServer(t);
  await peer.send(...ids(10).map((id) => call(id, LATER)));
  release();
  await peer.send(
    ...ids(20)
      .slice(10)
      .map((id) => call(id, SAY)),
  );
  assert.equal(answered(peer), 20);
  assert.equal(written.flat().length, 2);
});

test("spreads replies that exceed the share of a turn over many turns, and sends all of them", async (t) => {
  const [count, size] = [7, MB];
  const { peer, written } = await startServer(t);
  await peer.send(...ids(count).map((id) => call(id, GIVE, Buffer.from(String(size)))));
  for (let more = 0; more < 2 * count; more++) await turns();
  assert.equal(answered(peer), count);
  for (const turn of written)
    assert.ok(sum(turn) <= MAX_BYTES_PER_TURN + 2 * CHUNK, `${sum(turn)} bytes`);
  assert.ok(written.length >= count, `${written.length} turns`);
  const got = ids(count).flatMap((id) => peer.of(DATA, id).map(({ payload }) => payload.length));
  assert.equal(sum(got), count * (size + 5));
});

test("an endless stream leaves part of each turn to others", async (t) => {
  const { peer, written } = await startServer(t);
  await peer.send(call(1, FLOW), call(3, FLOW));
  for (let more = 0; more < 40 && answered(peer) < 2; more++) await turns();
  assert.equal(answered(peer), 2);
  for (const turn of written)
    assert.ok(sum(turn) <= MAX_BYTES_PER_TURN + 2 * CHUNK, `${sum(turn)} bytes`);
});
