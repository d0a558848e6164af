// Peers that fall silent: one that vanished is noticed and let go, one that answers is kept; and peers that do not
// read, however much they ask, cost a bounded amount of memory.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import { CONTROL_BURST, PING_AFTER_MS, PING_ANSWER_MS } from "#serve/h2/limits.ts";
import type { Service } from "#serve/handler.ts";
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
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { memoryServer, turns } from "../../kit/memory-peer.ts";

const SWEEP_MS = 1_000;
const KB = 1024;
const REFUSED_STREAM = 7;
/** Of `limits.ts`, in the words of the peer. */
const AT_ONCE = 1_000;

const service: Service = {
  name: "test.Silence",
  healthNames: [],
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

test("a silent peer is asked after five minutes and let go when it does not answer", async (t) => {
  const { clock, connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  clock.advance(PING_AFTER_MS - SWEEP_MS);
  await turns();
  assert.equal(peer.of(PING).length, 0, "not asked before its time");

  clock.advance(2 * SWEEP_MS);
  await turns();
  const [asked, ...more] = peer.of(PING);
  assert.equal(asked?.flags, 0);
  assert.deepEqual(more, [], "asked once");

  clock.advance(PING_ANSWER_MS - 3 * SWEEP_MS);
  await turns();
  assert.equal(peer.socket.destroyed, false, "it has its time to answer");
  assert.deepEqual(faults, []);
  for (let sweep = 0; sweep < 4; sweep++) {
    clock.advance(SWEEP_MS);
    await turns();
  }
  assert.equal(peer.socket.destroyed, true);
  assert.deepEqual(faults, ["silent"]);
});

test("a peer that answers is kept, and asked again at its next silence", async (t) => {
  const { clock, connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  for (let silence = 1; silence <= 4; silence++) {
    clock.advance(PING_AFTER_MS + SWEEP_MS);
    await turns();
    const asked = peer.of(PING);
    assert.equal(asked.length, silence);
    await peer.send(frame(PING, ACK, 0, asked.at(-1)?.payload));
  }
  assert.equal(peer.socket.destroyed, false);
  assert.deepEqual(faults, []);
  await peer.send(call(1, "/test.Silence/Say"));
  assert.equal(peer.of(HEADERS, 1).length, 2, "its call is answered");
});

test("a call beyond the most at once is refused, and its data is no fault", async (t) => {
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

  // What the peer had sent before it heard of the refusal.
  await peer.send(data(beyond, message(Buffer.from("late"))), ping());
  assert.equal(peer.of(RST_STREAM, beyond).length, 1, "refused once");
  assert.equal(peer.of(GOAWAY).length, 0);
  assert.equal(peer.of(PING).length, 1, "the connection lives");
  assert.deepEqual(faults, ["too_many_streams"]);

  await peer.send(reset(1));
  await peer.send(call(beyond + 2, "/test.Silence/Say"));
  assert.equal(peer.of(HEADERS, beyond + 2).length, 2, "a place that is free again is given away");
});

test("a peer that reads nothing does not make the server write without end", async (t) => {
  const { connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  t.after(() => peer.socket.destroy());
  peer.socket.allow(0);
  const [rounds, each] = [300, 20];
  // Each part is far less than the budget of frames that carry nothing, which its calls refill.
  assert.ok(each < CONTROL_BURST);
  let id = -1;
  const next = () => {
    id += 2;
    return id;
  };
  for (let round = 0; round < rounds; round++) {
    const calls = Array.from({ length: each }, () => call(next(), "/test.Silence/Fail"));
    const backs = [call(next(), "/test.Silence/Say"), reset(id)];
    await peer.send(repeated(ping(), each), ...calls, ...backs);
    // What one round is answered, beyond the mark at which the server stops to read.
    const bound = peer.socket.writableHighWaterMark + 16 * KB;
    assert.ok(peer.socket.writableLength <= bound, `${peer.socket.writableLength} bytes wait`);
  }
  assert.ok(peer.socket.readableLength > 0, "the rest has not been read");

  peer.socket.allow(Number.POSITIVE_INFINITY);
  for (let at = 0; at < 50 && peer.of(PING).length < rounds * each; at++) await turns();
  assert.equal(peer.of(PING).length, rounds * each, "a peer that reads again gets every answer");
  assert.equal(peer.of(HEADERS, id - 2).length, 1);
  assert.deepEqual(faults, []);
});
