// An agent and a controller as processes of their own, which share nothing but a store. Both run inside the process of
// the test, on ports of their own.

import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { startAgentProcess } from "#agent/process.ts";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import { startControllerProcess } from "#controller/process.ts";
import { memoryStore } from "#store/memory.ts";
import type { Store } from "#store/store.ts";
import { folderOf } from "../kit/folder.ts";
import { processContext } from "../kit/process-context.ts";
import { call, passes } from "../kit/sluice/check.ts";
import { configOf } from "../kit/sluice/config.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { connectionTo } from "../kit/sluice/stored.ts";
import { until } from "../kit/until.ts";
import { refusesAll } from "./policies.ts";

const CLOSED = refusesAll("shop", "0.05s");

const env = (prefix: string) => ({
  [`${prefix}_SERVER_LISTENER_ADDR`]: "127.0.0.1:0",
  [`${prefix}_OTEL_PORTS_DEBUG_PORT`]: "0",
  [`${prefix}_OTEL_PORTS_HEALTH_CHECK_PORT`]: "0",
  [`${prefix}_OTEL_PORTS_PPROF_PORT`]: "0",
  [`${prefix}_OTEL_PORTS_ZPAGES_PORT`]: "0",
  [`${prefix}_SERVER_DRAIN_ACCEPT_FOR`]: "0s",
});

/** The options that both processes share, and the log lines. */
function around(t: TestContext, store: Store) {
  const scope = new Scope((name, cause) => {
    throw new Error(`stop of ${name} failed`, { cause });
  });
  t.after(() => scope.close("drain"));
  const log = memoryLog();
  return {
    scope,
    lines: log.lines,
    options: {
      store: connectionTo(store),
      context: processContext(scope),
      chance: seededChance(1),
      log: { ...log, close: async () => undefined },
    },
  };
}

async function agentOn(t: TestContext, store: Store) {
  const { options, ...rest } = around(t, store);
  const config = configOf("agent", env("SVC_AGENT"));
  return { ...rest, address: (await startAgentProcess({ ...options, config })).main.address };
}

async function controllerOn(t: TestContext, store: Store, policies: string) {
  const { options, ...rest } = around(t, store);
  const config = configOf("controller", env("SVC_CONTROLLER"));
  const { main } = await startControllerProcess({ ...options, config, policies: [policies] });
  return { ...rest, address: main.address };
}

const getJson = async (address: string, path: string) => {
  const { status, body } = await call(address, "GET", path);
  return { status, body: JSON.parse(body) };
};

test("rules that the controller publishes reach the agent, whichever starts first", async (t) => {
  const store = memoryStore();
  const policies = folderOf(t, {});
  const early = await agentOn(t, store);
  assert.equal(await passes(early.address, "shop"), true, "no rules yet");
  await controllerOn(t, store, policies);
  writeFileSync(join(policies, "closed.yaml"), CLOSED);
  await until("the first agent has the rule", async () => !(await passes(early.address, "shop")));
  const late = await agentOn(t, store);
  assert.equal(await passes(late.address, "shop"), false, "in force before the first check");
  rmSync(join(policies, "closed.yaml"));
  for (const { address } of [early, late])
    await until("the rule is withdrawn", () => passes(address, "shop"));
});

test("each process serves its own routes, health, metrics and info on its own port", async (t) => {
  const store = memoryStore();
  const controller = await controllerOn(t, store, folderOf(t, { "closed.yaml": CLOSED }));
  const agent = await agentOn(t, store);
  assert.notEqual(agent.address, controller.address);
  for (const [{ address, lines }, service] of [
    [agent, "sluice-agent"],
    [controller, "sluice-controller"],
  ] as const) {
    assert.deepEqual(await getJson(address, "/healthz"), {
      status: 200,
      body: { status: "SERVING" },
    });
    assert.equal((await getJson(address, "/v1/status/system/readiness")).status, 200);
    assert.equal((await getJson(address, "/v1/info/version")).body.service, service);
    assert.ok(lines.some(({ message }) => message === `listening on ${address}`));
    assert.deepEqual(
      lines.filter(({ level }) => level === "error"),
      [],
    );
  }
  assert.equal((await call(agent.address, "GET", "/v1/policies")).status, 404);
  assert.equal(
    (await call(controller.address, "POST", "/v1/flowcontrol/checkhttp", {})).status,
    404,
  );
  const { body } = await getJson(controller.address, "/v1/policies");
  assert.deepEqual(Object.keys(body.policies.policies), ["closed"]);

  assert.equal(await passes(agent.address, "shop"), false);
  const agentMetrics = (await call(agent.address, "GET", "/metrics")).body;
  const controllerMetrics = (await call(controller.address, "GET", "/metrics")).body;
  const decisions = /^flowcontrol_decisions_total\{.*REJECTED.*\} 1$/m;
  const ticks = /^sluice_policies\{/m;
  assert.match(agentMetrics, decisions);
  assert.doesNotMatch(controllerMetrics, decisions);
  assert.doesNotMatch(agentMetrics, ticks);
  assert.match(controllerMetrics, ticks);
});

test("an agent keeps the last rules when the controller's process ends", async (t) => {
  const store = memoryStore();
  const controller = await controllerOn(t, store, folderOf(t, { "closed.yaml": CLOSED }));
  const agent = await agentOn(t, store);
  await controller.scope.close("drain");
  await assert.rejects(call(controller.address, "GET", "/healthz"), /ECONNREFUSED/);
  assert.equal(await passes(agent.address, "shop"), false);
  assert.equal((await call(agent.address, "GET", "/healthz")).status, 200);
});
