// Controls the share of the load that an agent judges: its time for judging, divided by the time that judging every check
// would take. The share is cut while checks wait for longer than the limit, and raised while they wait for less than half of
// it, both by multiplication, which converges; see decisions.md.

/** Shedding begins after work has waited for longer than the limit for so long, ms. */
const SUSTAINED_MS = 200;
/** A longer time applies in the first seconds with checks, before the code is optimised. */
const SUSTAINED_AT_FIRST_MS = 1_000;
const FIRST_MS = 5_000;
/** A loop that was idle for more than this share of the time is not overloaded. */
const IDLE = 0.1;

/** The cut of one measurement, for a wait at the limit. It grows with the wait, up to so many limits. */
const CUT = 0.05;
const MAX_WAIT_RATIO = 4;
/** The rise of one measurement while the wait is below half of its limit. It is fast if the loop has time to spare. */
const RISE = 0.02;
const FAST_RISE = 0.1;
const TIME_TO_SPARE = 0.3;

/** The share never becomes smaller, so that it can grow again. */
const MIN_SHARE = 0.01;
/**
 * Judging gets at least this part of the time of everything else (reading checks, answering them, other work), because
 * shedding more would hardly make room.
 */
const MIN_TIME_RATIO = 0.5;
/** The part of the sums of costs that is kept at each measurement. */
const KEPT = 0.9;

/** Times since the last measurement, ms. */
export interface Measurement {
  /** The time at its end, on `Clock.now()`. */
  readonly now: number;
  readonly lasted: number;
  readonly idle: number;
  /** Median waiting time of the work; undefined if none was handled. */
  readonly waited: number | undefined;
  /** Costs of checks; undefined if the guard did not see all of them. */
  readonly checks: Checks | undefined;
}

export interface Checks {
  /** Time that judging took, ms. */
  readonly judging: number;
  /** Time that judging all of them would have taken, ms. */
  readonly demand: number;
}

export class JudgedShare {
  /** The share, above 0 and up to 1. */
  value = 1;
  /** The longest wait since the agent fell behind, ms; 0 while it keeps up. */
  peak = 0;
  readonly #maxDelay: number;
  #began: number | undefined;
  /** Since when each measurement has been above the limit. */
  #slowSince: number | undefined;
  /** The wait at the last measurement. */
  #waitedBefore = 0;
  /** Recent times that judging everything would have taken, and that everything else took, ms. */
  #costs = { demand: 0, rest: 0 };

  /** `maxDelay` in ms. */
  constructor(maxDelay: number) {
    this.#maxDelay = maxDelay;
  }

  /** The agent keeps up. */
  get settled(): boolean {
    return this.value === 1 && this.#slowSince === undefined;
  }

  measured(measurement: Measurement): void {
    const { now, lasted, idle, checks } = measurement;
    this.#began ??= now;
    const idleShare = lasted > 0 ? idle / lasted : 1;
    // The loop was busy with other work, so it is not known how long callers wait.
    if (measurement.waited === undefined && idleShare < IDLE) return;
    const waited = measurement.waited ?? 0;
    const slow = waited > this.#maxDelay;
    if (checks !== undefined) this.#learn(lasted - idle, checks);
    if (slow) this.peak = Math.max(this.peak, waited);
    if (this.value === 1) {
      if (!slow || idleShare >= IDLE) {
        this.#keepsUp();
        return;
      }
      this.#slowSince ??= now - lasted;
      const sustained = now - this.#began < FIRST_MS ? SUSTAINED_AT_FIRST_MS : SUSTAINED_MS;
      if (now - this.#slowSince < sustained) return;
    }
    const grows = waited >= this.#waitedBefore;
    this.#waitedBefore = waited;
    if (slow && idleShare < TIME_TO_SPARE) {
      // A backlog that shrinks needs no further cut, which would still be in force when it is gone.
      if (!grows) return;
      const cut = CUT * Math.min(MAX_WAIT_RATIO, waited / this.#maxDelay);
      this.value = Math.max(this.#minimum(), this.value * (1 - cut));
    } else if (waited < this.#maxDelay / 2 || idleShare >= TIME_TO_SPARE) {
      const rise = idleShare >= TIME_TO_SPARE ? FAST_RISE : RISE;
      this.value = Math.min(1, this.value * (1 + rise));
      if (this.value === 1) this.#keepsUp();
    }
  }

  #learn(busy: number, { judging, demand }: Checks): void {
    const costs = this.#costs;
    const rest = Math.max(0, busy - judging);
    this.#costs = {
      demand: KEPT * costs.demand + demand,
      rest: KEPT * costs.rest + rest,
    };
  }

  #minimum(): number {
    const { demand, rest } = this.#costs;
    if (demand === 0) return MIN_SHARE;
    const least = (MIN_TIME_RATIO * rest) / demand;
    // A mean that rises must not raise the share when it is to be cut.
    return Math.min(this.value, Math.max(MIN_SHARE, least));
  }

  #keepsUp(): void {
    this.#slowSince = undefined;
    this.peak = 0;
  }
}
