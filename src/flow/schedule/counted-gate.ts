// The gate of schedulers that count tokens of buckets or slots. A limiter makes the decisions, including those by failure
// mode and for missing keys, and the gate converts them to decisions of a scheduler.

import {
  type Component,
  type Decision,
  type Grant,
  type InQueue,
  Missing,
  NO_DETAIL,
  Pending,
} from "../flow.ts";
import type { LabelSlots, Labels } from "../label.ts";
import type { TokenRequest } from "../limit/counting-limiter.ts";
import { LimiterInput } from "../limit/limiter-input.ts";
import type { Observer } from "../observer.ts";
import {
  DEFAULT_WORKLOAD,
  type LimiterNumbers,
  type MissingLabelMode,
  type TokenDetail,
  type WorkloadDetail,
  type WorkloadSlotDetail,
} from "../rules.ts";
import { type Estimates, type FlowJob, NO_ESTIMATES } from "./front-end.ts";
import type { Attempt, Gate } from "./gate.ts";

/** A limiter as a gate uses it. */
export interface CountedLimiter {
  readonly component: Component;
  /** The largest number of tokens that a flow can ever get. */
  readonly maxTokens: number;
  take(
    flow: unknown,
    labels: Labels,
    now: number,
    request: TokenRequest,
  ): Decision | Pending<Decision>;
  undo(grant: Grant): void;
  decide(numbers: never): void;
  readonly showGauges?: (() => void) | undefined;
}

export interface CountedRule {
  readonly limitByLabelKey: string;
  readonly onMissingLabel: MissingLabelMode;
}

/** Key of the queue of flows without a key. No label value is equal to it. */
const DEFAULT_KEY = "\u0000default";

/** The detail of a flow that no queue has judged. */
const UNQUEUED: WorkloadSlotDetail = Object.freeze({ ...NO_DETAIL, workload: DEFAULT_WORKLOAD });

export abstract class CountedGate<Limiter extends CountedLimiter> implements Gate {
  readonly estimates: Estimates = NO_ESTIMATES;
  protected readonly limiter: Limiter;
  readonly #input: LimiterInput;
  readonly #needsKey: boolean;

  constructor(limiter: Limiter, rule: CountedRule, slots: LabelSlots, observer: Observer) {
    this.limiter = limiter;
    this.#input = new LimiterInput({ ...rule, tokensLabelKey: "" }, slots, observer);
    this.#needsKey = this.#input.keyed && rule.onMissingLabel !== "default_key";
  }

  abstract retryIn(decision: Decision, attempt: Attempt, now: number): number | undefined;

  key(labels: Labels): string | undefined {
    return this.valueOf(labels) ?? (this.#needsKey ? undefined : DEFAULT_KEY);
  }

  keyOf({ key }: Grant): string {
    return this.#input.owns(key) ? (this.#input.valueOf(key) ?? DEFAULT_KEY) : DEFAULT_KEY;
  }

  take(
    labels: Labels,
    job: FlowJob,
    now: number,
    head?: InQueue,
  ): Decision<WorkloadDetail> | Pending<Decision<WorkloadDetail>> {
    const taken = this.limiter.take(undefined, labels, now, { tokens: job.tokens, head });
    if (taken instanceof Pending) return taken.chain((late) => this.#scheduled(late, job));
    return this.#scheduled(taken, job);
  }

  refusal(labels: Labels, job: FlowJob): Decision<WorkloadDetail> {
    const value = this.valueOf(labels);
    const { workload, priority } = job;
    const label = this.#input.label(labels, value);
    return {
      component: this.limiter.component,
      outcome: "refused",
      dropped: true,
      missing: job.lacksTokens ? Missing.tokens : Missing.nothing,
      waitMs: -1,
      grantId: undefined,
      failure: undefined,
      detail: { ...UNQUEUED, label, value, workload, priority },
    };
  }

  undo(grant: Grant): boolean | Pending<boolean> {
    this.limiter.undo(grant);
    return true;
  }

  decide(numbers: LimiterNumbers | undefined): void {
    this.limiter.decide(numbers as never);
  }

  showGauges(): void {
    this.limiter.showGauges?.();
  }

  protected valueOf(labels: Labels): string | undefined {
    return this.#input.value(labels);
  }

  /** Turns the decision of the limiter into that of a scheduler. */
  #scheduled(decision: Decision, job: FlowJob): Decision<WorkloadDetail> {
    // The limiter is one that counts.
    const counts = decision.detail as TokenDetail;
    const { workload, priority, lacksTokens, tokens } = job;
    const took = counts.consumed > 0 || decision.grantId !== undefined;
    const counted = decision.dropped ? isShort(decision) : took;
    const { missing, waitMs } = decision;
    return {
      ...decision,
      missing: counted && lacksTokens ? missing | Missing.tokens : missing,
      // Schedulers report a wait only where they know one.
      waitMs: waitMs > 0 && tokens <= this.limiter.maxTokens ? waitMs : -1,
      detail: counted ? { ...counts, workload, priority, ...idOf(decision) } : UNQUEUED,
    };
  }
}

/** True if the count refused the flow. Only then may the answer change while the flow waits. */
export function isShort({ dropped, missing, failure }: Decision): boolean {
  return dropped && (missing & Missing.key) === 0 && failure !== "closed";
}

const NO_ID = { requestId: "" } as const;

/** A flow that got no slot has no id. */
function idOf({ dropped }: Decision): { readonly requestId?: string } {
  return dropped ? NO_ID : {};
}
