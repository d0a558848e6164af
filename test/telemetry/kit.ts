// Flows and verdicts for metric tests, with every field that a test does not care about filled in.

import type { ClassifierInfo, Component, Decision, Flow, Verdict } from "#flow/flow.ts";
import type { FluxMeterRule } from "#flow/rules.ts";

export function aComponent(changed: Partial<Component> = {}): Component {
  return {
    policyName: "p",
    policyHash: "h",
    componentId: "root.0",
    kind: "rate_limiter",
    deniedStatus: 0,
    onFailure: "open",
    ...changed,
  };
}

export function aDecision(changed: Partial<Decision> = {}): Decision {
  return {
    component: aComponent(),
    outcome: "granted",
    dropped: false,
    missing: 0,
    waitMs: -1,
    grantId: undefined,
    failure: undefined,
    detail: { label: "default", value: undefined, remaining: 0, current: 0, consumed: 0 },
    ...changed,
  };
}

export function aClassifier(changed: Partial<ClassifierInfo> = {}): ClassifierInfo {
  return {
    policyName: "p",
    policyHash: "h",
    classifierIndex: 0,
    error: 0,
    unreadable: undefined,
    ...changed,
  };
}

export function aFlow(controlPoint = "ingress"): Flow {
  // The members that metrics read.
  return { controlPoint, type: "http", services: [] as readonly string[] } as Flow;
}

export function aVerdict(changed: Partial<Verdict> = {}): Verdict {
  const verdict = { accepted: true, reason: 0, deniedStatus: 0, waitMs: 0, decisions: [] };
  const rest = { classifiers: [], fluxMeters: [], reservationId: "", start: 0, end: 0 };
  return { ...verdict, ...rest, ...changed } as unknown as Verdict;
}

export function aFluxMeter(changed: Partial<FluxMeterRule> = {}): FluxMeterRule {
  return {
    kind: "flux_meter",
    policyName: "p",
    name: "m",
    attributeKey: "workload_duration_ms",
    buckets: { kind: "static", bounds: [5, 10] },
    selectors: [],
    ...changed,
  };
}
