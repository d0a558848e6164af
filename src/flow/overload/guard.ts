// Decides how many checks an agent sheds because it has more of them than it can judge, whose, and which. There are two
// measures: the time for which what callers send waits until the event loop comes to it, and the number of checks that
// wait for other servers. See decisions.md for the reasons.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { KeyHash } from "../counters/local/keys/key-hash.ts";
import type { ShedCause } from "../flow.ts";
import { type Caller, Callers, UNKNOWN_CALLER } from "./callers.ts";
import type { InProgress } from "./in-progress.ts";
import { JudgedShare } from "./judged-share.ts";
import { Priorities } from "./priorities.ts";

/** Time between two measurements, ms. */
const LOOK_MS = 20;
/** Measurements without any check after which nothing is measured until the next one comes. */
const MOST_UNUSED = 50;

/** The part of the limit of checks in progress above which the least important ones are shed. */
const PRESSURE_FROM = 0.8;

/** An episode is over when nothing was shed for so long, ms. */
const CALM_MS = 2_000;

/** Limits; the keys of `flow_control.overload` have the same names. */
export interface OverloadLimits {
  /** Time for which checks wait until the event loop comes to them, ms. */
  readonly max_delay: number;
  /** Checks that were begun and wait for something else than their turn in a queue. */
  readonly max_in_progress: number;
}

export interface GuardContext {
  readonly clock: Clock;
  readonly chance: Chance;
  /** Milliseconds for which the event loop has had nothing to do, ever. */
  readonly idle: () => number;
  /** The median time for which work had waited when it was its turn, since the last call, ms; undefined without any. */
  readonly waited: () => number | undefined;
  /** An episode of shedding has begun, or is over. */
  readonly changed?: (shedding: boolean) => void;
}

export class OverloadGuard implements InProgress {
  /** Checks that begin at this time or later, on `Clock.now()`, must be shown to `attend` first. */
  until = Number.NEGATIVE_INFINITY;
  /** Checks that were shed. */
  shed = 0;
  /** The median wait at the last measurement, ms. */
  delay = 0;
  /** Hashes what tells callers apart. */
  readonly hash: KeyHash;
  readonly #maxInProgress: number;
  readonly #context: GuardContext;
  /** The priorities of all checks, and of those whose callers ask for more than there is for them. */
  readonly #priorities = new Priorities();
  readonly #inExcess = new Priorities();
  readonly #callers = new Callers();
  /** The share of checks that the delay allows to be judged. */
  readonly #judged: JudgedShare;
  #inProgress = 0;
  /** Ends the next measurement; undefined while nothing is measured. */
  #disarm: (() => void) | undefined;
  #closed = false;
  /** When the last measurement was, and for how long the loop had been idle then. */
  #lookedAt = 0;
  #idleAt = 0;
  /** Since the last measurement: all checks were shown, and how many there were with their costs. */
  #seesAll = false;
  #checks = { judging: 0, demand: 0 };
  /** Measurements since the last check, and whether there was one since the last measurement. */
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

  /** Checks in progress. */
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

  /** Returns true if `sheds` has to decide about a check that begins `now`; otherwise the check is judged. */
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
   * The reason for which a check of this class is shed; undefined if it is judged, and `judged` told of it before another
   * check is shown.
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

  /** Counts a check that was judged, which took so many milliseconds, waits for other servers apart. */
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

  /** 0 to 1: how far the checks in progress are between the number from which some are shed and the limit. */
  #pressure(): number {
    const from = this.#maxInProgress * PRESSURE_FROM;
    const over = (this.#inProgress - from) / (this.#maxInProgress - from);
    return over <= 0 ? 0 : Math.min(1, over);
  }

  #wake(now: number): void {
    this.#unused = 0;
    this.#begin(now);
    // Drops the waits of the time in which nothing was measured.
    this.#context.waited();
    this.#arm();
  }

  #begin(now: number): void {
    this.#lookedAt = now;
    this.#idleAt = this.#context.idle();
    this.#checks = { judging: 0, demand: 0 };
    this.#seesAll = !this.#judged.settled;
  }

  #arm(): void {
    const { clock } = this.#context;
    this.#disarm = clock.alarm(LOOK_MS, () => this.#look(clock.now()));
  }

  #look(now: number): void {
    const waited = this.#context.waited();
    this.delay = waited ?? 0;
    this.#judged.measured({
      now,
      lasted: now - this.#lookedAt,
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
    // The next check shows that there are some, unless it has to be attended to anyway.
    this.until = Number.NEGATIVE_INFINITY;
    if (this.#unused < MOST_UNUSED || !calm) this.#arm();
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
