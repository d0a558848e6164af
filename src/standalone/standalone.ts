// Agent and controller in one process over a store in memory: what a laptop and a lone sidecar run. Either
// half is the one that would run alone; nothing here is a special path.

import { type Agent, startAgent } from "#agent/agent.ts";
import type { Chance } from "#base/chance.ts";
import { idleSettings } from "#config/effects.ts";
import { ConfigFault } from "#config/fault.ts";
import { type Loaded, loadConfig, type Sources } from "#config/load.ts";
import { startController } from "#controller/controller.ts";
import { Health } from "#host/health.ts";
import type { Life } from "#host/run.ts";
import { memoryStore } from "#store/memory.ts";
import { type Log, openLog } from "#telemetry/log.ts";
import { Metrics } from "#telemetry/metrics.ts";
import { PolicyMetrics } from "#telemetry/metrics-policies.ts";

export interface StandaloneConfig {
  readonly agent: Loaded<"agent">;
  readonly controller: Loaded<"controller">;
}

/** Both trees; the faults of both at once. */
export function loadStandalone(sources: Sources): StandaloneConfig {
  const faults: ConfigFault[] = [];
  const attempt = <T>(load: () => T): T | undefined => {
    try {
      return load();
    } catch (thrown) {
      if (!(thrown instanceof ConfigFault)) throw thrown;
      faults.push(thrown);
      return undefined;
    }
  };
  const agent = attempt(() => loadConfig("agent", sources));
  const controller = attempt(() => loadConfig("controller", sources));
  if (agent === undefined || controller === undefined) throw ConfigFault.join(faults);
  return { agent, controller };
}

/** What the drain may take in all, ms, with something to spare for what follows the port. */
export function drainBudget({ agent }: StandaloneConfig): number {
  const { accept_for, grace } = agent.config.server.drain;
  return accept_for + grace + 5_000;
}

export interface StandaloneOptions {
  readonly config: StandaloneConfig;
  /** Directory of policy documents. */
  readonly policies: string;
  readonly life: Life;
  readonly chance: Chance;
}

export async function startStandalone(options: StandaloneOptions): Promise<Agent> {
  const { config, policies, life, chance } = options;
  const { scope, clock } = life;
  const settings = config.agent.config;
  const log = openLog(settings.log, { service: "sluice-agent", clock });
  life.speakThrough({
    close: () => log.close(),
    info: (message) => log.info({}, message),
    error: (message, cause) => log.error(cause === undefined ? {} : { error: cause }, message),
  });
  tellNotes(config, log);
  const metrics = new Metrics(settings.metrics);
  const health = new Health(clock, settings);
  scope.add("health", health.close);
  const store = memoryStore();
  scope.add("store", () => store.close());
  const policyMetrics = new PolicyMetrics();
  metrics.add(policyMetrics);
  const controller = await startController({
    settings: config.controller.config,
    directory: policies,
    ...{ store, clock, chance, env: life.env, fail: life.fail },
    voice: log.child("policies"),
    status: health.root,
    counts: policyMetrics,
    meters: metrics,
  });
  scope.add("controller", controller.stop);
  const debugPort = config.agent.origins.get("otel.ports.debug_port");
  return startAgent({
    config: settings,
    debugPortChosen: debugPort?.source !== "default",
    store,
    log,
    metrics,
    health,
    scope,
    clock,
    chance,
    argv: life.argv,
    guests: controller,
    fail: life.fail,
  });
}

/** Says once what was read oddly, and which settings do nothing yet. */
function tellNotes(config: StandaloneConfig, log: Log): void {
  const voice = log.child("config");
  for (const loaded of [config.agent, config.controller]) {
    for (const { level, path, where, message } of loaded.notes)
      voice[level]({ path, where }, message);
    for (const { path, where, why } of idleSettings(loaded)) {
      voice.warn({ path, where }, `${loaded.process} setting ${path} has no effect: ${why}`);
    }
  }
}
