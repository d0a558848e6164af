// Clients of Envoy that leave before their reply: neither the check that Envoy gives up nor the request that it no longer
// forwards keeps a slot of a concurrency limiter.

import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { slotsHeld, slotsPolicy } from "../kit/attack/slots.ts";
import { END_HEADERS, END_STREAM, headers, httpFields, rawPeer, reset } from "../kit/clients/h2.ts";
import { block } from "../kit/clients/hpack.ts";
import { AT } from "../kit/servers/bootstrap.ts";
import { startEnvoy, startService } from "../kit/servers/envoy.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const SLOTS = 50;
const CLIENTS = 60;
const ROUNDS = 10;

interface House {
  readonly address: string;
  readonly port: number;
  /** Stops the agent from running, so that checks wait for it, or lets it go on. */
  stop(on: boolean): void;
}

/** An agent, and an Envoy in front of a service, whose checks may take the given time. */
async function house(t: TestContext, timeout: string): Promise<House> {
  const { address, child } = await standaloneProcess(t, {
    policies: { "slots.yaml": slotsPolicy("ingress", SLOTS) },
  });
  const { port } = await startEnvoy(t, {
    agent: address,
    service: await startService(t),
    edit(bootstrap) {
      bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], timeout);
      // The agent is stopped for a moment, but stays in use.
      bootstrap.remove(["static_resources", "clusters", 0, "health_checks"]);
    },
  });
  return { address, port, stop: (on) => void child.kill(on ? "SIGSTOP" : "SIGCONT") };
}

/** Lets clients leave ten times; after each time all slots are free. */
async function rounds(
  t: TestContext,
  { address, port, stop }: House,
  stopped: boolean,
  leave: (port: number, t: TestContext) => Promise<unknown>,
): Promise<void> {
  t.after(() => stop(false));
  for (let round = 0; round < ROUNDS; round++) {
    if (stopped) stop(true);
    await leave(port, t);
    if (stopped) stop(false);
    const free = async () => (await slotsHeld(address, "ingress")) === 0;
    await until(`round ${round}: all slots free`, free);
  }
}

/** Otherwise the agent would have seen none of the checks. */
async function assertReleased({ address }: House): Promise<void> {
  const counts = await counted(address, "sluice_anomalies_total", "kind");
  assert.ok((counts["undelivered"] ?? 0) > 0, JSON.stringify(counts));
}

const inParallel = (leave: (port: number) => Promise<void>) => (port: number) =>
  Promise.all(Array.from({ length: CLIENTS }, () => leave(port)));

const ended = (socket: Socket): Promise<void> =>
  new Promise((resolve) => socket.once("close", () => resolve()));

function request(port: number, then: (socket: Socket) => void): Promise<void> {
  const socket = connect({ host: "127.0.0.1", port, noDelay: true });
  socket.on("error", () => undefined);
  socket.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n", () => then(socket));
  return ended(socket);
}

const closes = (port: number) => request(port, (socket) => socket.destroy());
const resets = (port: number) => request(port, (socket) => socket.resetAndDestroy());

const GET = block(httpFields("GET", "/"));

/** Requests on one HTTP/2 connection, each followed by its reset, in one write. */
async function cancelAtOnce(port: number, t: TestContext): Promise<void> {
  const peer = await rawPeer(t, `127.0.0.1:${port}`);
  const request = (id: number) =>
    Buffer.concat([headers(id, GET, END_HEADERS | END_STREAM), reset(id)]);
  await peer.send(peer.onNewStreams(CLIENTS, request));
  await peer.pingRoundTrip();
}

/** Requests on one HTTP/2 connection, which Envoy has read when their resets follow. */
async function cancelLater(port: number, t: TestContext): Promise<void> {
  const peer = await rawPeer(t, `127.0.0.1:${port}`);
  const from = peer.lastStream + 2;
  await peer.send(peer.onNewStreams(CLIENTS, (id) => headers(id, GET, END_HEADERS | END_STREAM)));
  await peer.pingRoundTrip();
  for (let id = from; id <= peer.lastStream; id += 2) await peer.send(reset(id));
  await peer.pingRoundTrip();
}

for (const [how, leave] of [
  ["close the connection", inParallel(closes)],
  ["reset the connection", inParallel(resets)],
  ["cancel their HTTP/2 requests in the same write", cancelAtOnce],
  ["cancel their HTTP/2 requests in the next write", cancelLater],
] as const) {
  test(`clients that ${how}`, async (t) => {
    const its = await house(t, "5s");
    await t.test("at once", (t) => rounds(t, its, false, leave));
    await t.test("while the agent does not answer", (t) => rounds(t, its, true, leave));
    await assertReleased(its);
  });
}

test("requests that Envoy gives up because the check takes too long", async (t) => {
  const waits = inParallel((port) =>
    request(port, (socket) => socket.once("data", () => socket.end())),
  );
  const its = await house(t, "0.25s");
  await rounds(t, its, true, waits);
  await assertReleased(its);
});
