// Flows, labels and limiters made by hand, for tests of the mind.

import type { Flow, LimiterKind } from "#flow/flow.ts";
import { type Component, type Decision, type Grant, Pending } from "#flow/flow.ts";
import type { LabelSource } from "#flow/label.ts";
import type { Limiter } from "#flow/limit.ts";
import type { Observer, ODDITIES } from "#flow/observe.ts";

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
    keyMissing: false,
    label: "default",
    remaining: 0,
    current: 0,
    consumed: refused ? 0 : 1,
    waitMs: -1,
    requestId: "",
    grant: undefined,
    failure: undefined,
    ...decision,
  };
}

export interface ScriptedLimiter extends Limiter {
  readonly taken: number;
  readonly undone: readonly Grant[];
  /** Answers the oldest take that waits. */
  answer(decision: Partial<Decision>): void;
}

/** A limiter that grants one token, or does what the script says; a deaf one waits and hears of no giving up. */
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
  const grant = { policyName: "p", componentId: id, key: "default", id: "", amount: 1 };
  const decide = (over: Partial<Decision>) =>
    decisionOf(self, { ...(over.outcome === undefined ? { grant } : {}), ...over });
  return {
    component: self,
    peek: () => decide(typeof script === "string" ? {} : script),
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

/** An observer that remembers. */
export function listening(): Observer & {
  readonly verdicts: Parameters<Observer["decided"]>[1][];
  readonly oddities: (typeof ODDITIES)[number][];
} {
  const verdicts: Parameters<Observer["decided"]>[1][] = [];
  const oddities: (typeof ODDITIES)[number][] = [];
  return {
    verdicts,
    oddities,
    decided: (_flow, verdict) => verdicts.push(verdict),
    ended: () => undefined,
    lookedUp: () => undefined,
    odd: (what) => oddities.push(what),
  };
}
