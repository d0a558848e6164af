// Classifiers and flux meters of a policy as rules, and what else stands among the resources.

import type { BucketsRule, ClassifierRule, FluxMeterRule } from "#flow/rules.ts";
import {
  type Classifier,
  defaultBounds,
  extractorRule,
  type FluxMeter,
  type Resources,
} from "../language/resources.ts";
import type { Path } from "../tree.ts";
import type { Refuse } from "./scope.ts";
import { selectorRules } from "./selectors.ts";

interface PolicyIdentity {
  readonly policyName: string;
  readonly policyHash: string;
}

export function compileClassifier(
  { rules, selectors }: Classifier,
  index: number,
  { policyName, policyHash }: PolicyIdentity,
): ClassifierRule {
  return {
    kind: "classifier",
    policyName,
    policyHash,
    index,
    selectors: selectorRules(selectors),
    rules: [...rules].map(([label, { telemetry, extractor }]) => ({
      label,
      telemetry,
      extractor: extractorRule(extractor),
    })),
  };
}

export function compileFluxMeter(
  name: string,
  meter: FluxMeter,
  { policyName }: PolicyIdentity,
): FluxMeterRule {
  return {
    kind: "flux_meter",
    policyName,
    name,
    attributeKey: meter.attribute_key,
    buckets: bucketsRule(meter),
    selectors: selectorRules(meter.selectors),
  };
}

function bucketsRule(meter: FluxMeter): BucketsRule {
  const { linear_buckets, exponential_buckets, exponential_buckets_range } = meter;
  if (linear_buckets !== undefined) return { kind: "linear", ...linear_buckets };
  if (exponential_buckets !== undefined) return { kind: "exponential", ...exponential_buckets };
  if (exponential_buckets_range !== undefined) {
    return { kind: "exponential_range", ...exponential_buckets_range };
  }
  return { kind: "static", bounds: meter.static_buckets?.buckets ?? defaultBounds() };
}

/** Infra meters of both places by path; the same name twice is refused. */
export function infraMeters(resources: Resources, path: Path, refuse: Refuse): readonly Path[] {
  const first = new Map<string, Path>();
  const note = (name: string, at: Path): void => {
    if (first.has(name)) refuse(at, "each infra meter name once", `${name} again`);
    else first.set(name, at);
  };
  for (const name of resources.infra_meters.keys()) note(name, [...path, "infra_meters", name]);
  for (const [index, { infra_meters }] of resources.telemetry_collectors.entries()) {
    for (const name of infra_meters.keys()) {
      note(name, [...path, "telemetry_collectors", index, "infra_meters", name]);
    }
  }
  return [...first.values()];
}
