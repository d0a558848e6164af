// The gate of a load scheduler: a share of the rate of tokens that arrived, counted in process. The controller decides the
// share, for a limited time.

import type { Clock } from "#base/clock.ts";
import { type Component, type Decision, type Grant, type InQueue, Missing } from "../flow.ts";
import type { Labels } from "../label.ts";
import { boundedSignal } from "../limit/bounded-signal.ts";
import { type Gap, gapOf, type Substitute, standInFor } from "../limit/stand-in.ts";
import type { LoadCondition, LoadGauges, Observer } from "../observer.ts";
import type { LimiterNumbers, LoadSchedulerNumbers, WorkloadDetail } from "../rules.ts";
import { type Estimates, NO_ESTIMATES, type Ticket } from "./front-end.ts";
import type { Gate, Wait } from "./gate.ts";
import { LoadBucket } from "./load-bucket.ts";

/** The bucket and the last valid numbers. */
export class LoadState implements LoadGauges {
  readonly bucket: LoadBucket;
  /** The reason for which the bucket does not count now; undefined while it does. */
  gap: Gap | undefined = "no_numbers";
  /** There were valid numbers. */
  known = false;
  /** Unix ms. */
  validUntil = 0;
  estimates = NO_ESTIMATES;
  readonly #clock: Clock;

  get condition(): LoadCondition {
    if (this.gap === "pass_through") return this.gap;
    if (this.gap !== undefined) return "no_decision";
    if (this.#clock.wall() > this.validUntil) return "out_of_date";
    return this.bucket.measuring ? "measuring" : "limiting";
  }

  get multiplier(): number {
    return this.condition === "limiting" ? this.bucket.multiplier : 1;
  }

  get fillRate(): number {
    return this.bucket.fillRate;
  }

  get available(): number {
    return this.bucket.available;
  }

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
    this.bucket = new LoadBucket(clock.now());
  }

  passes(): boolean {
    return this.gap === "pass_through";
  }
}

export class LoadGate implements Gate {
  readonly #component: Component;
  readonly #state: LoadState;
  readonly #clock: Clock;
  readonly #observer: Observer;

  constructor(
    component: Component,
    state: LoadState,
    { clock, observer }: { readonly clock: Clock; readonly observer: Observer },
  ) {
    this.#component = component;
    this.#state = state;
    this.#clock = clock;
    this.#observer = observer;
  }

  get estimates(): Estimates {
    return this.#state.estimates;
  }

  /** There is one queue. */
  key(): string {
    return "";
  }

  keyOf(): string {
    return "";
  }

  arrived({ tokens }: Ticket, now: number): void {
    this.#state.bucket.arrived(tokens, now);
  }

  take(_labels: Labels, ticket: Ticket, now: number, queued?: InQueue): Decision<WorkloadDetail> {
    const standIn = this.#standIn(now);
    if (standIn !== undefined && standIn !== "last_known") {
      if (standIn !== "pass_through") this.#observer.anomaly("undecided");
      return this.#stood(ticket, standIn);
    }
    const { bucket } = this.#state;
    if (bucket.measuring) return this.#passed(ticket);
    const waitMs = bucket.take(ticket.tokens, now, queued !== undefined);
    const granted = waitMs === 0;
    return {
      component: this.#component,
      outcome: granted ? "granted" : "refused",
      dropped: !granted,
      missing: missingOf(ticket),
      waitMs: waitMs > 0 && waitMs < Number.POSITIVE_INFINITY ? waitMs : -1,
      grantId: granted ? "" : undefined,
      failure: standIn,
      detail: this.#detail(ticket, granted ? ticket.tokens : 0),
    };
  }

  peek(_labels: Labels, ticket: Ticket, now: number): Decision<WorkloadDetail> {
    const standIn = this.#standIn(now);
    if (standIn !== undefined && standIn !== "last_known") return this.#stood(ticket, standIn);
    const { bucket } = this.#state;
    if (bucket.measuring || bucket.available >= ticket.tokens) return this.#passed(ticket);
    return this.refusal(_labels, ticket);
  }

  retryIn({ dropped, failure, waitMs }: Decision, { left }: Wait): number | undefined {
    if (!dropped || failure === "closed" || waitMs < 0 || waitMs > left) return undefined;
    return waitMs;
  }

  refusal(_labels: Labels, ticket: Ticket): Decision<WorkloadDetail> {
    return {
      ...this.#passed(ticket),
      outcome: "refused",
      dropped: true,
      detail: this.#detail(ticket, 0),
    };
  }

  undo({ amount }: Grant): boolean {
    this.#state.bucket.giveBack(amount);
    return true;
  }

  /** A multiplier that is not finite is none. */
  decide(given: LimiterNumbers | undefined): void {
    const state = this.#state;
    const numbers = given as LoadSchedulerNumbers | undefined;
    const multiplier = boundedSignal(numbers?.loadMultiplier);
    state.gap = gapOf(multiplier === undefined ? undefined : numbers);
    state.validUntil = numbers?.validUntil ?? 0;
    state.estimates = usable(numbers?.tokensByWorkload ?? NO_ESTIMATES);
    if (multiplier === undefined || (state.gap !== undefined && state.gap !== "last_known")) return;
    state.known = true;
    state.bucket.limit(multiplier, this.#clock.now());
  }

  showGauges(): void {
    this.#observer.loaded(this.#component, this.#state);
  }

  /** The answer in place of the bucket's. */
  #standIn(now: number): Substitute | undefined {
    const { gap, known, validUntil } = this.#state;
    if (gap === "pass_through") return gap;
    const expired = gap === undefined && this.#clock.wallOf(now) > validUntil;
    if (gap === undefined && !expired) return undefined;
    return standInFor(gap ?? "no_numbers", this.#component, known);
  }

  #stood(ticket: Ticket, standIn: "pass_through" | "open" | "closed"): Decision<WorkloadDetail> {
    if (standIn === "pass_through") return this.#passed(ticket);
    const dropped = standIn === "closed";
    const detail = this.#detail(ticket, dropped ? 0 : ticket.tokens);
    return { ...this.#passed(ticket), outcome: "undecided", dropped, failure: standIn, detail };
  }

  /** Nothing is limited, and so nothing could be given back. */
  #passed(ticket: Ticket): Decision<WorkloadDetail> {
    return {
      component: this.#component,
      outcome: "granted",
      dropped: false,
      missing: missingOf(ticket),
      waitMs: -1,
      grantId: undefined,
      failure: undefined,
      detail: this.#detail(ticket, ticket.tokens),
    };
  }

  #detail({ workload, priority }: Ticket, consumed: number): WorkloadDetail {
    const { bucket, gap } = this.#state;
    const counted = gap === undefined && !bucket.measuring;
    const remaining = counted ? Math.max(0, bucket.available) : 0;
    const current = counted ? Math.max(0, bucket.fillRate - remaining) : 0;
    return { label: workload, value: undefined, remaining, current, consumed, workload, priority };
  }
}

function missingOf({ lacksTokens }: Ticket): number {
  return lacksTokens ? Missing.tokens : Missing.nothing;
}

/** Estimates that are amounts of tokens. */
function usable(estimates: Estimates): Estimates {
  if (estimates.size === 0) return NO_ESTIMATES;
  return new Map([...estimates].filter(([, tokens]) => tokens > 0 && Number.isFinite(tokens)));
}
