// Decides how many checks an agent sheds because it has more of them than it can judge, and which. The measure is the
// delay of the event loop: the time until what is ready now has been handled. An agent that is busy but not behind has
// hardly any; one that has several hundred checks waiting has tens of milliseconds. See README.md for the reasons.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { ShedCause } from "../flow.ts";
import type { InProgress } from "./in-progress.ts";
import { Priorities } from "./priorities.ts";

/** Time between two measurements, ms. */
const LOOK_MS = 20;
/** Measurements without any check after which nothing is measured until the next one comes. */
const MOST_UNUSED = 50;

/** The delay has to be above its limit for so long, in two turns at least, before anything is shed, ms. */
const SUSTAINED_MS = 200;
/** A loop that was idle for more than this share of the time since the last measurement is not overloaded. */
const IDLE = 0.1;

/** The share of checks that are judged is cut by so much per measurement, times the delay in units of its limit. */
const CUT = 0.05;
/** Largest delay that counts, in units of the limit. */
const LARGEST = 4;
/** The share grows by so much while the delay is below half of its limit: slowly unless the loop has time to spare. */
const RISE = 0.02;
const FAST_RISE = 0.1;
const TIME_TO_SPARE = 0.3;
/** So many are always judged, so that there is something to grow from. */
const LEAST = 0.01;

/** The part of the limit of checks in progress above which the least important ones are shed. */
const PRESSURE_FROM = 0.8;

/** An episode is over when nothing was shed for so long, ms. */
const CALM_MS = 2_000;

/** Limits; the keys of `flow_control.overload` have the same names. */
export interface OverloadLimits {
  /** Delay of the event loop, ms. */
  readonly max_delay: number;
  /** Checks that were begun and wait for something else than their turn in a queue. */
  readonly max_in_progress: number;
}

export interface GuardContext {
  readonly clock: Clock;
  readonly chance: Chance;
  /** Milliseconds for which the event loop has had nothing to do, ever. */
  readonly idle: () => number;
  /** Milliseconds for which its thread has computed, ever. */
  readonly computed: () => number;
  /** An episode of shedding has begun, or is over. */
  readonly changed?: (shedding: boolean) => void;
}

export class OverloadGuard implements InProgress {
  /** Checks that begin at this time or later, on `Clock.now()`, must be shown to `attend` first. */
  until = Number.NEGATIVE_INFINITY;
  /** Checks that were shed. */
  shed = 0;
  /** The last measurement, ms. */
  delay = 0;
  /** The longest delay since the agent fell behind, ms; 0 while it keeps up. */
  peak = 0;
  readonly #limits: OverloadLimits;
  readonly #context: GuardContext;
  readonly #priorities = new Priorities();
  /** Share of the checks that the delay allows to be judged. */
  #judged = 1;
  #inProgress = 0;
  /** Ends the next measurement; undefined while nothing is measured. */
  #disarm: (() => void) | undefined;
  #closed = false;
  /** When the next measurement is due, when the last one was, and what the loop had been idle and computed then. */
  #due = 0;
  #lookedAt = 0;
  #idleAt = 0;
  #computedAt = 0;
  /** When a turn that is still under way is looked at next. */
  #nextLookWithin = 0;
  /** The begin of a period in which each measurement was above the limit, and their number. */
  #slowSince: number | undefined;
  #slowLooks = 0;
  /** Measurements since the last check, and whether there was one since the last measurement. */
  #unused = 0;
  #used = false;
  #lastShed = Number.NEGATIVE_INFINITY;
  #shedding = false;

  constructor(limits: OverloadLimits, context: GuardContext) {
    // Read once: they come as a part of a larger object of the configuration.
    const { max_delay, max_in_progress } = limits;
    this.#limits = { max_delay, max_in_progress };
    this.#context = context;
  }

  /** Checks in progress. */
  get inProgress(): number {
    return this.#inProgress;
  }

