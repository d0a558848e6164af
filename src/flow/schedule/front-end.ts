// Reads the properties of a flow that schedulers need: workload, priority, cost in tokens, fairness label, and the longest
// time to wait. Compiled with the plan.

import { LONGEST_WAIT_MS } from "../flow.ts";
import { type LabelSlots, type Labels, labelNumber } from "../label.ts";
import { compileMatcher, type Matcher } from "../match/matcher.ts";
import type { Observer } from "../observer.ts";
import { DEFAULT_WORKLOAD, type SchedulerRule, type WorkloadParameters } from "../rules.ts";
import type { Job } from "./queue/fair-queue.ts";

/** A flow as schedulers see it. */
export interface FlowJob extends Job {
  /** Longest time in the queue, ms; 0 for a flow that is decided at once. */
  readonly patienceMs: number;
  /** The flow lacks the label with the number of tokens. */
  readonly lacksTokens: boolean;
}

/** Mean tokens of the flows of a workload, by its label. */
export type Estimates = ReadonlyMap<string, number>;

export const NO_ESTIMATES: Estimates = new Map();

interface Workload {
  readonly label: string;
  readonly matches: Matcher | undefined;
  readonly parameters: WorkloadParameters;
}

function lower(one: Workload | undefined, other: Workload): Workload {
  return one !== undefined && one.parameters.priority <= other.parameters.priority ? one : other;
}

export class FrontEnd {
  readonly #workloads: readonly Workload[];
  readonly #byDefault: Workload;
  readonly #observer: Observer;
  readonly #marginMs: number;
  readonly #workloadSlot: number;
  readonly #fairnessSlot: number;
  readonly #tokensSlot: number;
  readonly #prioritySlot: number;

  constructor(rule: SchedulerRule, slots: LabelSlots, observer: Observer) {
    const slotOf = (key: string) => (key === "" ? -1 : slots.of(key));
    this.#workloads = rule.workloads.map(({ name, matcher, parameters }, index) => ({
      label: name === "" ? String(index) : name,
      matches: compileMatcher(matcher, slots),
      parameters,
    }));
    const parameters = rule.defaultParameters;
    this.#byDefault = { label: DEFAULT_WORKLOAD, matches: undefined, parameters };
    this.#observer = observer;
    this.#marginMs = rule.deadlineMarginMs;
    this.#workloadSlot = slotOf(rule.workloadLabelKey);
    this.#fairnessSlot = slotOf(rule.fairnessLabelKey);
    this.#tokensSlot = slotOf(rule.tokensLabelKey);
    this.#prioritySlot = slotOf(rule.priorityLabelKey);
  }

  /** `deadline` is that of the caller, on `Clock.now()`. */
  jobOf(labels: Labels, deadline: number, now: number, estimates: Estimates): FlowJob {
    const { label, parameters } = this.#workloadOf(labels);
    const workload = this.#get(labels, this.#workloadSlot) ?? label;
    const stated = this.#number(labels, this.#tokensSlot);
    const priority = this.#number(labels, this.#prioritySlot) ?? 0;
    const estimate = estimates.get(workload);
    return {
      workload,
      priority: priority > 0 ? priority : parameters.priority,
      tokens: stated ?? estimate ?? (parameters.tokens > 0 ? parameters.tokens : 1),
      fairness: this.#get(labels, this.#fairnessSlot),
      patienceMs: this.#patience(deadline, now, parameters.queueTimeoutMs),
      lacksTokens: this.#tokensSlot >= 0 && labels.get(this.#tokensSlot) === undefined,
    };
  }

  /**
   * The first workload that matches. Where finding out would cost too much, the least important of those that may be the
   * first, so that clients gain nothing by values that are too long.
   */
  #workloadOf(labels: Labels): Workload {
    let lowest: Workload | undefined;
    for (const workload of this.#workloads) {
      const match = workload.matches === undefined || workload.matches(labels);
      if (match) return lower(lowest, workload);
      if (match === false) continue;
      this.#observer.anomaly("match_too_costly");
      lowest = lower(lowest, workload);
    }
    return lower(lowest, this.#byDefault);
  }

  #get(labels: Labels, slot: number): string | undefined {
    return slot < 0 ? undefined : labels.get(slot);
  }

  /** Undefined for a text that is not a number, which is counted. */
  #number(labels: Labels, slot: number): number | undefined {
    const text = this.#get(labels, slot);
    if (text === undefined) return undefined;
    const number = labelNumber(text);
    if (number === undefined) this.#observer.anomaly("bad_label_number");
    return number;
  }

  #patience(deadline: number, now: number, queueTimeoutMs: number | undefined): number {
    if (deadline === Number.POSITIVE_INFINITY) return queueTimeoutMs ?? LONGEST_WAIT_MS;
    const left = Math.max(0, deadline - this.#marginMs - now);
    return Math.min(left, queueTimeoutMs ?? left);
  }
}
