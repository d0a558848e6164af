// Decides which checks an overloaded agent sheds, by caller and priority. It measures the time for which received work waits
// for the event loop, and the number of checks that wait for other servers. See decisions.md for the reasons.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { KeyHash } from "../counters/local/keys/key-hash.ts";
import type { ShedCause } from "../flow.ts";
import { type Caller, Callers, UNKNOWN_CALLER } from "./callers.ts";
import { JudgedShare } from "./judged-share.ts";
import { Priorities } from "./priorities.ts";

/** Time between two measurements, ms. */
const MEASURE_MS = 20;
/** After so many measurements without any check, the guard sleeps until the next check. */
const MAX_UNUSED = 50;

/** Above this part of the limit of checks in progress, the least important ones are shed. */
const PRESSURE_FROM = 0.8;

/** An episode ends when nothing was shed for so long, ms. */
const CALM_MS = 2_000;

/** Limits; the keys of `flow_control.overload` have the same names. */
export interface OverloadLimits {
  /** Time for which checks wait until the event loop comes to them, ms. */
  readonly max_delay: number;
  /** Checks that wait for anything but their turn in a queue. */
  readonly max_in_progress: number;
}

export interface GuardContext {
  readonly clock: Clock;
  readonly chance: Chance;
  /** Idle time of the event loop since its start, ms. */
  readonly idle: () => number;
  /** Median waiting time of the work since the last call, ms; undefined without any work. */
  readonly waited: () => number | undefined;
  /** Called when an episode of shedding begins or ends. */
  readonly changed?: (shedding: boolean) => void;
}

export class OverloadGuard {
  /** `attend` must be called for checks that begin at this time or later, on `Clock.now()`. */
  until = Number.NEGATIVE_INFINITY;
  /** Checks that were shed. */
  shed = 0;
  /** The median wait at the last measurement, ms. */
  delay = 0;
  /** Hashes the addresses and keys of callers. */
  readonly hash: KeyHash;
  readonly #maxInProgress: number;
  readonly #context: GuardContext;
  /** The priorities of all checks, and of those whose callers are above the level. */
  readonly #priorities = new Priorities();
  readonly #inExcess = new Priorities();
  readonly #callers = new Callers();
  /** The share of checks that the delay allows to be judged. */
  readonly #judged: JudgedShare;
  #inProgress = 0;
  /** Ends the next measurement; undefined while nothing is measured. */
  #disarm: (() => void) | undefined;
  #closed = false;
  /** The time of the last measurement, and the idle time until then. */
  #measuredAt = 0;
  #idleAt = 0;
  /** True if `sheds` saw all checks since the last measurement, and their costs. */
  #seesAll = false;
  #checks = { judging: 0, demand: 0 };
  /** Measurements since the last check, and whether there was a check since the last measurement. */
  #unused = 0;
  #used = false;
  #lastShed = Number.NEGATIVE_INFINITY;
  #shedding = false;

  constructor({ max_delay, max_in_progress }: OverloadLimits, context: GuardContext) {
    this.#judged = new JudgedShare(max_delay);
    this.#maxInProgress = max_in_progress;
    this.#context = context;
    this.hash = KeyHash.seeded(context.chance);
  }

  get inProgress(): number {
    return this.#inProgress;
  }

  /** The longest median wait since the agent fell behind, ms; 0 while it keeps up. */
  get peak(): number {
    return this.#judged.peak;
  }

