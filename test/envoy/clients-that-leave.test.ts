// Clients of Envoy that leave before their reply: neither the check that Envoy gives up nor the request that it no longer
// forwards keeps a slot of a concurrency limiter.

import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { slotsHeld, slotsPolicy } from "../kit/attack/slots.ts";
import { AT } from "../kit/servers/bootstrap.ts";
import { startEnvoy, startService } from "../kit/servers/envoy.ts";
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

async function house(t: TestContext): Promise<House> {
  const { address, child } = await standaloneProcess(t, {
    policies: { "slots.yaml": slotsPolicy("ingress", SLOTS) },
  });
  const { port } = await startEnvoy(t, {
    agent: address,
    service: await startService(t),
    edit(bootstrap) {
      bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], "5s");
      // The agent is stopped for a moment, but stays in use.
      bootstrap.remove(["static_resources", "clusters", 0, "health_checks"]);
    },
  });
  return { address, port, stop: (on) => void child.kill(on ? "SIGSTOP" : "SIGCONT") };
}

async function rounds(
  t: TestContext,
  { address, port, stop }: House,
  stopped: boolean,
  leave: (port: number) => Promise<void>,
): Promise<void> {
  t.after(() => stop(false));
  for (let round = 0; round < ROUNDS; round++) {
    if (stopped) stop(true);
    await Promise.all(Array.from({ length: CLIENTS }, () => leave(port)));
    if (stopped) stop(false);
    const free = async () => (await slotsHeld(address, "ingress")) === 0;
    await until(`round ${round}: all slots free`, free);
  }
}

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

async function cancels(port: number): Promise<void> {
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  session.on("error", () => undefined);
  const stream = session.request({ ":path": "/" });
  stream.on("error", () => undefined);
  await new Promise((resolve) => session.once("remoteSettings", resolve));
  stream.close(8);
  await new Promise((resolve) => stream.once("close", resolve));
  session.destroy();
}

for (const [how, leave] of [
  ["close the connection", closes],
  ["reset the connection", resets],
  ["cancel their HTTP/2 request", cancels],
] as const) {
  test(`clients that ${how}`, async (t) => {
    const its = await house(t);
    await t.test("at once", (t) => rounds(t, its, false, leave));
    await t.test("while the agent does not answer", (t) => rounds(t, its, true, leave));
  });
}

test("requests that Envoy gives up because the check takes too long", async (t) => {
  const { address, child } = await standaloneProcess(t, {
    policies: { "slots.yaml": slotsPolicy("ingress", SLOTS) },
  });
  const { port } = await startEnvoy(t, {
    agent: address,
    service: await startService(t),
    edit: (bootstrap) => bootstrap.remove(["static_resources", "clusters", 0, "health_checks"]),
  });
  const stop = (on: boolean) => void child.kill(on ? "SIGSTOP" : "SIGCONT");
  const waits = (port: number) =>
    request(port, (socket) => socket.once("data", () => socket.end()));
  await rounds(t, { address, port, stop }, true, waits);
});
