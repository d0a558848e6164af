// The parts of the rules in force. Telemetry keeps series for these parts and removes all others, so it is given
// this list in the same turn in which a plan is swapped.

import type { Component } from "./flow.ts";
import type { Rulebook } from "./rulebook.ts";
import type { ClassifierRule, FluxMeterRule } from "./rules.ts";

export interface Inventory {
  /** One for each component and control point. */
  readonly components: readonly Component[];
  readonly classifiers: readonly (ClassifierRule & { readonly classifierIndex: number })[];
  readonly fluxMeters: readonly FluxMeterRule[];
  readonly controlPoints: readonly string[];
}

export function inventoryOf({ plan, rules }: Pick<Rulebook, "plan" | "rules">): Inventory {
  const classifiers: Inventory["classifiers"][number][] = [];
  const fluxMeters: FluxMeterRule[] = [];
  for (const rule of rules.values()) {
    if (rule.kind === "classifier") classifiers.push({ ...rule, classifierIndex: rule.index });
    else if (rule.kind === "flux_meter") fluxMeters.push(rule);
  }
  const here = [...plan.controlPoints.values()];
  return {
    components: here.flatMap(({ members }) => members.map(({ component }) => component)),
    classifiers,
    fluxMeters,
    controlPoints: [...plan.controlPoints.keys()],
  };
}
