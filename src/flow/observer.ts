// The events that a flow controller reports to telemetry. Calls happen on the check path: implementations count in their
// own arrays and do nothing else. Every decision is counted here, once, when it is made.

import type { AdaptiveSummary } from "./counters/adaptive-limits.ts";
import type { Component, Flow, Settlement, ShedCause, Verdict } from "./flow.ts";

/** Irregularities that are counted: input that was ignored, failure modes that answered, limits that were reached. */
export const ANOMALIES = [
  "baggage_dropped", // the header exceeded its bound: all of its members were ignored
  "baggage_malformed", // a member of the header was malformed, and ignored
  "baggage_reserved", // a member named http.* or aperture.* was ignored
  "header_collision", // two headers map to one label; the one with dashes won
  "no_control_point", // a proxy's check named no control point, and none is configured for these: it got an error
  "request_refused", // a request was refused unjudged: too many headers, control characters, a body that is too large
  "unknown_member", // a JSON check has a member that its message does not have, perhaps a misspelt one
  "label_unreadable", // the source of a classifier's label could not be read: a body that was cut, or is no JSON
  "match_too_costly", // a label value was too long for the regular expression of a selector or a workload: it was not tested
  "bad_label_number", // a label was not a finite decimal >= 0 within bounds
  "undecided", // a limiter could not decide; its failure mode was applied
  "late", // the caller's budget ended first
  "abandoned", // the caller left while its check waited: no decision was made
  "undelivered", // the reply to an accepted flow did not reach its caller: the slots it held were released
  "keys_overflow", // a limiter is full: a bucket was forgotten before it was full, or a flow was not counted by its key alone
  "reservations_full", // a policy has too many flows to settle: this one costs what it took
  "queue_full", // a queue had no room for a flow, which was refused at once
] as const;
export type Anomaly = (typeof ANOMALIES)[number];

export interface Observer {
  decided(flow: Flow, verdict: Verdict): void;
  /** One FlowEnd call; `settlement` is undefined where it names no reservation and no cost. */
  ended(controlPoint: string, settlement?: Settlement): void;
  /** One lookup of a service by peer or socket address. */
  lookedUp(found: boolean): void;
  anomaly(what: Anomaly): void;
  /** A flow was shed: its failure modes answered. Follows `decided`. */
  shed(controlPoint: string, accepted: boolean, cause: ShedCause): void;
  /** A limiter met a flow without a label that it reads: the one it is keyed by, or the number of tokens. */
  missingLabel(component: Component, what: MissingLabel): void;
  /** A flow begins to wait in the queue of a scheduler; `scheduled` says when it does not any more. */
  queued(component: Component): void;
  /** A scheduler let a flow pass, or did not. Called once for each flow that it judged. */
  scheduled(component: Component, flow: ScheduledFlow): void;
  /** A limiter settled what a flow took: `difference` more tokens, or fewer where it is negative. */
  settled(component: Component, how: Settled, difference: number): void;
  /**
   * Reports the numbers of a load scheduler. The object changes with them, and stays the same for as long as the
   * component exists.
   */
  loaded(component: Component, gauges: LoadGauges): void;
  /** The limits that a component with adaptive limits has found. The object is live. */
  adapted(component: Component, gauges: AdaptiveGauges): void;
}

/** Adaptive limits of one component. */
export interface AdaptiveGauges {
  /** Undefined while no flow has asked here: where agents share limits, each knows those that it counts itself. */
  summary(): AdaptiveSummary | undefined;
}

/**
 * The state of a load scheduler. Only while it limits, it refuses flows: it measures the rate, lets everything pass because
 * its decision says so, or has no decision that is still valid.
 */
export const LOAD_CONDITIONS = [
  "limiting",
  "measuring",
  "pass_through",
  "no_decision",
  "out_of_date",
] as const;
export type LoadCondition = (typeof LOAD_CONDITIONS)[number];

/** The bucket of a load scheduler. */
export interface LoadGauges {
  readonly condition: LoadCondition;
  /** The share of the load that may pass; 1 where all of it may. */
  readonly multiplier: number;
  /** Tokens per second; the bucket holds those of one. */
  readonly fillRate: number;
  readonly available: number;
}

/** A flow that a scheduler decided. */
export interface ScheduledFlow {
  readonly workload: string;
  readonly tokens: number;
  readonly passed: boolean;
  readonly queued: boolean;
  /** Time in the queue, ms; 0 for a flow that was decided at once. */
  readonly waitedMs: number;
  /**
   * Tokens of earlier flows that a queued flow overtook; negative, if later ones overtook it. Undefined for flows that
   * were not queued or did not pass.
   */
  readonly overtook: number | undefined;
  /** The same among the flows of its workload, for a flow that stood behind another one of its fairness label. */
  readonly overtookAlike: number | undefined;
}

/**
 * The ends of an estimate: the true cost was committed, a status refunded it, nobody settled it in time, and it stayed
 * spent or was refunded, or it stayed spent because its policy has too many flows to settle.
 */
export const SETTLED = [
  "committed",
  "refunded",
  "unsettled",
  "unsettled_refunded",
  "no_room",
] as const;
export type Settled = (typeof SETTLED)[number];

export type MissingLabel = "key" | "tokens";

export const NO_OBSERVER: Observer = {
  decided: () => undefined,
  ended: () => undefined,
  lookedUp: () => undefined,
  anomaly: () => undefined,
  shed: () => undefined,
  missingLabel: () => undefined,
  queued: () => undefined,
  scheduled: () => undefined,
  settled: () => undefined,
  loaded: () => undefined,
  adapted: () => undefined,
};

/** One observer that calls several in order. A single one is returned as it is, so that it costs nothing extra. */
export function observerOf(all: readonly Observer[]): Observer {
  const [only = NO_OBSERVER, ...more] = all;
  if (more.length === 0) return only;
  return {
    decided(flow, verdict) {
      for (const observer of all) observer.decided(flow, verdict);
    },
    ended(controlPoint, settlement) {
      for (const observer of all) observer.ended(controlPoint, settlement);
    },
    lookedUp(found) {
      for (const observer of all) observer.lookedUp(found);
    },
    anomaly(what) {
      for (const observer of all) observer.anomaly(what);
    },
    shed(controlPoint, accepted, cause) {
      for (const observer of all) observer.shed(controlPoint, accepted, cause);
    },
    missingLabel(component, what) {
      for (const observer of all) observer.missingLabel(component, what);
    },
    queued(component) {
      for (const observer of all) observer.queued(component);
    },
    scheduled(component, flow) {
      for (const observer of all) observer.scheduled(component, flow);
    },
    settled(component, how, difference) {
      for (const observer of all) observer.settled(component, how, difference);
    },
    loaded(component, gauges) {
      for (const observer of all) observer.loaded(component, gauges);
    },
    adapted(component, gauges) {
      for (const observer of all) observer.adapted(component, gauges);
    },
  };
}
