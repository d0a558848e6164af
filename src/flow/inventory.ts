// Lists the parts of the rules in force. Telemetry keeps series for these parts only, and is given the list in the turn in
// which a plan is swapped.

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
    components: here.flatMap(({ limiters }) => limiters.map(({ component }) => component)),
    classifiers,
    fluxMeters,
    controlPoints: [...plan.controlPoints.keys()],
  };
}
