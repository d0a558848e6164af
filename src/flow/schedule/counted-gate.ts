// The gate of schedulers that count as a limiter does: tokens of a bucket, or slots. The limiter answers for its engine,
// its failure mode and missing keys; here its answers become those of a scheduler.

import {
  type Component,
  type Decision,
  type Grant,
  type InQueue,
  Missing,
  Pending,
} from "../flow.ts";
import type { LabelSlots, Labels } from "../label.ts";
import type { Asked } from "../limit/counting-limiter.ts";
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
import { type Estimates, NO_ESTIMATES, type Ticket } from "./front-end.ts";
import type { Gate, Wait } from "./gate.ts";

/** A limiter as a gate uses it. */
export interface Counted {
  readonly component: Component;
  /** The largest number of tokens that a flow can ever get. */
  readonly most: number;
  peek(flow: unknown, labels: Labels, now: number, asked: Asked): Decision;
  take(flow: unknown, labels: Labels, now: number, asked: Asked): Decision | Pending<Decision>;
  undo(grant: Grant): void;
  decide(numbers: never): void;
  readonly showGauges?: (() => void) | undefined;
}

export interface CountedRule {
  readonly limitByLabelKey: string;
  readonly onMissingLabel: MissingLabelMode;
}

/** Key of the queue of flows without a key of their own. No label value is equal to it. */
const DEFAULT_KEY = "\u0000default";

/** The detail of a flow that no queue has judged. */
const UNQUEUED: WorkloadSlotDetail = Object.freeze({
  label: "",
  value: undefined,
  remaining: 0,
  current: 0,
  consumed: 0,
  requestId: "",
  workload: DEFAULT_WORKLOAD,
  priority: 0,
});

export abstract class CountedGate<Limiter extends Counted> implements Gate {
  readonly estimates: Estimates = NO_ESTIMATES;
  protected readonly limiter: Limiter;
  readonly #input: LimiterInput;
  readonly #needsKey: boolean;

  constructor(limiter: Limiter, rule: CountedRule, slots: LabelSlots, observer: Observer) {
    this.limiter = limiter;
    this.#input = new LimiterInput({ ...rule, tokensLabelKey: "" }, slots, observer);
    this.#needsKey = this.#input.keyed && rule.onMissingLabel !== "default_key";
  }

  abstract retryIn(decision: Decision, wait: Wait, now: number): number | undefined;

  key(labels: Labels): string | undefined {
    return this.valueOf(labels) ?? (this.#needsKey ? undefined : DEFAULT_KEY);
  }

  keyOf({ key }: Grant): string {
    return this.#input.owns(key) ? (this.#input.valueOf(key) ?? DEFAULT_KEY) : DEFAULT_KEY;
  }

  take(
    labels: Labels,
    ticket: Ticket,
    now: number,
    queued?: InQueue,
  ): Decision<WorkloadDetail> | Pending<Decision<WorkloadDetail>> {
    const asked = { tokens: ticket.tokens, queued };
    const taken = this.limiter.take(undefined, labels, now, asked);
    if (taken instanceof Pending) return taken.chain((late) => this.#scheduled(late, ticket));
    return this.#scheduled(taken, ticket);
  }

  peek(labels: Labels, ticket: Ticket, now: number): Decision<WorkloadDetail> {
    const asked = { tokens: ticket.tokens, queued: undefined };
    return this.#scheduled(this.limiter.peek(undefined, labels, now, asked), ticket);
  }

  refusal(labels: Labels, ticket: Ticket): Decision<WorkloadDetail> {
    const value = this.valueOf(labels);
    const { workload, priority } = ticket;
    const label = this.#input.label(labels, value);
    return {
      component: this.limiter.component,
      outcome: "refused",
      dropped: true,
      missing: ticket.lacksTokens ? Missing.tokens : Missing.nothing,
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

  /** The decision of the limiter as that of a scheduler. */
  #scheduled(decision: Decision, ticket: Ticket): Decision<WorkloadDetail> {
    // The limiter is one that counts.
    const counts = decision.detail as TokenDetail;
    const { workload, priority, lacksTokens, tokens } = ticket;
    const took = counts.consumed > 0 || decision.grantId !== undefined;
    const counted = decision.dropped ? isShort(decision) : took;
    const { missing, waitMs } = decision;
    return {
      ...decision,
      missing: counted && lacksTokens ? missing | Missing.tokens : missing,
      // Schedulers report a wait only where they know one.
      waitMs: waitMs > 0 && tokens <= this.limiter.most ? waitMs : -1,
      detail: counted ? { ...counts, workload, priority, ...idOf(decision) } : UNQUEUED,
    };
  }
}

/** Whether the count refused the flow: another answer stays the same however long the flow waits. */
export function isShort({ dropped, missing, failure }: Decision): boolean {
  return dropped && (missing & Missing.key) === 0 && failure !== "closed";
}

const NO_ID = { requestId: "" } as const;

/** A flow that got no slot has no id. */
function idOf({ dropped }: Decision): { readonly requestId?: string } {
  return dropped ? NO_ID : {};
}
