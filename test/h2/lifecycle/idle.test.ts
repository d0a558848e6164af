// `server.http.idle_timeout` on HTTP/2: connections that carry no calls are closed in order.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { GrpcService } from "#base/handler.ts";
import { ACK, call, frame, GOAWAY, HEADERS, PING, ping } from "../../kit/clients/h2.ts";
import { type MemoryPeer, memoryServer, turns } from "../../kit/clients/memory-peer.ts";

const IDLE_MS = 30_000;
const WAIT = "/test.Idle/Wait";

function serve(idle: number) {
  const waiting = Promise.withResolvers<Uint8Array>();
  const service: GrpcService = {
    name: "test.Idle",
    methods: {
      Say: { kind: "unary", handle: (message) => message },
      Wait: { kind: "unary", handle: () => waiting.promise },
    },
  };
  const { clock, connect } = memoryServer([service], { idle });
  /** Lets time pass in the steps of a sweep. */
  const pass = async (ms: number) => {
    for (let at = 0; at < ms; at += 1_000) clock.advance(1_000);
    await turns();
  };
  return { connect, pass, answer: () => waiting.resolve(new Uint8Array()) };
}

const goaways = (peer: MemoryPeer) => peer.of(GOAWAY).length;

test("a connection without calls is asked to close, and closes; PINGs do not keep it", async () => {
  const { connect, pass } = serve(IDLE_MS);
  const peer = await connect();
  await peer.send(call(1, "/test.Idle/Say"));
  for (let at = 0; at < 3; at++) {
    await pass(IDLE_MS / 3);
    await peer.send(ping());
  }
  assert.equal(goaways(peer), 0, "not before its time");
  for (let more = 0; more < 5 && goaways(peer) === 0; more++) await pass(1_000);
  assert.equal(goaways(peer), 1);
  // A call that crossed the GOAWAY is still answered.
  await peer.send(call(3, "/test.Idle/Say"));
  assert.equal(peer.of(HEADERS, 3).length, 2);
  const own = peer.of(PING).filter(({ flags }) => flags !== ACK);
  await peer.send(frame(PING, ACK, 0, own.at(-1)?.payload));
  assert.equal(goaways(peer), 2);
  assert.equal(peer.socket.writesEnded, true);
});

test("a call in progress keeps its connection, and so does each call", async () => {
  const { connect, pass, answer } = serve(IDLE_MS);
  const peer = await connect();
  await peer.send(call(1, WAIT));
  await pass(2 * IDLE_MS);
  assert.equal(goaways(peer), 0);
  answer();
  await pass(IDLE_MS - 2_000);
  await peer.send(call(3, "/test.Idle/Say"));
  await pass(IDLE_MS - 2_000);
  assert.equal(goaways(peer), 0);
  for (let more = 0; more < 5 && goaways(peer) === 0; more++) await pass(1_000);
  assert.equal(goaways(peer), 1);
});

test("0 means no limit", async () => {
  const { connect, pass } = serve(0);
  const peer = await connect();
  await pass(10 * IDLE_MS);
  assert.equal(goaways(peer), 0);
});
