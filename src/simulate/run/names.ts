// What signals and model series are called: a signal of the root circuit by its name, one of a nested circuit
// behind its circuit's id; with several policies, each behind its policy's name where that is needed.

import type { CircuitPlan } from "#circuit/plan.ts";

/** What a service's model shows, each as `<service>.<name>` and as the metric `model_<name>` with the label service. */
export const MODEL_SERIES = {
  offered: "requests a second that came in the last sample interval",
  accepted: "requests a second that were let in",
  goodput: "requests a second that were answered",
  refused: "requests a second that were refused",
  failed: "requests a second that found no room or whose callers stopped waiting",
  latency_p50: "median latency of what ended in the last sample interval, ms",
  latency_p95: "95th percentile of the same",
  in_service: "requests at work now",
  queued: "requests that wait now",
  utilisation: "part of the servers' time that was work, 0 to 1",
} as const;
export type ModelSeries = keyof typeof MODEL_SERIES;

export function modelName(service: string, series: ModelSeries): string {
  return `${service}.${series}`;
}

/** The full name of each signal of a plan, in the plan's order. */
export function signalNames({ policyName, signals }: CircuitPlan): readonly string[] {
  return signals.map(({ circuit, name }) => `${policyName}/${circuit}/${name}`);
}

/** Names that people may use, each with the full names that it stands for. */
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
