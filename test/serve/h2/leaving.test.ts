// How a connection ends in order: its peer hears that no more calls are wanted, calls that crossed that word are
// still answered, the last one is named, and what is on its way arrives whole however slowly it is taken.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FAREWELL_MS } from "#serve/h2/limits.ts";
import { Chunks, Output } from "#serve/h2/output.ts";
import type { Route, Service } from "#serve/handler.ts";
import { fakeClock } from "../../kit/clock.ts";
import {
  ACK,
  call,
  DATA,
  END_HEADERS,
  END_STREAM,
  frame,
  GOAWAY,
  grpcStatus,
  HEADERS,
  headers,
  httpFields,
  PING,
  type RawPeer,
  rawPeer,
  settings,
  windowUpdate,
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { memoryServer, PacedSocket, turns } from "../../kit/memory-peer.ts";
import { testPort } from "../../kit/port.ts";

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

function serving() {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const service: Service = {
    name: "test.Leaving",
    healthNames: [],
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

test("a drain takes the calls that cross it, names the last one, and ends after their replies", async (t) => {
  const { services, routes, release } = serving();
  const port = await testPort(t, { services, routes, clock: fakeClock() });
  const peer = await rawPeer(t, port.address);
  const hold = peer.next();
  await peer.send(call(hold, "/test.Leaving/Hold"));
  assert.equal(await peer.unary(SAY), "0");

  const drained = port.drain();
  const first = await peer.frame("GOAWAY", ({ type }) => type === GOAWAY);
  assert.equal(lastOf(first), NOT_NAMED);
  assert.equal(first.payload.readUInt32BE(4), 0);
  const asked = await peer.frame("PING", ({ type, flags }) => type === PING && flags === 0);

  assert.equal(await peer.unary(SAY), "0", "a call that crossed the first GOAWAY");
  const json = peer.next();
  await peer.send(headers(json, HELLO, END_HEADERS | END_STREAM));
  assert.equal((await peer.outcome(json)).head[":status"], "200", "and one over JSON");
  assert.equal(goaways(peer).length, 1, "the last call is not named before the ping's answer");

  await peer.send(frame(PING, ACK, 0, asked.payload));
  const second = await peer.frame("GOAWAY", (is) => is.type === GOAWAY && is !== first);
  assert.equal(lastOf(second), json);
  assert.equal(second.payload.readUInt32BE(4), 0);

  const late = peer.next();
  await peer.send(call(late, SAY));
  await peer.pong();
  assert.equal(peer.ended, false, "a call in hand keeps the connection");
  release();
  assert.equal(grpcStatus(await peer.outcome(hold)), "0");
  await peer.closed;
  await drained;
  assert.equal(goaways(peer).length, 2);
  assert.ok(
    !peer.frames.some(({ stream }) => stream === late),
    "a call behind the last is not taken",
  );
});

test("a peer that does not answer the farewell is named the last call all the same", async (t) => {
  const { clock, connect, transport } = memoryServer(serving().services);
  t.after(() => transport.cut());
  const peer = await connect();
  await peer.send(call(1, SAY));
  transport.drain(0);
  await turns();
  assert.deepEqual(peer.of(GOAWAY).map(lastOf), [NOT_NAMED]);
  clock.advance(FAREWELL_MS / 2);
  await peer.send(call(3, SAY));
  assert.equal(peer.of(HEADERS, 3).length, 2);
  assert.deepEqual(peer.of(GOAWAY).map(lastOf), [NOT_NAMED], "it has its time to answer");

  clock.advance(FAREWELL_MS / 2 + SWEEP_MS);
  await turns();
  assert.deepEqual(peer.of(GOAWAY).map(lastOf), [NOT_NAMED, 3]);
  assert.equal(peer.socket.finished, true);
  clock.advance(SWEEP_MS);
  assert.equal(peer.socket.destroyed, true, "and it is let go");
});

test("ages are spread by a tenth to either side, so that connections made together leave apart", async (t) => {
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

/** A peer that has been named its last call, whose long reply is on its way, and that reads nothing yet. */
async function longReply() {
  const server = memoryServer(serving().services);
  const peer = await server.connect(WIDE);
  server.transport.drain(0);
  await turns();
  const asked = peer.of(PING).at(-1);
  peer.socket.allow(0);
  await peer.send(call(1, "/test.Leaving/Big"), frame(PING, ACK, 0, asked?.payload));
  /** The peer takes so many bytes more, and time passes. */
  const take = async (bytes: number, ms: number) => {
    peer.socket.allow(bytes);
    await turns();
    server.clock.advance(ms);
    await turns();
  };
  return { ...server, peer, take };
}

test("a long reply that is read slowly but steadily arrives whole in spite of a drain", async (t) => {
  const { clock, faults, peer, take, transport } = await longReply();
  t.after(() => transport.cut());
  const [piece, every] = [16 * KB, 500];
  for (let taken = 0; taken < MB + 64 * KB && !peer.socket.destroyed; taken += piece) {
    await take(piece, every);
  }
  const body = Buffer.concat(peer.of(DATA, 1).map(({ payload }) => payload));
  assert.equal(body.length, MB + 5);
  assert.ok(body.subarray(5).equals(BIG), "the bytes that were sent");
  assert.equal(peer.of(HEADERS, 1).length, 2, "and its trailers");
  assert.equal(lastOf(peer.of(GOAWAY).at(-1) ?? assert.fail("no GOAWAY")), 1);
  clock.advance(SWEEP_MS);
  assert.equal(peer.socket.destroyed, true, "then the connection ends");
  assert.deepEqual(faults, []);
});

test("a long reply whose reader stops does not outlive its time in a drain", async (t) => {
  const { faults, http, peer, take, transport } = await longReply();
  t.after(() => transport.cut());
  for (let taken = 0; taken < MB - 64 * KB; taken += 32 * KB) await take(32 * KB, 500);
  await take(0, http.write_timeout - 2 * SWEEP_MS);
  assert.equal(peer.socket.destroyed, false, "it has its time");
  for (let sweep = 0; sweep < 5; sweep++) await take(0, SWEEP_MS);
  assert.equal(peer.socket.destroyed, true);
  assert.deepEqual(faults, ["slow_reader"]);
});

function outputOn(chunks: Chunks) {
  const heard: Buffer[] = [];
  const socket = new PacedSocket((bytes) => heard.push(Buffer.from(bytes)));
  const output = new Output(socket, chunks, () => undefined);
  const write = (bytes: Uint8Array) => {
    output.room(bytes.length).set(bytes, output.at);
    output.wrote(output.at + bytes.length);
    output.flush();
  };
  return { socket, output, write, text: () => Buffer.concat(heard) };
}

test("chunks are not used again before the peer has taken them, and an idle output owns none", async () => {
  const chunks = new Chunks();
  const counted = countChunks({ chunks });
  const outputs = Array.from({ length: 5 }, () => outputOn(chunks));
  const parts = Array.from({ length: 20 }, (_, at) => Buffer.alloc(40 * KB, at + 1));
  for (const { socket } of outputs) socket.allow(0);
  for (const [at, part] of parts.entries()) {
    for (const { socket, output, write } of outputs) {
      write(part);
      if (at % 3 === 0) socket.allow(20 * KB);
      output.rest();
    }
  }
  assert.ok(counted() > 0, "the stalled ones have theirs");
  for (const { socket } of outputs) socket.allow(Number.POSITIVE_INFINITY);
  await turns();
  for (const { output } of outputs) output.rest();
  assert.equal(counted(), 0);
  for (const { text } of outputs) assert.ok(text().equals(Buffer.concat(parts)));
});

test("after a stalled moment an idle connection owns no chunk", async (t) => {
  const { clock, connect, transport } = memoryServer(serving().services);
  t.after(() => transport.cut());
  const counted = countChunks(transport);
  const peers = await Promise.all(Array.from({ length: 10 }, () => connect(WIDE)));
  for (const { socket } of peers) socket.allow(0);
  await Promise.all(peers.map((peer) => peer.send(call(1, "/test.Leaving/Big"))));
  assert.ok(counted() >= peers.length);
  for (const { socket } of peers) socket.allow(Number.POSITIVE_INFINITY);
  for (let at = 0; at < 20; at++) await turns();
  for (const peer of peers) assert.equal(peer.of(HEADERS, 1).length, 2);
  clock.advance(SWEEP_MS);
  assert.equal(counted(), 0);

  // So little that the socket never says it has room again.
  for (const { socket } of peers) socket.allow(0);
  await Promise.all(peers.map((peer) => peer.send(call(3, SAY))));
  assert.equal(counted(), peers.length);
  for (const { socket } of peers) socket.allow(Number.POSITIVE_INFINITY);
  await turns();
  clock.advance(SWEEP_MS);
  assert.equal(counted(), 0);
  for (const { socket } of peers) socket.destroy();
});

/** Counts what the transport's connections have of its chunks. */
function countChunks(transport: object): () => number {
  if (!("chunks" in transport && transport.chunks instanceof Chunks)) throw new Error("no chunks");
  const { chunks } = transport;
  let out = 0;
  const take = chunks.take.bind(chunks);
  const giveBack = chunks.giveBack.bind(chunks);
  chunks.take = () => {
    out++;
    return take();
  };
  chunks.giveBack = (chunk) => {
    out--;
    giveBack(chunk);
  };
  return () => out;
}
