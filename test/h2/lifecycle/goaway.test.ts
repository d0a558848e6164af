// Graceful shutdown of a connection in two steps: a first GOAWAY asks for no more calls, calls that crossed it are
// still answered, a second one names the last stream, and replies in progress arrive complete however slowly they are
// read.

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import type { GrpcService, Route } from "#base/handler.ts";
import { ChunkPool, Output } from "#h2/frames/output.ts";
import { GOAWAY_DELAY_MS } from "#h2/limits.ts";
import { MAX_WORK_PER_TURN } from "#h2/read-scheduler.ts";
import {
  ACK,
  call,
  DATA,
  data,
  END_HEADERS,
  END_STREAM,
  frame,
  GOAWAY,
  grpcStatus,
  HEADERS,
  headers,
  httpFields,
  PING,
  ping,
  type RawPeer,
  RST_STREAM,
  rawPeer,
  repeated,
  settings,
  windowUpdate,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { memoryServer, PacedSocket, turns } from "../../kit/clients/memory-peer.ts";
import { fakeClock } from "../../kit/clock.ts";
import { testPort } from "../../kit/sluice/port.ts";

const KB = 1024;
const MB = 1024 * KB;
const SWEEP_MS = 1_000;
const NOT_NAMED = 2 ** 31 - 1;
const INITIAL_WINDOW = 4;
const WIDE = Buffer.concat([
  settings([INITIAL_WINDOW, NOT_NAMED]),
  windowUpdate(0, NOT_NAMED - 65_535),
]);
const BIG = Buffer.from(Uint8Array.from({ length: MB }, (_, at) => at % 251));
const SAY = "/test.Leaving/Say";
const HELLO = block(httpFields("GET", "/hello"));

function testServices() {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const service: GrpcService = {
    name: "test.Leaving",
    methods: {
      Say: { kind: "unary", handle: (bytes) => bytes },
      Big: { kind: "unary", handle: () => BIG },
      Hold: { kind: "unary", handle: () => held.then(() => new Uint8Array()) },
    },
  };
  const routes: readonly Route[] = [
    {
      method: "GET",
      path: "/hello",
      about: "",
      handle: () => ({ status: 200, headers: {}, body: "hello" }),
    },
  ];
  return { services: [service], routes, release };
}

const lastOf = ({ payload }: { readonly payload: Buffer }) => payload.readUInt32BE(0);
const goaways = (peer: RawPeer) => peer.frames.filter(({ type }) => type === GOAWAY);

test("a drain accepts the calls that cross it, names the last one, and ends after their replies", async (t) => {
  const { services, routes, release } = testServices();
  const port = await testPort(t, { services, routes, clock: fakeClock() });
  const peer = await rawPeer(t, port.address);
  const hold = peer.nextStream();
  await peer.send(call(hold, "/test.Leaving/Hold"));
  assert.equal(await peer.unary(SAY), "0");

  const drained = port.drain();
  const first = await peer.frame("GOAWAY", ({ type }) => type === GOAWAY);
  assert.equal(lastOf(first), NOT_NAMED);
  assert.equal(first.payload.readUInt32BE(4), 0);
  const ping = await peer.frame("PING", ({ type, flags }) => type === PING && flags === 0);

  assert.equal(await peer.unary(SAY), "0", "a gRPC call that crossed the first GOAWAY");
  const json = peer.nextStream();
  await peer.send(headers(json, HELLO, END_HEADERS | END_STREAM));
  assert.equal(
    (await peer.outcome(json)).head[":status"],
    "200",
    "a JSON request that crossed the first GOAWAY",
  );
  assert.equal(goaways(peer).length, 1, "the last stream is not named before the PING ACK");

  await peer.send(frame(PING, ACK, 0, ping.payload));
  const second = await peer.frame("GOAWAY", (is) => is.type === GOAWAY && is !== first);
  assert.equal(lastOf(second), json);
  assert.equal(second.payload.readUInt32BE(4), 0);

  const late = peer.nextStream();
  await peer.send(call(late, SAY));
  const ended = peer.nextStream();
  await peer.send(headers(ended, HELLO, END_HEADERS | END_STREAM), data(ended));
  await peer.pingRoundTrip();
  assert.equal(peer.ended, false, "a call in progress keeps the connection open");
  release();
  assert.equal(grpcStatus(await peer.outcome(hold)), "0");
  await peer.closed;
  await drained;
  assert.equal(goaways(peer).length, 2);
  assert.ok(
    !peer.frames.some(({ stream }) => stream === late),
    "a call after the last stream id is not accepted",
  );
  assert.deepEqual(
    peer.frames.filter(({ stream }) => stream === ended).map(({ type }) => type),
    [RST_STREAM],
    "nor is a whole one, after whose end DATA is a fault as on any other stream",
  );
});

test("sends the second GOAWAY to a peer that does not answer the PING, too", async (t) => {
  const { clock, connect, transport } = memoryServer(testServices().services);
  t.after(() => transport.cut());
  const peer = await connect();
  await peer.send(call(1, SAY));
  transport.drain();
  await turns();
  assert.deepEqual(peer.of(GOAWAY).map(lastOf), [NOT_NAMED]);
  clock.advance(GOAWAY_DELAY_MS / 2);
  await peer.send(call(3, SAY));
  assert.equal(peer.of(HEADERS, 3).length, 2);
  assert.deepEqual(
    peer.of(GOAWAY).map(lastOf),
    [NOT_NAMED],
    "the peer has one second to answer the PING",
  );

  clock.advance(GOAWAY_DELAY_MS / 2 + SWEEP_MS);
  await turns();
  assert.deepEqual(peer.of(GOAWAY).map(lastOf), [NOT_NAMED, 3]);
  assert.equal(peer.socket.writesEnded, true);
  clock.advance(SWEEP_MS);
  assert.equal(peer.socket.destroyed, true, "the connection ends");
});

test("a connection is not idle while what it has sent waits for its turn", async (t) => {
  const { connect, transport } = memoryServer(testServices().services);
  t.after(() => transport.cut());
  const peer = await connect();
  const closeIdle = () => transport.closeIdle(peer.socket as unknown as Socket);
  let closed: boolean | undefined;
  peer.socket.once("data", () => {
    closed = closeIdle();
  });
  // The call comes after as much as one turn handles of a connection.
  await peer.send(repeated(ping(), MAX_WORK_PER_TURN), call(1, SAY));
  assert.equal(closed, false);
  assert.equal(peer.of(HEADERS, 1).length, 2, "the call is answered");
  assert.equal(closeIdle(), true);
});

test("spreads max_connection_age by ±10 %, so that connections made together end apart", async (t) => {
  const age = 60_000;
  for (const [chance, after] of [
    [0, 54_000],
    [0.5, 60_000],
    [0.999, 65_988],
  ] as const) {
    const { clock, connect, transport } = memoryServer([], { age, chance });
    t.after(() => transport.cut());
    const peer = await connect();
    t.after(() => peer.socket.destroy());
    clock.advance(after - 1);
    await turns();
    assert.deepEqual(peer.of(GOAWAY), [], `before ${after} ms`);
    clock.advance(1);
    await turns();
    assert.deepEqual(peer.of(GOAWAY).map(lastOf), [NOT_NAMED], `after ${after} ms`);
  }
});

/** A peer that has received the second GOAWAY while its long reply is being sent, and that reads nothing yet. */
async function longReply() {
  const server = memoryServer(testServices().services);
  const peer = await server.connect(WIDE);
  server.transport.drain();
  await turns();
  const ping = peer.of(PING).at(-1);
  peer.socket.acceptBytes(0);
  await peer.send(call(1, "/test.Leaving/Big"), frame(PING, ACK, 0, ping?.payload));
  /** Lets the peer read this many bytes, and time pass. */
  const take = async (bytes: number, ms: number) => {
    peer.socket.acceptBytes(bytes);
    await turns();
    server.clock.advance(ms);
    await turns();
  };
  return { ...server, peer, take };
}

test("a long reply that is read slowly but steadily arrives complete during a drain", async (t) => {
  const { clock, faults, peer, take, transport } = await longReply();
  t.after(() => transport.cut());
  const [piece, every] = [16 * KB, 500];
  for (let taken = 0; taken < MB + 64 * KB && !peer.socket.destroyed; taken += piece) {
    await take(piece, every);
  }
  const body = Buffer.concat(peer.of(DATA, 1).map(({ payload }) => payload));
  assert.equal(body.length, MB + 5);
  assert.ok(body.subarray(5).equals(BIG), "the body differs");
  assert.equal(peer.of(HEADERS, 1).length, 2, "the trailers arrived");
  assert.equal(lastOf(peer.of(GOAWAY).at(-1) ?? assert.fail("no GOAWAY")), 1);
  clock.advance(SWEEP_MS);
  assert.equal(peer.socket.destroyed, true, "the connection ends after the reply");
  assert.deepEqual(faults, []);
});

test("a long reply whose client stops reading is cut after its time limit in a drain", async (t) => {
  const { faults, http, peer, take, transport } = await longReply();
  t.after(() => transport.cut());
  for (let taken = 0; taken < MB - 64 * KB; taken += 32 * KB) await take(32 * KB, 500);
  await take(0, http.write_timeout - 2 * SWEEP_MS);
  assert.equal(peer.socket.destroyed, false, "the reply still has time");
  for (let sweep = 0; sweep < 5; sweep++) await take(0, SWEEP_MS);
  assert.equal(peer.socket.destroyed, true);
  assert.deepEqual(faults, ["slow_reader"]);
});

function outputOn(chunks: ChunkPool) {
  const received: Buffer[] = [];
  const socket = new PacedSocket((bytes) => received.push(Buffer.from(bytes)));
  const output = new Output(socket, chunks, () => undefined);
  const write = (bytes: Uint8Array) => {
    output.allocate(bytes.length).set(bytes, output.position);
    output.advance(output.position + bytes.length);
    output.flush();
  };
  return { socket, output, write, text: () => Buffer.concat(received) };
}

test("does not reuse chunks before the socket has accepted them, and an idle output owns none", async () => {
  const chunks = new ChunkPool();
  const counted = countChunks({ chunkPool: chunks });
  const outputs = Array.from({ length: 5 }, () => outputOn(chunks));
  const parts = Array.from({ length: 20 }, (_, at) => Buffer.alloc(40 * KB, at + 1));
  for (const { socket } of outputs) socket.acceptBytes(0);
  for (const [at, part] of parts.entries()) {
    for (const { socket, output, write } of outputs) {
      write(part);
      if (at % 3 === 0) socket.acceptBytes(20 * KB);
      output.endTurn();
    }
  }
  assert.ok(counted() > 0, "stalled connections own chunks");
  for (const { socket } of outputs) socket.acceptBytes(Number.POSITIVE_INFINITY);
  await turns();
  for (const { output } of outputs) output.endTurn();
  assert.equal(counted(), 0);
  for (const { text } of outputs) assert.ok(text().equals(Buffer.concat(parts)));
});

test("a connection that was stalled owns no chunk once it is idle", async (t) => {
  const { clock, connect, transport } = memoryServer(testServices().services);
  t.after(() => transport.cut());
  const counted = countChunks(transport);
  const peers = await Promise.all(Array.from({ length: 10 }, () => connect(WIDE)));
  for (const { socket } of peers) socket.acceptBytes(0);
  await Promise.all(peers.map((peer) => peer.send(call(1, "/test.Leaving/Big"))));
  assert.ok(counted() >= peers.length);
  for (const { socket } of peers) socket.acceptBytes(Number.POSITIVE_INFINITY);
  for (let at = 0; at < 20; at++) await turns();
  for (const peer of peers) assert.equal(peer.of(HEADERS, 1).length, 2);
  clock.advance(SWEEP_MS);
  assert.equal(counted(), 0);

  // So little that the socket never emits "drain".
  for (const { socket } of peers) socket.acceptBytes(0);
  await Promise.all(peers.map((peer) => peer.send(call(3, SAY))));
  assert.equal(counted(), peers.length);
  for (const { socket } of peers) socket.acceptBytes(Number.POSITIVE_INFINITY);
  await turns();
  clock.advance(SWEEP_MS);
  assert.equal(counted(), 0);
  for (const { socket } of peers) socket.destroy();
});

/** Counts the chunks owned by the transport's connections. */
function countChunks(transport: object): () => number {
  if (!("chunkPool" in transport && transport.chunkPool instanceof ChunkPool))
    throw new Error("no chunks");
  const { chunkPool: chunks } = transport;
  let out = 0;
  const take = chunks.acquire.bind(chunks);
  const giveBack = chunks.release.bind(chunks);
  chunks.acquire = () => {
    out++;
    return take();
  };
  chunks.release = (chunk) => {
    out--;
    giveBack(chunk);
  };
  return () => out;
}
