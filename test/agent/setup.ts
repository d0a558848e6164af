// Shared by the tests of a whole agent: starting one, and a policy that refuses.

import assert from "node:assert/strict";
import { startAgent } from "#agent/agent.ts";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import { openPorts } from "#daemon/ports.ts";
import { startProcess } from "#daemon/process.ts";
import { memoryStore } from "#store/memory.ts";
import type { Store } from "#store/store.ts";
import { decisionEntries } from "#sync/publish/decision.ts";
import { configEntries } from "#sync/publish/policy.ts";
import { processContext } from "../kit/process-context.ts";
import { configOf } from "../kit/sluice/config.ts";
import { type LogLine, memoryLog } from "../kit/sluice/log.ts";

/** Origins of a tree in which nothing was set. */
const ALL_DEFAULT = new Map([["otel.ports.debug_port", { source: "default", where: "" }] as const]);

export async function agentOn(
  test: { after(work: () => Promise<void>): void },
  env: Readonly<Record<string, string>> = {},
  {
    store = memoryStore(),
    debugPortByDefault = false,
  }: { store?: Store; debugPortByDefault?: boolean } = {},
) {
  const config = configOf("agent", {
    SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
    SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
    SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
    SVC_AGENT_OTEL_PORTS_PPROF_PORT: "0",
    SVC_AGENT_OTEL_PORTS_ZPAGES_PORT: "0",
    SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "0s",
    ...env,
  });
  const log = memoryLog();
  const scope = new Scope();
  test.after(() => scope.close("cut"));
  const failures: string[] = [];
  const fail = (message: string) => void failures.push(message);
  const process = startProcess({
    configs: [{ ...config, notes: [], ...(debugPortByDefault && { origins: ALL_DEFAULT }) }],
    store,
    context: processContext(scope, { fail }),
    chance: seededChance(1),
    log: { ...log, close: async () => undefined },
  });
  const agent = await startAgent(process, config.config);
  const ports = await openPorts(process, [agent]);
  const { health } = process;
  return { ports, address: ports.main.address, lines: log.lines, health, failures, store, scope };
}

/** A policy that refuses every request at `shop`. */
export function closed(): Map<string, Uint8Array> {
  const policy = { name: "p", hash: "h" };
  const agentGroups = ["default"];
  const message = {
    selectors: [{ control_point: "shop", agent_group: "default", service: "any" }],
    parameters: { max_inflight_duration: "1s" },
  };
  const kind = "concurrency_limiter";
  const component = { componentId: "root.0", agentGroups };
  const none = { ...component, kind, maxConcurrency: 0, passThrough: false } as const;
  const entries = new Map(
    configEntries({ ...policy, configs: [{ kind, name: "root.0", agentGroups, message }] }),
  );
  for (const [key, value] of decisionEntries(policy, none))
    entries.set(key, value ?? assert.fail());
  return entries;
}

export async function publish(
  store: Store,
  stored: ReadonlyMap<string, Uint8Array>,
): Promise<void> {
  await store.commit([...stored].map(([key, value]) => ({ kind: "put", key, value })));
}

export const warnings = ({ lines }: { readonly lines: readonly LogLine[] }) =>
  lines.filter(({ level }) => level === "warn");
