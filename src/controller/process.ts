// Starts a controller, either as part of a process or as the whole process, which then shares a store with agents in
// other processes.

import type { Loaded } from "#config/load.ts";
import type { ControllerConfig } from "#config/tree.ts";
import { openPorts, type Ports } from "#process/ports.ts";
import { type ProcessOptions, type SluiceProcess, startProcess } from "#process/process.ts";
import { PolicyMetrics } from "#telemetry/metrics/policies.ts";
import { type Controller, type ControllerOptions, startController } from "./controller.ts";
import { leadIn } from "./leadership.ts";

export interface ControllerProcessOptions extends Omit<ProcessOptions, "configs"> {
  readonly config: Loaded<"controller">;
  /** Directories of policy documents. */
  readonly policies: readonly string[];
}

/** Waits until this process leads, then starts everything. When it returns, policies run, their rules are in the store, and the port accepts calls. */
export async function startControllerProcess(options: ControllerProcessOptions): Promise<Ports> {
  const process = startProcess({ ...options, configs: [options.config] });
  const leading = { ...process, store: await leadIn(process) };
  return openPorts(process, [
    await startControllerPart(leading, options.config.config, options.policies, {
      sharesStore: true,
    }),
  ]);
}

/** Starts the controller in a process that may have other parts, an agent among them. */
export async function startControllerPart(
  process: SluiceProcess,
  settings: ControllerConfig,
  directories: readonly string[],
  {
    agentGroup,
    sharesStore = false,
  }: Partial<Pick<ControllerOptions, "agentGroup" | "sharesStore">>,
): Promise<Controller> {
  const { store, clock, chance, env, log, health, metrics, scope, fail, onReload } = process;
  const counts = new PolicyMetrics();
  metrics.add(counts);
  const controller = await startController({
    settings,
    directories,
    store,
    clock,
    chance,
    env,
    log: log.child("policies"),
    status: health.root,
    counts,
    meters: metrics,
    agentGroup,
    sharesStore,
    fail,
  });
  scope.add("controller", controller.stop);
  onReload(() => void controller.reload());
  return controller;
}
