// Unresponsive peers: a connection whose peer no longer answers PING is closed, and one whose peer answers is kept; a
// peer that sends requests but does not read costs a limited amount of memory.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import type { GrpcService } from "#base/handler.ts";
import { CONTROL_FRAME_BURST, PING_AFTER_MS, PING_TIMEOUT_MS } from "#h2/limits.ts";
import {
  ACK,
  call,
  data,
  frame,
  GOAWAY,
  grpcFields,
  HEADERS,
  headers,
  message,
  PING,
  ping,
  RST_STREAM,
  repeated,
  reset,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { memoryServer, turns } from "../../kit/clients/memory-peer.ts";

const SWEEP_MS = 1_000;
const KB = 1024;
const REFUSED_STREAM = 7;
/** Limits of `limits.ts`, repeated as the peer sees them. */
const AT_ONCE = 1_000;

const service: GrpcService = {
  name: "test.Silence",
  methods: {
    Say: { kind: "unary", handle: (bytes) => bytes },
    Fail: {
      kind: "unary",
      handle: () => {
        throw new Fault("INVALID_ARGUMENT", "a reply that is all head");
      },
    },
    Wait: {
      kind: "stream",
      client: true,
      server: true,
      handle: async (_, made) => {
        const left = made.signal();
        if (left.aborted) return;
        await new Promise((resolve) => left.addEventListener("abort", resolve, { once: true }));
      },
    },
  },
};

test("pings a silent peer after five minutes and closes the connection if it does not answer", async (t) => {
  const { clock, connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  clock.advance(PING_AFTER_MS - SWEEP_MS);
  await turns();
  assert.equal(peer.of(PING).length, 0, "no PING before five minutes");

  clock.advance(2 * SWEEP_MS);
  await turns();
  const [ping, ...more] = peer.of(PING);
  assert.equal(ping?.flags, 0);
  assert.deepEqual(more, [], "exactly one PING");

  clock.advance(PING_TIMEOUT_MS - 3 * SWEEP_MS);
  await turns();
  assert.equal(peer.socket.destroyed, false, "the peer still has time to answer");
  assert.deepEqual(faults, []);
  for (let sweep = 0; sweep < 4; sweep++) {
    clock.advance(SWEEP_MS);
    await turns();
  }
  assert.equal(peer.socket.destroyed, true);
  assert.deepEqual(faults, ["silent"]);
});

test("keeps a peer that answers, and pings it again after its next silence", async (t) => {
  const { clock, connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  for (let silence = 1; silence <= 4; silence++) {
    clock.advance(PING_AFTER_MS + SWEEP_MS);
    await turns();
    const pings = peer.of(PING);
    assert.equal(pings.length, silence);
    await peer.send(frame(PING, ACK, 0, pings.at(-1)?.payload));
  }
  assert.equal(peer.socket.destroyed, false);
  assert.deepEqual(faults, []);
  await peer.send(call(1, "/test.Silence/Say"));
  assert.equal(peer.of(HEADERS, 1).length, 2, "the call is answered");
});

test("refuses a call beyond SETTINGS_MAX_CONCURRENT_STREAMS, and ignores its data", async (t) => {
  const { connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  t.after(() => peer.socket.destroy());
  const fields = block(grpcFields("/test.Silence/Wait"));
  const ids = Array.from({ length: AT_ONCE }, (_, at) => 2 * at + 1);
  await peer.send(...ids.map((id) => headers(id, fields)));
  assert.deepEqual(faults, []);
  const beyond = 2 * AT_ONCE + 1;
  await peer.send(headers(beyond, fields));
  const [refusal] = peer.of(RST_STREAM, beyond);
  assert.equal(refusal?.payload.readUInt32BE(0), REFUSED_STREAM);
  assert.deepEqual(faults, ["too_many_streams"]);

  // Data that the peer sent before it received the refusal.
  await peer.send(data(beyond, message(Buffer.from("late"))), ping());
  assert.equal(peer.of(RST_STREAM, beyond).length, 1, "exactly one reset");
  assert.equal(peer.of(GOAWAY).length, 0);
  assert.equal(peer.of(PING).length, 1, "the connection is open");
  assert.deepEqual(faults, ["too_many_streams"]);

  await peer.send(reset(1));
  await peer.send(call(beyond + 2, "/test.Silence/Say"));
  assert.equal(peer.of(HEADERS, beyond + 2).length, 2, "a free place is used again");
});

test("limits the output buffered for a peer that reads nothing", async (t) => {
  const { connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  t.after(() => peer.socket.destroy());
  peer.socket.acceptBytes(0);
  const [rounds, each] = [300, 20];
  // Each part is far below the budget of control frames, which the calls refill.
  assert.ok(each < CONTROL_FRAME_BURST);
  let id = -1;
  const next = () => {
    id += 2;
    return id;
  };
  for (let round = 0; round < rounds; round++) {
    const calls = Array.from({ length: each }, () => call(next(), "/test.Silence/Fail"));
    const backs = [call(next(), "/test.Silence/Say"), reset(id)];
    await peer.send(repeated(ping(), each), ...calls, ...backs);
    // The replies to one round, above the mark at which the server stops reading.
    const bound = peer.socket.writableHighWaterMark + 16 * KB;
    assert.ok(
      peer.socket.writableLength <= bound,
      `${peer.socket.writableLength} bytes are buffered`,
    );
  }
  assert.ok(peer.socket.readableLength > 0, "the server has stopped reading");

  peer.socket.acceptBytes(Number.POSITIVE_INFINITY);
  for (let at = 0; at < 50 && peer.of(PING).length < rounds * each; at++) await turns();
  assert.equal(peer.of(PING).length, rounds * each, "a peer that reads again gets every reply");
  assert.equal(peer.of(HEADERS, id - 2).length, 1);
  assert.deepEqual(faults, []);
});
