// Measures the flows of an agent: metrics, flux meters, and warnings in status and log.

import type { AgentConfig } from "#config/tree.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import type { Inventory } from "#flow/inventory.ts";
import { type Observer, withListeners } from "#flow/observer.ts";
import { FlowMetrics } from "#telemetry/flows/flow-metrics.ts";
import { FluxMeters } from "#telemetry/flows/flux-meter.ts";
import { UnreportedFlows } from "#telemetry/flows/unreported-flows.ts";
import { LimitsInForce } from "./limits-in-force.ts";
import { LostEnds } from "./warnings/lost-ends.ts";
import { fullReservations } from "./warnings/settlement.ts";

export interface FlowTelemetry {
  readonly flowMetrics: FlowMetrics;
  readonly fluxMeters: FluxMeters;
  readonly unreported: UnreportedFlows;
  readonly lostEnds: LostEnds;
  readonly observer: Observer;
  /** Keeps series for these parts of the rules in force, and removes all others. */
  keep(inventory: Inventory): void;
}

/** Half of the ten minutes after which series that nobody uses are removed. */
const SWEEP_MS = 300_000;

export function openFlowTelemetry(process: SluiceProcess, config: AgentConfig): FlowTelemetry {
  const { clock, health, metrics, scope } = process;
  const flowMetrics = new FlowMetrics(config.agent_info);
  const fluxMeters = new FluxMeters();
  const unreported = new UnreportedFlows();
  const swept = [flowMetrics, fluxMeters, unreported];
  for (const source of swept) metrics.add(source);
  let stopAlarm: () => void;
  const sweepLater = () => {
    stopAlarm = clock.alarm(SWEEP_MS, () => {
      for (const each of swept) each.sweep();
      sweepLater();
    });
  };
  sweepLater();
  scope.add("sweep", async () => stopAlarm());
  const lostEnds = new LostEnds(process);
  const listeners = [unreported, lostEnds, fullReservations(process)];
  let components: Inventory["components"] = [];
  const limits = new LimitsInForce({
    clock,
    log: process.log.child("limits"),
    status: health.root.at("system", "limits"),
    components: () => components,
    gauges: (name) => flowMetrics.gauges(name),
  });
  scope.add("limits in force", limits.close);
  return {
    flowMetrics,
    fluxMeters,
    unreported,
    lostEnds,
    observer: withListeners(flowMetrics, listeners),
    keep(inventory) {
      ({ components } = inventory);
      flowMetrics.keep(inventory);
      fluxMeters.keep(inventory.fluxMeters);
    },
  };
}
