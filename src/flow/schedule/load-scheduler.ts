// The gate of a load scheduler: a share of the rate of tokens that arrived, counted in process. The controller decides the
// share, for a limited time.

import type { Clock } from "#base/clock.ts";
import { type Component, type Decision, type Grant, type InQueue, Missing } from "../flow.ts";
import type { Labels } from "../label.ts";
import { boundedSignal } from "../limit/bounded-signal.ts";
import { type Fallback, fallbackFor, type InvalidNumbers, whyInvalid } from "../limit/fallback.ts";
import type { LoadCondition, LoadGauges, Observer } from "../observer.ts";
import type { LimiterNumbers, LoadSchedulerNumbers, WorkloadDetail } from "../rules.ts";
import { type Estimates, type FlowJob, NO_ESTIMATES } from "./front-end.ts";
import type { Attempt, Gate } from "./gate.ts";
import { LoadBucket } from "./load-bucket.ts";

/** The bucket and the last valid numbers. */
export class LoadState implements LoadGauges {
  readonly bucket: LoadBucket;
  /** Why the bucket does not count; undefined while it does. */
  invalid: InvalidNumbers | undefined = "no_numbers";
  /** There have been valid numbers. */
  known = false;
  /** Unix ms. */
  validUntil = 0;
  estimates = NO_ESTIMATES;
  readonly #clock: Clock;

  get condition(): LoadCondition {
    if (this.invalid === "pass_through") return this.invalid;
    if (this.invalid !== undefined) return "no_decision";
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
    return this.invalid === "pass_through";
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

  arrived({ tokens }: FlowJob, now: number): void {
    this.#state.bucket.arrived(tokens, now);
  }

  take(_labels: Labels, job: FlowJob, now: number, head?: InQueue): Decision<WorkloadDetail> {
    const fallback = this.#fallback(now);
    if (fallback !== undefined && fallback !== "last_known") {
      if (fallback !== "pass_through") this.#observer.anomaly("undecided");
      return this.#byFallback(job, fallback);
    }
    const { bucket } = this.#state;
    if (bucket.measuring) return this.#passed(job);
    const waitMs = bucket.take(job.tokens, now, head !== undefined);
    const granted = waitMs === 0;
    return {
      component: this.#component,
      outcome: granted ? "granted" : "refused",
      dropped: !granted,
      missing: missingOf(job),
      waitMs: waitMs > 0 && waitMs < Number.POSITIVE_INFINITY ? waitMs : -1,
      grantId: granted ? "" : undefined,
      failure: fallback,
      detail: this.#detail(job, granted ? job.tokens : 0),
    };
  }

  retryIn({ dropped, failure, waitMs }: Decision, { leftMs }: Attempt): number | undefined {
    if (!dropped || failure === "closed" || waitMs < 0 || waitMs > leftMs) return undefined;
    return waitMs;
  }

  refusal(_labels: Labels, job: FlowJob): Decision<WorkloadDetail> {
    return {
      ...this.#passed(job),
      outcome: "refused",
      dropped: true,
      detail: this.#detail(job, 0),
    };
  }

  undo({ amount }: Grant): boolean {
    this.#state.bucket.giveBack(amount);
    return true;
  }

  /** A multiplier that is not finite counts as none. */
  decide(given: LimiterNumbers | undefined): void {
    const state = this.#state;
    const numbers = given as LoadSchedulerNumbers | undefined;
    const multiplier = boundedSignal(numbers?.loadMultiplier);
    state.invalid = whyInvalid(multiplier === undefined ? undefined : numbers);
    state.validUntil = numbers?.validUntil ?? 0;
    state.estimates = usable(numbers?.tokensByWorkload ?? NO_ESTIMATES);
    if (multiplier === undefined || (state.invalid !== undefined && state.invalid !== "last_known"))
      return;
    state.known = true;
    state.bucket.limit(multiplier, this.#clock.now());
  }

  showGauges(): void {
    this.#observer.loaded(this.#component, this.#state);
  }

  /** Undefined while the numbers are valid. */
  #fallback(now: number): Fallback | undefined {
    const { invalid, known, validUntil } = this.#state;
    const expired = invalid === undefined && this.#clock.wallOf(now) > validUntil;
    return fallbackFor(expired ? "no_numbers" : invalid, this.#component, known);
  }

  #byFallback(
    job: FlowJob,
    fallback: "pass_through" | "open" | "closed",
  ): Decision<WorkloadDetail> {
    if (fallback === "pass_through") return this.#passed(job);
    const dropped = fallback === "closed";
    const detail = this.#detail(job, dropped ? 0 : job.tokens);
    return { ...this.#passed(job), outcome: "undecided", dropped, failure: fallback, detail };
  }

  /** Nothing is limited, so there is nothing to give back. */
  #passed(job: FlowJob): Decision<WorkloadDetail> {
    return {
      component: this.#component,
      outcome: "granted",
      dropped: false,
      missing: missingOf(job),
      waitMs: -1,
      grantId: undefined,
      failure: undefined,
      detail: this.#detail(job, job.tokens),
    };
  }

  #detail({ workload, priority }: FlowJob, consumed: number): WorkloadDetail {
    const { bucket, invalid } = this.#state;
    const counted = invalid === undefined && !bucket.measuring;
    const remaining = counted ? Math.max(0, bucket.available) : 0;
    const current = counted ? Math.max(0, bucket.fillRate - remaining) : 0;
    return { label: workload, value: undefined, remaining, current, consumed, workload, priority };
  }
}

function missingOf({ lacksTokens }: FlowJob): number {
  return lacksTokens ? Missing.tokens : Missing.nothing;
}

/** The estimates that are numbers of tokens. */
function usable(estimates: Estimates): Estimates {
  if (estimates.size === 0) return NO_ESTIMATES;
  return new Map([...estimates].filter(([, tokens]) => tokens > 0 && Number.isFinite(tokens)));
}
