// The ports of `otel.ports`: what each serves, when it must be had, and who may use it.

import assert from "node:assert/strict";
import { request } from "node:http";
import { createServer } from "node:net";
import { type TestContext, test } from "node:test";
import { Fault } from "#base/fault.ts";
import type { Route } from "#base/handler.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { freePort } from "../kit/free-port.ts";
import { processOn } from "../kit/process.ts";
import { call } from "../kit/sluice/check.ts";
import { until } from "../kit/until.ts";

const KEYS = ["debug_port", "health_check_port", "pprof_port", "zpages_port"] as const;
const variable = (key: string) => `OTEL_PORTS_${key.toUpperCase()}`;

async function taken(t: TestContext): Promise<number> {
  const rival = createServer();
  await new Promise<void>((resolve) => rival.listen(0, "127.0.0.1", resolve));
  t.after(() => new Promise<void>((resolve) => void rival.close(() => resolve())));
  const address = rival.address();
  assert.ok(address !== null && typeof address === "object");
  return address.port;
}

for (const name of ["agent", "controller"] as const)
  for (const key of KEYS) {
    test(`${name}: otel.ports.${key} is opened where it says, must be had, and 0 closes it`, async (t) => {
      const free = await freePort();
      const { ports, process } = await processOn(t, name, {
        env: { [variable(key)]: String(free) },
      });
      assert.deepEqual([...ports.telemetry], [[key, `127.0.0.1:${free}`]]);
      const node = `system/readiness/job-group/job_groups/job-group/readiness/executor/${key.replaceAll("_", "-")}`;
      await until("the port was checked", () => {
        const status = process.health.root.find(node)?.view().status;
        return String(status?.message?.value).includes("accepts connections");
      });
      const closed = await processOn(t, name);
      assert.deepEqual([...closed.ports.telemetry], []);
      await assert.rejects(
        processOn(t, name, { env: { [variable(key)]: String(await taken(t)) } }),
        new RegExp(`cannot listen on otel\\.ports\\.${key}: the address is in use`),
      );
    });

    test(`${name}: a default of otel.ports.${key} that is taken is left out with a warning`, async (t) => {
      const port = await taken(t);
      const { ports, lines } = await processOn(t, name, {
        env: { [variable(key)]: String(port) },
        chosen: (path) => path !== `otel.ports.${key}`,
      });
      assert.deepEqual([...ports.telemetry], []);
      const warning = lines.filter(
        ({ level, message }) => level === "warn" && /is not opened/.test(message),
      );
      assert.equal(warning.length, 1, JSON.stringify(warning));
      assert.match(
        warning[0]?.message ?? "",
        new RegExp(`^otel\\.ports\\.${key} is not opened: the address is in use`),
      );
    });
  }

test("ports that are not opened for one reason warn each under its own key", async (t) => {
  const numbers = await Promise.all(KEYS.map(() => taken(t)));
  const { lines } = await processOn(t, "agent", {
    env: Object.fromEntries(KEYS.map((key, at) => [variable(key), String(numbers[at])])),
    chosen: (path) => !path.startsWith("otel.ports."),
  });
  const warnings = lines.filter(({ message }) => message.includes("is not opened"));
  assert.deepEqual(
    warnings.map(({ message }) => message.split(" ")[0]),
    KEYS.map((key) => `otel.ports.${key}`),
  );
});

/** Opens one of the ports, and returns its address with the process. */
async function portOf(
  t: TestContext,
  key: (typeof KEYS)[number],
  env: Readonly<Record<string, string>> = {},
  routes: readonly Route[] = [],
) {
  const started = await processOn(t, "agent", {
    env: { [variable(key)]: String(await freePort()), ...env },
    parts: [{ routes, services: [] }],
  });
  return { ...started, at: started.ports.telemetry.get(key) ?? assert.fail() };
}

test("the health port says whether the process is alive and ready, over HTTP and gRPC, and nothing else", async (t) => {
  const { at, process } = await portOf(t, "health_check_port");
  const probes = ["/", "/v1/status/system/liveness", "/v1/status/system/readiness"];
  const codes = () => Promise.all(probes.map(async (path) => (await call(at, "GET", path)).status));
  const client = grpcClient(t, at);
  const serving = async () =>
    (await client.unary("/grpc.health.v1.Health/Check", new Uint8Array())).message?.[1];
  await until("the checks have run", () => process.health.healthy);
  assert.deepEqual(await codes(), [200, 200, 200]);
  assert.equal(await serving(), 1);
  process.health.liveness.check("disk", () => {
    throw new Fault("UNAVAILABLE", "full");
  });
  await until("the check has run", () => !process.health.healthy);
  assert.deepEqual(await codes(), [503, 503, 200]);
  assert.equal(await serving(), 2);
  assert.equal((await call(at, "GET", "/healthz")).status, 200, "the process serves");
  for (const path of ["/v1/status", "/debug/pprof", "/metrics"])
    assert.equal((await call(at, "GET", path)).status, 404, path);
});

