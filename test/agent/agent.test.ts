// The agent joined: what it shows to strangers, its second port, forwarding, and rules of a foreign
// controller that it cannot use.

import assert from "node:assert/strict";
import { createServer } from "node:net";
import { test } from "node:test";
import { startAgent } from "#agent/agent.ts";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import { realClock } from "#host/clock.ts";
import { Health } from "#host/health.ts";
import { memoryStore } from "#store/memory.ts";
import { storedRules } from "#store/rules.ts";
import type { Store } from "#store/store.ts";
import type { Log } from "#telemetry/log.ts";
import { Metrics } from "#telemetry/metrics.ts";
import { call, passes } from "../kit/check.ts";
import { configOf } from "../kit/config.ts";
import { until } from "../kit/port.ts";

interface Line {
  readonly level: string;
  readonly fields: object;
  readonly message: string;
}

function memoryLog(): Log & { readonly lines: Line[] } {
  const lines: Line[] = [];
  const at = (level: string) => (fields: object, message: string) => {
    lines.push({ level, fields, message });
  };
  const log = {
    lines,
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: () => log,
    dropped: 0,
    close: async () => undefined,
  };
  return log;
}

async function agentOn(
  test: { after(work: () => Promise<void>): void },
  env: Readonly<Record<string, string>> = {},
  {
    store = memoryStore(),
    debugPortChosen = false,
  }: { store?: Store; debugPortChosen?: boolean } = {},
) {
  const { config } = configOf("agent", {
    SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
    SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
    SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "0s",
    ...env,
  });
  const log = memoryLog();
  const scope = new Scope();
  const clock = realClock();
  const health = new Health(clock, config);
  scope.add("health", health.close);
  test.after(() => scope.close("drain"));
  const failures: string[] = [];
  const agent = await startAgent({
    config,
    debugPortChosen,
    store,
    log,
    metrics: new Metrics(config.metrics),
    health,
    scope,
    clock,
    chance: seededChance(1),
    argv: [],
    fail: (message) => failures.push(message),
  });
  return { agent, address: agent.port.address, lines: log.lines, health, failures, store };
}

const closed = {
  kind: "concurrency_limiter",
  policyName: "p",
  policyHash: "h",
  componentId: "root.0",
  selectors: [
    {
      controlPoint: "shop",
      agentGroup: "default",
      service: "any",
      matcher: { labels: {}, list: [], expression: undefined },
    },
  ],
  onFailure: "local",
  deniedStatus: 0,
  limitByLabelKey: "",
  tokensLabelKey: "",
  maxInflightMs: 1_000,
  maxIdleMs: 0,
} as const;
const none = {
  kind: "concurrency_limiter",
  policyName: "p",
  policyHash: "h",
  componentId: "root.0",
  maxConcurrency: 0,
  passThrough: false,
} as const;

async function publish(store: Store, stored: ReadonlyMap<string, Uint8Array>): Promise<void> {
  await store.commit([...stored].map(([key, value]) => ({ kind: "put", key, value })));
}

test("routes that strangers reach without TLS are named at start; on loopback nothing is said", async (t) => {
  const open = await agentOn(t, { SVC_AGENT_SERVER_LISTENER_ADDR: "0.0.0.0:0" });
  const warning = open.lines.find(({ level }) => level === "warn");
  assert.match(warning?.message ?? "", /without TLS/);
  assert.match(JSON.stringify(warning?.fields), /GET \/debug\/pprof\/heap/);
  assert.doesNotMatch(JSON.stringify(warning?.fields), /checkhttp/);
  const local = await agentOn(t);
  assert.deepEqual(
    local.lines.filter(({ level }) => level === "warn"),
    [],
  );
});

test("the debug port carries /metrics and nothing else", async (t) => {
  const free = await freePort();
  const { agent } = await agentOn(t, { SVC_AGENT_OTEL_PORTS_DEBUG_PORT: String(free) });
  const debug = agent.debugAddress ?? "";
  assert.equal(debug, `127.0.0.1:${free}`);
  assert.equal((await call(debug, "GET", "/metrics")).status, 200);
  assert.equal((await call(debug, "GET", "/v1/status")).status, 404);
});

test("a debug port that is taken is done without, unless somebody chose it", async (t) => {
  const rival = createServer();
  await new Promise<void>((resolve) => rival.listen(0, "127.0.0.1", resolve));
  t.after(() => new Promise<void>((resolve) => void rival.close(() => resolve())));
  const address = rival.address();
  assert.ok(address !== null && typeof address === "object");
  const env = { SVC_AGENT_OTEL_PORTS_DEBUG_PORT: String(address.port) };
  const without = await agentOn(t, env);
  assert.equal(without.agent.debugAddress, undefined);
  assert.ok(
    without.lines.some(({ level, message }) => level === "warn" && /no debug port/.test(message)),
  );
  await assert.rejects(agentOn(t, env, { debugPortChosen: true }));
});

test("with a gateway address the JSON routes are judged by the other server", async (t) => {
  const store = memoryStore();
  await publish(store, storedRules([closed], [none]));
  const judging = await agentOn(t, {}, { store });
  const door = await agentOn(t, {
    SVC_AGENT_SERVER_GRPC_GATEWAY_GRPC_SERVER_ADDRESS: judging.address,
  });
  assert.equal(await passes(door.address, "shop"), false);
  assert.equal(await passes(door.address, "elsewhere"), true);
  const direct = await call(judging.address, "POST", "/v1/flowcontrol/checkhttp", {
    control_point: "shop",
  });
  const forwarded = await call(door.address, "POST", "/v1/flowcontrol/checkhttp", {
    control_point: "shop",
  });
  const shape = (value: unknown): unknown =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, shape(inner)]))
      : typeof value;
  assert.deepEqual(shape(JSON.parse(forwarded.body)), shape(JSON.parse(direct.body)));
  const bad = await call(door.address, "POST", "/v1/flowcontrol/checkhttp", {});
  assert.deepEqual([bad.status, JSON.parse(bad.body).message], [400, "missing control-point"]);
});

test("a value of a foreign controller that cannot be used is told, and the rest goes on", async (t) => {
  const { address, lines, store, health } = await agentOn(t);
  const stored = new Map(storedRules([closed], [none]));
  stored.set(
    "/config/sampler/agent_group-default-policy-q-component_id-root.0",
    new Uint8Array([255]),
  );
  await publish(store, stored);
  await until("the good rule is in force", async () => !(await passes(address, "shop")));
  assert.ok(lines.some(({ level, message }) => level === "error" && /policy-q/.test(message)));
  assert.match(health.root.find("system/readiness")?.trouble() ?? "", /policy-q/);
});

test("a store that ends its watch fails the process; a stop does not", async (t) => {
  const store = memoryStore();
  const agent = await agentOn(t, {}, { store });
  await store.close();
  await until("the failure is told", () => agent.failures.length === 1);
});

test("readiness is refused from the moment the stop begins", async (t) => {
  const { health, agent } = await agentOn(t);
  assert.equal(health.phase, "running");
  assert.equal((await call(agent.port.address, "GET", "/healthz")).status, 200);
});

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" ? (address?.port ?? 0) : 0));
    });
  });
}