  /** The share of all checks that is shed, 0 to 1. */
  get share(): number {
    return Math.max(1 - this.#judged.value, this.#pressure());
  }

  begun(): void {
    this.#inProgress++;
    if (this.#pressure() > 0) this.until = Number.NEGATIVE_INFINITY;
  }

  ended(): void {
    this.#inProgress--;
  }

  /** True if `sheds` has to decide about a check that begins `now`. Otherwise the check is judged. */
  attend(now: number): boolean {
    if (this.#closed) return false;
    if (this.#disarm === undefined) this.#wake(now);
    this.#used = true;
    const decides = !this.#judged.settled || this.#pressure() > 0;
    // The next measurement, and the next check in progress, ask again.
    if (!decides) this.until = Number.POSITIVE_INFINITY;
    return decides;
  }

  /**
   * Why a check of this class is shed. Undefined if it is judged; call `judged` then, before the next check.
   */
  sheds(
    priorityClass: number,
    now: number,
    caller: Caller = UNKNOWN_CALLER,
  ): ShedCause | undefined {
    this.#checks.demand += this.#callers.arrived(caller);
    this.#priorities.arrived(priorityClass);
    const cause = this.#byDelay(priorityClass) ?? this.#byPressure(priorityClass);
    if (cause === undefined) return undefined;
    this.shed++;
    this.#lastShed = now;
    this.#show(true);
    return cause;
  }

  /** Sheds the excess of a caller above the fair level, its least important checks first. */
  #byDelay(priorityClass: number): ShedCause | undefined {
    const { share, costly } = this.#callers;
    if (share <= 0 || this.#judged.value === 1) return undefined;
    this.#inExcess.arrived(priorityClass);
    if (!this.#inExcess.sheds(priorityClass, share, this.#context.chance)) return undefined;
    return costly ? "cost" : "delay";
  }

  #byPressure(priorityClass: number): ShedCause | undefined {
    const share = this.#pressure();
    if (share <= 0) return undefined;
    const sheds = share >= 1 || this.#priorities.sheds(priorityClass, share, this.#context.chance);
    return sheds ? "in_progress" : undefined;
  }

  /** Charges the time that judging took, ms, without waits for other servers. */
  judged(ms: number): void {
    this.#callers.judged(ms);
    this.#checks.judging += ms;
  }

  close(): void {
    this.#closed = true;
    this.#disarm?.();
    this.#disarm = undefined;
    this.until = Number.POSITIVE_INFINITY;
  }

  /** 0 to 1: the checks in progress, from the number at which shedding begins to the limit. */
  #pressure(): number {
    const from = this.#maxInProgress * PRESSURE_FROM;
    const over = (this.#inProgress - from) / (this.#maxInProgress - from);
    return over <= 0 ? 0 : Math.min(1, over);
  }

  #wake(now: number): void {
    this.#unused = 0;
    this.#begin(now);
    // Drops the waits from before this measurement.
    this.#context.waited();
    this.#arm();
  }

  #begin(now: number): void {
    this.#measuredAt = now;
    this.#idleAt = this.#context.idle();
    this.#checks = { judging: 0, demand: 0 };
    this.#seesAll = !this.#judged.settled;
  }

  #arm(): void {
    const { clock } = this.#context;
    this.#disarm = clock.alarm(MEASURE_MS, () => this.#measure(clock.now()));
  }

  #measure(now: number): void {
    const waited = this.#context.waited();
    this.delay = waited ?? 0;
    this.#judged.measured({
      now,
      lasted: now - this.#measuredAt,
      idle: this.#context.idle() - this.#idleAt,
      waited,
      checks: this.#seesAll ? this.#checks : undefined,
    });
    this.#begin(now);
    this.#priorities.renew();
    this.#inExcess.renew();
    if (this.#judged.settled) this.#callers.clear();
    else this.#callers.renew(this.#judged.value);
    const calm = this.share === 0 && now - this.#lastShed >= CALM_MS;
    if (calm) this.#show(false);
    this.#unused = this.#used ? 0 : this.#unused + 1;
    this.#used = false;
    // The next check calls `attend`.
    this.until = Number.NEGATIVE_INFINITY;
    if (this.#unused < MAX_UNUSED || !calm) this.#arm();
    else this.#sleep();
  }

  #sleep(): void {
    this.#disarm = undefined;
    this.delay = 0;
    this.#priorities.clear();
    this.#inExcess.clear();
    this.#callers.clear();
  }

  #show(shedding: boolean): void {
    if (shedding === this.#shedding) return;
    this.#shedding = shedding;
    this.#context.changed?.(shedding);
  }
}
