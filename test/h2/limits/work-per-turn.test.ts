// Requests that one connection sends at once are handled over several turns of the event loop, so that others get theirs.

import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { GrpcService } from "#base/handler.ts";
import { MAX_CONCURRENT_CALLS, MAX_READ_AHEAD } from "#h2/limits.ts";
import {
  MAX_READ_AHEAD_TOTAL,
  MAX_WORK_PER_SLICE,
  MAX_WORK_PER_TURN,
  type ReadScheduler,
} from "#h2/read-scheduler.ts";
import { call, type RawPeer, rawPeer } from "../../kit/clients/h2.ts";
import { type MemoryPeer, memoryServer } from "../../kit/clients/memory-peer.ts";
import { testPort } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";

const PATH = "/test.Turns/Count";
const FRAMES_PER_CALL = 2;
const PER_VISIT = MAX_WORK_PER_SLICE / FRAMES_PER_CALL;
const PER_TURN = MAX_WORK_PER_TURN / FRAMES_PER_CALL;
/** Bytes of a message that fits into a frame. */
const BODY = 16_000;

/** `each` is called for every call. */
function counting(each: () => void = () => undefined) {
  const handled: string[] = [];
  const service: GrpcService = {
    name: "test.Turns",
    methods: {
      Count: {
        kind: "unary",
        handle(message) {
          each();
          handled.push(Buffer.from(message).toString());
          return message;
        },
      },
    },
  };
  return { handled, service };
}

const calls = (count: number, text: string): Buffer =>
  Buffer.concat(
    Array.from({ length: count }, (_, at) => call(2 * at + 1, PATH, Buffer.from(text))),
  );

test("a connection does a bounded part of its work in each turn, and others go on meanwhile", async () => {
  const { handled, service } = counting();
  const { connect } = memoryServer([service]);
  const many = await connect();
  const few = await connect();
  many.socket.push(calls(MAX_CONCURRENT_CALLS, "many"));
  await new Promise((resolve) => process.nextTick(resolve));
  assert.equal(handled.length, PER_VISIT);
  few.socket.push(calls(1, "few"));
  while (!handled.includes("few")) await turn();
  assert.ok(handled.length <= PER_TURN + 2 * PER_VISIT, `after ${handled.length} others`);
  while (handled.length <= MAX_CONCURRENT_CALLS) await turn();
  assert.equal(many.socket.isPaused(), false, "it reads on");
});

/** Sends calls while the line does not move, until no more is read. Returns their number. */
async function fill({ socket }: MemoryPeer, scheduler: ReadScheduler): Promise<number> {
  scheduler.connectionAccepted();
  let sent = 0;
  for (; sent < MAX_READ_AHEAD / BODY + 1 && !socket.isPaused(); sent++) {
    socket.push(call(2 * sent + 1, PATH, Buffer.alloc(BODY)));
    await new Promise((resolve) => process.nextTick(resolve));
  }
  assert.equal(socket.isPaused(), true);
  return sent;
}

test("a connection that waits is read ahead, up to a limit, and what is read at once has its age", async () => {
  const { handled, service } = counting();
  const { connect, clock, scheduler } = memoryServer([service]);
  const peer = await connect();
  scheduler.takeMedianDelay();
  const sent = await fill(peer, scheduler);
  assert.ok(sent > MAX_READ_AHEAD / BODY / 2, `${sent} calls`);
  assert.deepEqual(handled, []);
  clock.advance(70);
  while (!scheduler.idle) await turn();
  assert.equal(handled.length, sent);
  assert.equal(scheduler.takeMedianDelay(), 70);
});

test("a connection is read on before all that it held is handled", async () => {
  const { handled, service } = counting(() => clock.advance(1));
  const { connect, clock, scheduler } = memoryServer([service]);
  const peer = await connect();
  const sent = await fill(peer, scheduler);
  while (peer.socket.isPaused()) await turn();
  assert.ok(handled.length > 0 && handled.length < sent, `after ${handled.length} of ${sent}`);
  while (!scheduler.idle) await turn();
  assert.equal(handled.length, sent);
});

test("what a peer sent before it closed its half is handled, then the connection closes", async () => {
  const { handled, service } = counting();
  const { connect } = memoryServer([service]);
  const peer = await connect();
  peer.socket.push(calls(MAX_CONCURRENT_CALLS, "last"));
  peer.socket.push(null);
  await until("the server closes it", () => peer.socket.destroyed);
  assert.equal(handled.length, MAX_CONCURRENT_CALLS);
});

test("what a peer sent is forgotten when its connection breaks", async () => {
  const { handled, service } = counting();
  const { connect, scheduler } = memoryServer([service]);
  const peer = await connect();
  scheduler.connectionAccepted();
  peer.socket.push(calls(MAX_CONCURRENT_CALLS, "lost"));
  await new Promise((resolve) => process.nextTick(resolve));
  assert.equal(scheduler.countReadAhead(MAX_READ_AHEAD_TOTAL - 1), false, "it counts");
  peer.socket.destroy();
  await turn();
  assert.equal(scheduler.countReadAhead(0), true, "it does not count any more");
  while (!scheduler.idle) await turn();
  assert.deepEqual(handled, []);
});

test("all connections that wait to be accepted are accepted before much else is handled", async (t) => {
  const { handled, service } = counting();
  const port = await testPort(t, { services: [service] });
  const address = `${port.host}:${port.port}`;
  const peers: RawPeer[] = [];
  for (let at = 0; at < 4; at++) peers.push(await rawPeer(t, address));
  await Promise.all(peers.map((peer) => peer.pingRoundTrip()));
  // The system completes these connections although nobody accepts them yet. Probes connect, and leave when they are accepted.
  const FRESH = 40;
  let answered = 0;
  const before: number[] = [];
  for (const peer of peers) void peer.send(calls(MAX_CONCURRENT_CALLS, "many"));
  for (let at = 0; at < FRESH; at++) {
    const socket = connect({ host: port.host, port: port.port }, () =>
      socket.write("GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"),
    );
    t.after(() => socket.destroy());
    socket.on("error", () => undefined);
    socket.once("data", () => {
      answered++;
      before.push(handled.length);
    });
  }
  await until("all probes are answered", () => answered === FRESH);
  // One turn for each of them would have let everything be handled first.
  const last = before.at(-1) ?? 0;
  assert.ok(last < peers.length * MAX_CONCURRENT_CALLS, `after ${last} calls`);
  await until(
    "all calls are handled",
    () => handled.length === peers.length * MAX_CONCURRENT_CALLS,
  );
});
