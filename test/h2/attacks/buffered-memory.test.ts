// Attackers on many connections, each of which stays within its own limit: the memory buffered for all of them is
// limited whatever it consists of, honest calls are served meanwhile, and everything is released when they leave.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { startTarget, type TargetServer } from "../../kit/attack/measure.ts";
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
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { until } from "../../kit/until.ts";

const MB = 1024 * 1024;
const SAY = "/test.Target/Say";
const GIVE = "/test.Target/Give";
const GATHER = "/test.Target/Gather";
/** Most concurrent calls of one connection. */
const CALLS = 1_000;
/**
 * The limit of the whole pool and a quarter for V8's overhead, as a number of its own: independent of the constants.
 */
const MAX_GROWTH = 80 * MB;
/** MiB that stay below the limit of one connection, and below that of all connections which hold so much. */
const OF_ONE = 7;
const OF_ALL = 40;
/** Memory that may remain after all attacks: code, shared chunks, V8's reserves. */
const LEFT = 8 * MB;
const INITIAL_WINDOW = 4;
const NO_WINDOW = settings([INITIAL_WINDOW, 0]);
/** No timeouts, so that only limits on bytes can help. */
const NO_TIMEOUTS = { http: { read_timeout: 0, read_header_timeout: 0, write_timeout: 0 } };

interface Attack {
  readonly connections: number;
  readonly initialFrames?: Buffer;
  /** Bytes that one connection sends. */
  readonly bytes: (peer: RawPeer, number: number) => Buffer;
}

/** Runs the attack beside an honest caller, checks the memory held, and lets the attackers leave. */
async function assertBounded(t: TestContext, server: TargetServer, attack: Attack): Promise<void> {
  const honest = await server.peer(t);
  assert.equal(await honest.unary(SAY), "0");
  const before = await server.snapshot();
  const show = (bytes: number) => `${((bytes - before.held) / MB).toFixed(1)} MB`;
  const { connections, initialFrames = settings(), bytes } = attack;
  const peers: RawPeer[] = [];
  for (let number = 0; number < connections; number++) {
    const peer = await server.peer(t, { initialFrames });
    peers.push(peer);
    await peer.send(bytes(peer, number));
    await peer.goawayOr(peer.pingRoundTrip());
    assert.equal(await honest.unary(SAY), "0", "the honest caller is served");
  }
  const now = await server.snapshot();
  t.diagnostic(`held ${show(now.held)}`);
  assert.ok(now.held - before.held < MAX_GROWTH, `holds ${show(now.held)}`);
  const refused = (now.faults.too_many_bytes ?? 0) - (before.faults.too_many_bytes ?? 0);
  assert.ok(refused > 0, "the attack does not reach the limit");
  assert.deepEqual(now.errors, []);

  for (const { socket } of peers) socket.destroy();
  await until("all memory to be released", async () => {
    const { held } = await server.snapshot();
    return held - before.held < LEFT;
  });
  await assertReleased(t, server);
}

/** Fills the limit of one connection, which must fail if anything is still counted for connections that have ended. */
async function assertReleased(t: TestContext, server: TargetServer): Promise<void> {
  const before = await server.quickSnapshot();
  const peers: RawPeer[] = [];
  for (let held = 0; held < OF_ALL; held += OF_ONE) {
    const peer = await server.peer(t, { initialFrames: NO_WINDOW });
    peers.push(peer);
    await peer.send(peer.onNewStreams(OF_ONE, (id) => call(id, GIVE, Buffer.from(String(MB)))));
    await peer.pingRoundTrip();
    assert.equal(peer.ended, false);
  }
  const { faults } = await server.snapshot();
  assert.equal(faults.too_many_bytes, before.faults.too_many_bytes, "the pool is not free again");
  for (const { socket } of peers) socket.destroy();
  await until(
    "the other connections have ended",
    async () => (await server.snapshot()).held < before.held + LEFT,
  );
}

const attacks: Readonly<Record<string, Attack>> = {
  "replies that no client reads": {
    connections: 14,
    initialFrames: NO_WINDOW,
    bytes: (peer) => peer.onNewStreams(30, (id) => call(id, GIVE, Buffer.from(String(MB / 4)))),
  },
  "streams left open, with equal field blocks": {
    connections: 34,
    bytes: (peer) => peer.onNewStreams(CALLS, (id) => headers(id, block(grpcFields(GATHER)))),
  },
  "calls left open, with field blocks of 1.7 kB": {
    connections: 14,
    bytes: (peer, number) => peer.onNewStreams(CALLS, (id) => headers(id, head(number, id))),
  },
  "calls with part of their message": {
    connections: 24,
    bytes: (peer) =>
      peer.onNewStreams(CALLS, (id) =>
        Buffer.concat([headers(id, block(grpcFields(SAY))), data(id, message().subarray(0, 2))]),
      ),
  },
  "requests with many cookies, left open": {
    connections: 30,
    bytes: (peer, number) =>
      peer.onNewStreams(200, (id) => headers(id, cookies(number, id), END_HEADERS)),
  },
};

const head = (number: number, id: number) =>
  block(grpcFields(SAY, ["x-own", `${number} ${id}`.padEnd(1_350, "x")]));

function cookies(number: number, id: number): Buffer {
  const each = Array.from({ length: 100 }, (_, at) => ["cookie", `${at}=${number}-${id}`] as const);
  return block(httpFields("POST", "/take", ...each));
}

test("limits the memory buffered for all connections together", async (t) => {
  const server = await startTarget(t, { settings: NO_TIMEOUTS });
  for (const [name, attack] of Object.entries(attacks)) {
    await t.test(name, (t) => assertBounded(t, server, attack));
  }
});
