// The events that a flow controller reports to telemetry, each once, when it happens. Calls are on the path of a check, so
// implementations only count, in arrays of their own.

import type { AdaptiveSummary } from "./counters/adaptive-limits.ts";
import type { Component, Flow, Settlement, ShedCause, Verdict } from "./flow.ts";

/** Counted irregularities: ignored input, answers of failure modes, limits that were reached. */
export const ANOMALIES = [
  "baggage_dropped", // the header exceeded its bound: all of its members were ignored
  "baggage_malformed", // a member of the header was malformed, and ignored
  "baggage_reserved", // a member named http.* or aperture.* was ignored
  "header_collision", // two headers map to one label; the one with dashes won
  "no_control_point", // a proxy's check named no control point, and none is configured for these: it got an error
  "request_refused", // a request was refused before any rule: too many headers, control characters, a body that is too large
  "unknown_member", // a JSON check has a member that its message does not define, perhaps a misspelt one
  "label_unreadable", // the source of a classifier's label could not be read: a body that was cut, or is not JSON
  "match_too_costly", // a label value was too long for a regular expression, and was not tested
  "bad_label_number", // a label was not a finite decimal >= 0 within bounds
  "undecided", // a limiter could not decide; its failure mode was applied
  "late", // the caller's time was over before all limiters had answered
  "abandoned", // the caller left while its check waited: no decision was made
  "undelivered", // the reply to an accepted flow did not reach its caller: the slots it held were released
  "keys_overflow", // a limiter is full: it forgot a bucket that was not full, or counted a flow together with other keys
  "reservations_full", // a policy has too many flows to settle: this one costs its estimate
  "queue_full", // a queue had no room for a flow, which was refused at once
] as const;
export type Anomaly = (typeof ANOMALIES)[number];

/** Counts flows by their outcome. */
interface FlowObserver {
  decided(flow: Flow, verdict: Verdict): void;
  /** A flow was shed: its failure modes answered. Follows `decided`. */
  shed(controlPoint: string, accepted: boolean, cause: ShedCause): void;
  /** One FlowEnd call; `settlement` is undefined where it names no reservation and no cost. */
  ended(controlPoint: string, settlement?: Settlement): void;
  /** A limiter settled an estimate: `difference` more tokens, or fewer where it is negative. */
  settled(component: Component, how: Settled, difference: number): void;
  /** A flow begins to wait in the queue of a scheduler. `scheduled` follows when it no longer waits. */
  queued(component: Component): void;
  /** A scheduler decided a flow. Called once for each flow. */
  scheduled(component: Component, flow: ScheduledFlow): void;
}

/** Receives gauges. Each object is live, and stays the same for as long as its component exists. */
interface GaugeObserver {
  loaded(component: Component, gauges: LoadGauges): void;
  adapted(component: Component, gauges: AdaptiveGauges): void;
}

interface AnomalyObserver {
  anomaly(what: Anomaly): void;
  /** A flow lacks a label that a limiter reads. */
  missingLabel(component: Component, what: MissingLabel): void;
  /** One lookup of a service by peer or socket address. */
  lookedUp(found: boolean): void;
}

export interface Observer extends FlowObserver, GaugeObserver, AnomalyObserver {}

/** Is told of some events beside the observer that counts all of them. */
export type FlowListener = Partial<Pick<FlowObserver, "decided" | "settled">>;

/** Adaptive limits of one component. */
export interface AdaptiveGauges {
  /** Undefined before the first flow. Where agents share limits, each knows those that it counts itself. */
  summary(): AdaptiveSummary | undefined;
}

/**
 * The state of a load scheduler. It refuses flows only in `limiting`: otherwise it still measures the rate, its decision lets
 * everything pass, or no decision is valid.
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
  /** The share of the load that may pass; 1 for all of it. */
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
  readonly preempted: number | undefined;
  /** The same among the flows of its workload, for a flow that stood behind another one of its fairness label. */
  readonly preemptedInWorkload: number | undefined;
}

/**
 * The end of an estimate: the true cost replaced it; a status refunded it; nobody settled it in time, and it stayed spent or
 * was refunded; or it stayed spent because its policy had too many flows to settle.
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

const ignore = (): undefined => undefined;

export const NO_OBSERVER: Observer = {
  decided: ignore,
  shed: ignore,
  ended: ignore,
  settled: ignore,
  queued: ignore,
  scheduled: ignore,
  loaded: ignore,
  adapted: ignore,
  anomaly: ignore,
  missingLabel: ignore,
  lookedUp: ignore,
};

/** The observer, which tells the listeners as well. */
export function withListeners(observer: Observer, listeners: readonly FlowListener[]): Observer {
  const deciding = listeners.filter(({ decided }) => decided !== undefined);
  const settling = listeners.filter(({ settled }) => settled !== undefined);
  return {
    decided(flow, verdict) {
      observer.decided(flow, verdict);
      for (const listener of deciding) listener.decided?.(flow, verdict);
    },
    settled(component, how, difference) {
      observer.settled(component, how, difference);
      for (const listener of settling) listener.settled?.(component, how, difference);
    },
    shed: (controlPoint, accepted, cause) => observer.shed(controlPoint, accepted, cause),
    ended: (controlPoint, settlement) => observer.ended(controlPoint, settlement),
    queued: (component) => observer.queued(component),
    scheduled: (component, flow) => observer.scheduled(component, flow),
    loaded: (component, gauges) => observer.loaded(component, gauges),
    adapted: (component, gauges) => observer.adapted(component, gauges),
    anomaly: (what) => observer.anomaly(what),
    missingLabel: (component, what) => observer.missingLabel(component, what),
    lookedUp: (found) => observer.lookedUp(found),
  };
}
