// Names of signals and model series. A signal of the root circuit has its plain name, one of a nested circuit is
// prefixed by its circuit's id; with several policies, the policy's name is a further prefix where needed.

import type { CircuitPlan } from "#circuit/plan.ts";

/** Series of a service's model: each is the series `<service>.<name>` and the metric `model_<name>` with the label `service`. */
export const MODEL_SERIES = {
  offered: "requests per second that arrived in the last sample interval",
  accepted: "requests per second that were accepted",
  goodput: "requests per second that were answered",
  refused: "requests per second that were refused",
  failed: "requests per second that found the queue full or whose callers stopped waiting",
  latency_p50: "median latency of requests that ended in the last sample interval, ms",
  latency_p95: "95th percentile of the same latencies, ms",
  in_service: "requests being served now",
  queued: "requests waiting in the queue now",
  utilisation: "fraction of time in which the servers were busy, 0 to 1",
} as const;
export type ModelSeries = keyof typeof MODEL_SERIES;

export function modelName(service: string, series: ModelSeries): string {
  return `${service}.${series}`;
}

/** The full name of each signal of a plan, in the plan's order. */
export function signalNames({ policyName, signals }: CircuitPlan): readonly string[] {
  return signals.map(({ circuit, name }) => `${policyName}/${circuit}/${name}`);
}

/** All accepted names, each with the full names that it may refer to. */
export function aliases(plans: readonly CircuitPlan[]): ReadonlyMap<string, readonly string[]> {
  const known = new Map<string, string[]>();
  const add = (alias: string, name: string) => {
    const names = known.get(alias);
    if (names === undefined) known.set(alias, [name]);
    else names.push(name);
  };
  for (const plan of plans) {
    const names = signalNames(plan);
    for (const [at, { circuit, name }] of plan.signals.entries()) {
      const full = names[at] ?? "";
      add(full, full);
      add(`${circuit}/${name}`, full);
      if (circuit !== "root") continue;
      add(name, full);
      add(`${plan.policyName}/${name}`, full);
    }
  }
  return known;
}
