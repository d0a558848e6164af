// Real connections by the thousand: an address that fills its share of the places leaves room for others and displaces
// only connections of its own, and idle HTTP/2 connections are closed, which gives their places back.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import type { Route } from "#base/handler.ts";
import { ACK, frame, GOAWAY, PING, PREFACE, RawPeer, settings } from "../kit/clients/h2.ts";
import { fakeClock } from "../kit/clock.ts";
import { inOwnNetwork } from "../kit/network.ts";
import { memoryMeter, testPort } from "../kit/sluice/port.ts";
import { until } from "../kit/until.ts";

/** Each takes two descriptors of this process, which is far below the usual limit of 20 000 or more. */
const PLACES = 4_000;
const SHARE = PLACES / 2;
const BEYOND = 50;
const IDLE_MS = 30_000;

const healthz: Route = {
  method: "GET",
  path: "/healthz",
  about: "A probe",
  handle: () => ({ status: 200, headers: {}, body: "healthy" }),
};

interface Target {
  readonly host: string;
  readonly port: number;
}

/** Connects from an address and sends the preface of HTTP/2. The peer answers a PING, as every client does. */
async function hold(t: TestContext, to: Target, localAddress: string): Promise<RawPeer> {
  const socket = connect({ ...to, localAddress });
  const peer = new RawPeer(socket);
  t.after(() => socket.destroy());
  await Promise.race([once(socket, "connect"), peer.closed]);
  void peer.send(PREFACE, settings());
  return peer;
}

/** Acknowledges the PING between the two GOAWAY frames, so that the connection need not wait for a second. */
async function answerGoAway(peer: RawPeer): Promise<void> {
  await peer.goaway();
  const { payload } = await peer.frame("PING", ({ type, flags }) => type === PING && flags !== ACK);
  await peer.send(frame(PING, ACK, 0, payload));
}

async function probe(to: Target, localAddress: string): Promise<string> {
  const socket: Socket = connect({ ...to, localAddress });
  let text = "";
  socket.setEncoding("latin1").on("data", (part: string) => {
    text += part;
  });
  socket.on("error", () => undefined);
  socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
  await once(socket, "close");
  return text;
}

inOwnNetwork(import.meta.filename, ([greedy, other]) => {
  test(`one address holds ${SHARE} idle connections: a probe gets in, and all are closed in order`, async (t) => {
    const { meter, refused } = memoryMeter();
    const clock = fakeClock();
    const port = await testPort(t, {
      clock,
      routes: [healthz],
      meter,
      maxConnections: PLACES,
      settings: { listener: { addr: `${greedy}:0` }, http: { idle_timeout: IDLE_MS } },
    });
    const to = { host: greedy, port: port.port };
    const peers: RawPeer[] = [];
    while (peers.length < SHARE + BEYOND) {
      const some = Array.from({ length: BEYOND }, () => hold(t, to, greedy));
      peers.push(...(await Promise.all(some)));
    }
    const open = () => peers.filter(({ ended }) => !ended);
    await until("those beyond the share displace others", () => open().length === SHARE);
    assert.deepEqual(refused, Array(BEYOND).fill("too_many_of_address"));
    if (other !== greedy) {
      assert.match(await probe(to, other), /^HTTP\/1\.1 200 .*healthy$/s);
    }
    const held = open();
    const answers = held.map(answerGoAway);
    // In the steps of a sweep.
    for (let at = 0; at < IDLE_MS + 2_000; at += 1_000) clock.advance(1_000);
    await Promise.all(answers);
    await Promise.all(peers.map(({ closed }) => closed));
    const goaways = held.map(({ frames }) => frames.filter(({ type }) => type === GOAWAY).length);
    assert.equal(goaways.length, SHARE);
    assert.ok(goaways.every((count) => count === 2));
    await until("the places are free again", async () =>
      (await probe(to, greedy)).startsWith("HTTP/1.1 200 "),
    );
  });
});