test("the profile port serves profiles on loopback, whether or not the main port does", async (t) => {
  const { at, address } = await portOf(t, "pprof_port", {
    SERVER_LISTENER_ADDR: "0.0.0.0:0",
    PROFILERS_REGISTER_HTTP_ROUTES: "false",
  });
  assert.match(at, /^127\.0\.0\.1:/);
  const list = await call(at, "GET", "/debug/pprof");
  assert.equal(list.status, 200);
  assert.match(list.body, /\/debug\/pprof\/profile/);
  const main = address.replace("0.0.0.0", "127.0.0.1");
  assert.equal((await call(main, "GET", "/debug/pprof")).status, 404);
});

test("profiles and debug pages are administration on their ports too: token, pages of other sites, switched off", async (t) => {
  for (const [key, path] of [
    ["pprof_port", "/debug/pprof"],
    ["zpages_port", "/debug/tracez"],
    ["zpages_port", "/debug/connectionz"],
  ] as const) {
    const token = "correct-horse-battery-staple";
    const guarded = await portOf(t, key, { SERVER_ADMINISTRATION_TOKEN: token });
    assert.equal((await call(guarded.at, "GET", path)).status, 401, path);
    assert.equal(await getWith(guarded.at, path, { authorization: `Bearer ${token}` }), 200);
    const open = await portOf(t, key);
    assert.equal(await getWith(open.at, path, {}), 200);
    assert.equal(await getWith(open.at, path, { origin: "http://evil.example" }), 403);
    assert.equal(await getWith(open.at, path, { host: "evil.example" }), 403);
    const off = await processOn(t, "agent", {
      env: {
        [variable(key)]: String(await freePort()),
        SERVER_ADMINISTRATION_ENABLED: "false",
      },
    });
    assert.deepEqual([...off.ports.telemetry], []);
    assert.ok(
      off.lines.some(({ message }) => message.startsWith(`otel.ports.${key} is not opened`)),
    );
  }
});

test("metrics and health listen where host says, apart from the main port and from administration", async (t) => {
  const [metrics, health, pages] = [await freePort(), await freePort(), await freePort()];
  const { ports } = await processOn(t, "agent", {
    env: {
      OTEL_PORTS_HOST: "0.0.0.0",
      OTEL_PORTS_DEBUG_PORT: String(metrics),
      OTEL_PORTS_HEALTH_CHECK_PORT: String(health),
      OTEL_PORTS_ZPAGES_PORT: String(pages),
    },
  });
  assert.match(ports.main.address, /^127\.0\.0\.1:/);
  assert.deepEqual(Object.fromEntries(ports.telemetry), {
    debug_port: `0.0.0.0:${metrics}`,
    health_check_port: `0.0.0.0:${health}`,
    zpages_port: `127.0.0.1:${pages}`,
  });
});

function getWith(address: string, path: string, headers: Record<string, string>): Promise<number> {
  const [host, port] = address.split(":");
  return new Promise((resolve, reject) => {
    const sent = request({ host, port, path, headers: { connection: "close", ...headers } });
    sent.on("response", (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on("error", reject);
    sent.end();
  });
}

test("the debug pages show slow calls and connections", async (t) => {
  const held = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  const slow: Route = {
    method: "GET",
    path: "/slow/{id}",
    about: "",
    access: "open",
    async handle() {
      arrived.resolve();
      await held.promise;
      return { status: 200, headers: {}, body: "" };
    },
  };
  const { at, address, clock, process } = await portOf(t, "zpages_port", {}, [slow]);
  const page = async (path: string) => (await call(at, "GET", path)).body;
  assert.doesNotMatch(await page("/debug/tracez"), /slow/);
  const reply = call(address, "GET", "/slow/secret-id");
  await arrived.promise;
  assert.match(await page("/debug/connectionz"), /^port 127\.0\.0\.1:\d+: 1 open$/m);
  assert.match(await page("/debug/connectionz"), /^zpages_port 127\.0\.0\.1:\d+: 1 open$/m);
  clock.advance(3_000);
  assert.match(await page("/debug/connectionz"), /^127\.0\.0\.1:\d+\thttp1\t3\t\d+\t0$/m);
  clock.advance(12);
  held.resolve();
  await reply;
  await call(address, "GET", "/healthz");
  const shown = await page("/debug/tracez");
  assert.match(shown, /\t3012\.0\t200\tGET \/slow\/\{id\}$/m);
  assert.doesNotMatch(shown, /secret-id|healthz/);
  // Kept: the last hundred.
  for (let at = 0; at < 150; at++) process.serverMetrics.slow.add(20, "OK", `call ${at}`);
  const calls = (await page("/debug/tracez")).match(/call \d+/g) ?? [];
  assert.equal(calls.length, 100);
  assert.deepEqual([calls[0], calls[99]], ["call 149", "call 50"]);
});
