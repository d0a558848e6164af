// Shared by tests of agents that discover services: an agent in a pod, and what its checks, routes and metrics say.

import type { TestContext } from "node:test";
import { startAgentProcess } from "#agent/process.ts";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import type { Store } from "#store/store.ts";
import { checked } from "../../kit/kube/fake-cluster.ts";
import { variables } from "../../kit/process.ts";
import { processContext } from "../../kit/process-context.ts";
import { call } from "../../kit/sluice/check.ts";
import { configOf } from "../../kit/sluice/config.ts";
import { type MemoryLog, memoryLog } from "../../kit/sluice/log.ts";

export interface AgentOptions {
  readonly store: Store;
  /** Keys of its configuration, as variables without `SVC_AGENT_`. */
  readonly keys?: Readonly<Record<string, string>>;
  /** The environment that its pod has by itself. */
  readonly env: Readonly<Record<string, string>>;
  readonly log?: MemoryLog;
}

/** Starts an agent, and resolves with its address. */
export async function startAgent(
  t: TestContext,
  { store, keys = {}, env, log = memoryLog() }: AgentOptions,
): Promise<string> {
  const scope = new Scope();
  t.after(() => scope.close("cut"));
  const { main } = await startAgentProcess({
    config: configOf("agent", variables("agent", { COUNTERS_ENGINE: "local", ...keys })),
    store,
    context: processContext(scope, { env }),
    chance: seededChance(1),
    log: { ...log, close: async () => undefined },
  });
  return main.address;
}

/** The services in the reply to a check. */
export async function labelsOf(agent: string, from: string, to: string) {
  const { services, source, destination } = await checked(agent, from, to);
  return { services, source, destination };
}

export const get = async (address: string, path: string) => {
  const { status, body } = await call(address, "GET", path);
  return { status, body: JSON.parse(body) };
};

export const metric = async (address: string, name: string) => {
  const { body } = await call(address, "GET", "/metrics");
  return body
    .split("\n")
    .find((line) => line.startsWith(name))
    ?.slice(name.length + 1);
};

export const degraded = (address: string) =>
  metric(address, 'sluice_dependency_degraded{dependency="discovery"}');
