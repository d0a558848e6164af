// Flows, labels and scripted limiters, for tests of the flow controller.

import type { Classifier } from "#flow/classify/classifier.ts";
import type { Flow, HttpAttributes } from "#flow/flow.ts";
import { type Component, type Decision, type Grant, NO_DETAIL, Pending } from "#flow/flow.ts";
import { EMPTY_SCHEMA, type LabelSource } from "#flow/label.ts";
import { holdsSlots, type Limiter } from "#flow/limit/limiter.ts";
import { type Anomaly, NO_OBSERVER, type Observer } from "#flow/observer.ts";
import type { Plan, Step } from "#flow/plan/plan.ts";
import type { LimiterKind } from "#flow/rules.ts";
import type { Stage } from "#flow/stages.ts";

/** Labels that all came as claims. */
export function claims(labels: Readonly<Record<string, string>>): LabelSource {
  return {
    get: ({ name }) => labels[name],
    origin: ({ name }) => (name in labels ? "claim" : undefined),
    each: (visit) => {
      for (const [name, value] of Object.entries(labels)) visit(name, value, true, "claim");
    },
  };
}

export function flowOf(
  flow: Partial<Flow> & { readonly claims?: Record<string, string> } = {},
): Flow {
  return {
    controlPoint: "here",
    type: "feature",
    services: [],
    labels: claims(flow.claims ?? {}),
    http: undefined,
    rampMode: false,
    expectEnd: false,
    deadline: Number.POSITIVE_INFINITY,
    ...flow,
  };
}

export interface Described extends Partial<Omit<HttpAttributes, "header">> {
  readonly headers?: Readonly<Record<string, string>>;
}

/** The attributes of an HTTP request, from a partial description. */
export function requestOf({ headers = {}, ...given }: Described): HttpAttributes {
  return {
    method: "",
    path: "",
    host: "",
    scheme: "",
    protocol: "",
    body: "",
    id: "",
    size: -1,
    bodyCut: false,
    source: undefined,
    destination: undefined,
    header: (name) => (Object.hasOwn(headers, name) ? headers[name] : undefined),
    metadata: () => undefined,
    ...given,
  };
}

export function componentOf(component: Partial<Component> = {}): Component {
  return {
    policyName: "p",
    policyHash: "h",
    componentId: "root.0",
    kind: "rate_limiter",
    deniedStatus: 0,
    onFailure: "closed",
    ...component,
  };
}

export function decisionOf(component: Component, decision: Partial<Decision> = {}): Decision {
  const refused = decision.outcome === "refused";
  return {
    component,
    outcome: "granted",
    dropped: refused,
    missing: 0,
    waitMs: -1,
    grantId: undefined,
    failure: undefined,
    detail: { ...NO_DETAIL, label: "default", consumed: refused ? 0 : 1 },
    ...decision,
  };
}

/** Tokens that a decision took; 0 for kinds that take none. */
export function consumedBy(decision: Decision | undefined): number {
  return decision !== undefined && "consumed" in decision.detail ? decision.detail.consumed : 0;
}

/** One step of a plan whose limiters match every flow. */
export function stepOf(stage: Stage, limiters: readonly Limiter[] = []): Step {
  return { stage, limiters: limiters.map((item) => ({ item, matches: undefined })) };
}

/** A plan that takes every flow through these steps, after these classifiers. */
export function planOfSteps(steps: readonly Step[], classifiers: readonly Classifier[] = []): Plan {
  const limiters = steps.flatMap((step) => step.limiters.map(({ item }) => item));
  const slotLimiters = new Map(limiters.filter(holdsSlots).map((item) => [item.component, item]));
  const services = {
    classifiers: classifiers.map((item) => ({ item, matches: undefined })),
    meters: [],
    steps,
    slotLimiters,
    settlingLimiters: new Map(),
    shedding: { rules: [], priorities: [], keys: [] },
  };
  const here = { labels: EMPTY_SCHEMA, rules: [], limiters: [], forServices: () => services };
  return { controlPoint: () => here, controlPoints: new Map() };
}

export interface ScriptedLimiter extends Limiter {
  readonly taken: number;
  readonly undone: readonly Grant[];
  /** Answers the oldest take that waits. */
  answer(decision: Partial<Decision>): void;
}

/** A limiter that grants one token or follows the script; a deaf one waits and ignores cancellation. */
export function scripted(
  kind: LimiterKind,
  id: string,
  script: Partial<Decision> | "wait" | "deaf" = {},
  component: Partial<Component> = {},
): ScriptedLimiter {
  const self = componentOf({ componentId: id, kind, ...component });
  const undone: Grant[] = [];
  const waiting: Pending<Decision>[] = [];
  let taken = 0;
  const decide = (over: Partial<Decision>) =>
    decisionOf(self, { ...(over.outcome === undefined ? { grantId: "" } : {}), ...over });
  return {
    component: self,
    take() {
      taken += 1;
      if (typeof script !== "string") return decide(script);
      const pending: Pending<Decision> = new Pending(() => {
        if (script === "wait") pending.settle(decide({ outcome: "undecided", dropped: true }));
      });
      waiting.push(pending);
      return pending;
    },
    undo: (given) => {
      undone.push(given);
    },
    decide: () => undefined,
    get taken() {
      return taken;
    },
    undone,
    answer: (decision) => waiting.shift()?.settle(decide(decision)),
  };
}

/** An observer that records verdicts and anomalies. */
export function recordingObserver(): Observer & {
  readonly verdicts: Parameters<Observer["decided"]>[1][];
  readonly anomalies: Anomaly[];
} {
  const verdicts: Parameters<Observer["decided"]>[1][] = [];
  const anomalies: Anomaly[] = [];
  return {
    ...NO_OBSERVER,
    verdicts,
    anomalies,
    decided: (_flow, verdict) => verdicts.push(verdict),
    anomaly: (what) => anomalies.push(what),
  };
}

/** Decision ids that tests can foresee: `decision-1`, `decision-2`, … */
export function countedIds(): () => string {
  let count = 0;
  return () => `decision-${++count}`;
}