  /** The share of all checks that is shed, 0 to 1. */
  get share(): number {
    return Math.max(1 - this.#judged, this.#pressure());
  }

  begun(): void {
    this.#inProgress++;
    if (this.#pressure() > 0) this.until = Number.NEGATIVE_INFINITY;
  }

  ended(): void {
    this.#inProgress--;
  }

  /** Whether the priority of a check that begins `now` matters. Then `sheds` decides; otherwise the check is judged. */
  attend(now: number): boolean {
    if (this.#closed) return false;
    if (this.#disarm === undefined) this.#wake(now);
    this.#used = true;
    // The measurement is overdue, because this turn is long: the checks that it has still in hand need not wait for it.
    if (now > this.#nextLookWithin) this.#lookWithinTurn(now);
    const matters = this.#judged < 1 || this.#slowSince !== undefined || this.#pressure() > 0;
    this.until = matters ? Number.NEGATIVE_INFINITY : this.#due + this.#limits.max_delay;
    return matters;
  }

  /** The reason for which a check of this class is shed; undefined if it is judged. */
  sheds(priorityClass: number, now: number): ShedCause | undefined {
    this.#priorities.arrived(priorityClass);
    const pressure = this.#pressure();
    const byDelay = 1 - this.#judged;
    const share = Math.max(byDelay, pressure);
    if (share <= 0) return undefined;
    const sheds = share >= 1 || this.#priorities.sheds(priorityClass, share, this.#context.chance);
    if (!sheds) return undefined;
    this.shed++;
    this.#lastShed = now;
    this.#show(true);
    return pressure >= byDelay ? "in_progress" : "delay";
  }

  close(): void {
    this.#closed = true;
    this.#disarm?.();
    this.#disarm = undefined;
  }

  /** 0 to 1: how far the checks in progress are between the number from which some are shed and the limit. */
  #pressure(): number {
    const { max_in_progress } = this.#limits;
    const from = max_in_progress * PRESSURE_FROM;
    const over = (this.#inProgress - from) / (max_in_progress - from);
    return over <= 0 ? 0 : Math.min(1, over);
  }

  #wake(now: number): void {
    this.#unused = 0;
    this.#lookedAt = now;
    this.#idleAt = this.#context.idle();
    this.#computedAt = this.#context.computed();
    this.#arm(now);
  }

  #arm(now: number): void {
    const { clock } = this.#context;
    this.#due = now + LOOK_MS;
    this.#nextLookWithin = this.#due + this.#limits.max_delay;
    this.#disarm = clock.alarm(LOOK_MS, () => {
      // An alarm for now rings when the loop has turned, and so has handled all that is ready.
      this.#disarm = clock.alarm(0, () => this.#look(clock.now()));
    });
  }

  /** A measurement: what was ready when it was due has been handled now. */
  #look(now: number): void {
    const idle = this.#context.idle();
    const passed = now - this.#lookedAt;
    const idleShare = passed > 0 ? (idle - this.#idleAt) / passed : 1;
    this.delay = this.#delayAt(now);
    this.#measured(this.delay, idleShare, now);
    if (this.delay > this.#limits.max_delay && idleShare < IDLE) this.#slowLooks++;
    this.#lookedAt = now;
    this.#idleAt = idle;
    this.#computedAt = this.#context.computed();
    this.#priorities.renew();
    const calm = this.share === 0 && now - this.#lastShed >= CALM_MS;
    if (calm) this.#show(false);
    this.#unused = this.#used ? 0 : this.#unused + 1;
    this.#used = false;
    // The next check shows that there are some, unless it has to be attended to anyway.
    this.until = Number.NEGATIVE_INFINITY;
    if (this.#unused < MOST_UNUSED || !calm) this.#arm(now);
    else this.#sleep();
  }

  #sleep(): void {
    this.#disarm = undefined;
    this.#priorities.clear();
  }

  /** The loop is not idle within a turn. */
  #lookWithinTurn(now: number): void {
    this.#nextLookWithin = now + LOOK_MS;
    this.delay = this.#delayAt(now);
    // More may have to be done in this turn, so it shows that the agent is late, and never that it is not.
    if (this.delay > this.#limits.max_delay) this.#measured(this.delay, 0, now);
  }

  /** By how much the measurement is late that was due, as far as the thread has computed meanwhile. */
  #delayAt(now: number): number {
    const computed = this.#context.computed() - this.#computedAt - LOOK_MS;
    return Math.max(0, Math.min(now - this.#due, computed));
  }

  #measured(delay: number, idleShare: number, now: number): void {
    const { max_delay } = this.#limits;
    const slow = delay > max_delay;
    if (slow) this.peak = Math.max(this.peak, delay);
    if (this.#judged === 1) {
      if (!slow || idleShare >= IDLE) {
        this.#keepsUp();
        return;
      }
      this.#slowSince ??= this.#lookedAt;
      // One long turn, as after a pause of the process, is no overload: the turn after it has to be long as well.
      if (this.#slowLooks < 1 || now - this.#slowSince < SUSTAINED_MS) return;
    }
    if (slow && idleShare < TIME_TO_SPARE) {
      const cut = CUT * Math.min(LARGEST, delay / max_delay);
      this.#judged = Math.max(LEAST, this.#judged * (1 - cut));
    } else if (delay < max_delay / 2 || idleShare >= TIME_TO_SPARE) {
      const rise = idleShare >= TIME_TO_SPARE ? FAST_RISE : RISE;
      this.#judged = Math.min(1, this.#judged * (1 + rise));
      if (this.#judged === 1) this.#keepsUp();
    }
  }

  #keepsUp(): void {
    this.#slowSince = undefined;
    this.#slowLooks = 0;
    this.peak = 0;
  }

  #show(shedding: boolean): void {
    if (shedding === this.#shedding) return;
    this.#shedding = shedding;
    this.#context.changed?.(shedding);
  }
}
