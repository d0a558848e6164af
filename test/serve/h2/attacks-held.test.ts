// Attackers on many connections who each stay within what one may have: what is kept for all of them together is
// bounded whatever it is made of, honest calls go on beside them, and all of it is free when they leave.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  call,
  data,
  END_HEADERS,
  grpcFields,
  headers,
  httpFields,
  message,
  type RawPeer,
  settings,
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { until } from "../../kit/port.ts";
import { type Victim, victim } from "../../kit/watch.ts";

const MB = 1024 * 1024;
const SAY = "/test.Victim/Say";
const GIVE = "/test.Victim/Give";
const GATHER = "/test.Victim/Gather";
/** As many calls as one connection may have at once. */
const CALLS = 1_000;
/** The bound of all peers together and a quarter for what V8 makes of it, whatever the constants say. */
const MOST = 80 * MB;
/** Less than one peer may have, and less than those may have together who have that much. */
const OF_ONE = 7;
const OF_ALL = 40;
/** What may be left of them all: code, shared chunks, what V8 keeps for the next ones. */
const LEFT = 8 * MB;
const INITIAL_WINDOW = 4;
const NO_WINDOW = settings([INITIAL_WINDOW, 0]);
/** Nobody is late, so that only bounds on bytes can help. */
const PATIENT = { http: { read_timeout: 0, read_header_timeout: 0, write_timeout: 0 } };

interface Attack {
  readonly connections: number;
  readonly greeting?: Buffer;
  /** What one connection sends. */
  readonly bytes: (peer: RawPeer, number: number) => Buffer;
}

/** Makes the attack beside an honest caller, looks at what is held then, and lets the attackers leave. */
async function under(t: TestContext, server: Victim, attack: Attack): Promise<void> {
  const honest = await server.peer(t);
  assert.equal(await honest.unary(SAY), "0");
  const before = await server.look();
  const show = (bytes: number) => `${((bytes - before.held) / MB).toFixed(1)} MB`;
  const { connections, greeting = settings(), bytes } = attack;
  const peers: RawPeer[] = [];
  for (let number = 0; number < connections; number++) {
    const peer = await server.peer(t, { greeting });
    peers.push(peer);
    await peer.send(bytes(peer, number));
    await peer.goawayOr(peer.pong());
    assert.equal(await honest.unary(SAY), "0", "an honest caller is served");
  }
  const now = await server.look();
  t.diagnostic(`held ${show(now.held)}`);
  assert.ok(now.held - before.held < MOST, `holds ${show(now.held)}`);
  const refused = (now.faults.too_many_bytes ?? 0) - (before.faults.too_many_bytes ?? 0);
  assert.ok(refused > 0, "the attack is as large as the bound");
  assert.deepEqual(now.errors, []);

  for (const { socket } of peers) socket.destroy();
  await until("all of it is let go", async () => {
    const { held } = await server.look();
    return held - before.held < LEFT;
  });
  await again(t, server);
}

/** As much as one peer may have of any kind, which would not be there if anything was still counted for others. */
async function again(t: TestContext, server: Victim): Promise<void> {
  const before = await server.glance();
  const peers: RawPeer[] = [];
  for (let held = 0; held < OF_ALL; held += OF_ONE) {
    const peer = await server.peer(t, { greeting: NO_WINDOW });
    peers.push(peer);
    await peer.send(peer.each(OF_ONE, (id) => call(id, GIVE, Buffer.from(String(MB)))));
    await peer.pong();
    assert.equal(peer.ended, false);
  }
  const { faults } = await server.look();
  assert.equal(faults.too_many_bytes, before.faults.too_many_bytes, "there is room for others");
  for (const { socket } of peers) socket.destroy();
  await until("the others have left", async () => (await server.look()).held < before.held + LEFT);
}

const attacks: Readonly<Record<string, Attack>> = {
  "replies that nobody takes": {
    connections: 14,
    greeting: NO_WINDOW,
    bytes: (peer) => peer.each(30, (id) => call(id, GIVE, Buffer.from(String(MB / 4)))),
  },
  "streams that are left open, with equal heads": {
    connections: 34,
    bytes: (peer) => peer.each(CALLS, (id) => headers(id, block(grpcFields(GATHER)))),
  },
  "calls that are left open, with heads of 1.7 kB": {
    connections: 14,
    bytes: (peer, number) => peer.each(CALLS, (id) => headers(id, head(number, id))),
  },
  "calls of which some of the message is there": {
    connections: 24,
    bytes: (peer) =>
      peer.each(CALLS, (id) =>
        Buffer.concat([headers(id, block(grpcFields(SAY))), data(id, message().subarray(0, 2))]),
      ),
  },
  "requests of many cookies, left open": {
    connections: 30,
    bytes: (peer, number) => peer.each(200, (id) => headers(id, cookies(number, id), END_HEADERS)),
  },
};

const head = (number: number, id: number) =>
  block(grpcFields(SAY, ["x-own", `${number} ${id}`.padEnd(1_350, "x")]));

function cookies(number: number, id: number): Buffer {
  const each = Array.from({ length: 100 }, (_, at) => ["cookie", `${at}=${number}-${id}`] as const);
  return block(httpFields("POST", "/take", ...each));
}

test("what all peers together make the server keep", async (t) => {
  const server = await victim(t, { settings: PATIENT });
  for (const [name, attack] of Object.entries(attacks)) {
    await t.test(name, (t) => under(t, server, attack));
  }
});
