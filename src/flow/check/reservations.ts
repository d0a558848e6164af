// Reservations: the estimates that flows took, from the check to the end of the flow, when the true cost replaces them.
// All limiters of a flow settle together, and once. An estimate that nobody settles in time ends as its policy says.

import { type Chance, uuid } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { SharedPlaces } from "#base/shared-places.ts";
import {
  type Component,
  type Decision,
  type FlowEnd,
  type Grant,
  grantOf,
  type Settlement,
} from "../flow.ts";
import type { SettlingLimiter } from "../limit/limiter.ts";
import type { Observer } from "../observer.ts";

/** Limit of open estimates, of which one policy has at most half. One takes about 500 bytes. */
const MAX_ESTIMATES = 100_000;

/** Reservations that expire in one turn of the event loop, so that checks need not wait for them. */
const MAX_EXPIRED = 1_000;

/** Length of a UUID, and of its first part. */
const ID_LENGTH = 36;
const ORIGIN_LENGTH = 8;

/** The tokens that one limiter took for a flow. */
interface Estimate {
  readonly limiter: SettlingLimiter;
  readonly grant: Grant;
}

/** The estimates of a flow that have the same timeout. */
interface Reservation {
  readonly estimates: Estimate[];
  /** When it expires, on `Clock.now()`. */
  readonly until: number;
}

interface Context {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly observer: Observer;
}

export class Reservations {
  readonly #context: Context;
  /** Limit of open estimates, shared by policies. */
  readonly #places: SharedPlaces;
  /** Reservations by timeout: those of one timeout expire in the order in which they were made. */
  readonly #byTimeout = new Map<number, Map<string, Reservation>>();
  /** The beginning of all ids that are made here. */
  #origin = "";
  #stopAlarm: (() => void) | undefined;
  #alarmAt = Number.POSITIVE_INFINITY;

  constructor(context: Context, maxEstimates = MAX_ESTIMATES) {
    this.#context = context;
    this.#places = new SharedPlaces(maxEstimates);
  }

  /** Estimates that await their settlement. */
  get count(): number {
    return this.#places.count;
  }

  /**
   * Reserves the estimates of an accepted flow, and returns the id for its end. The id is empty where no limiter settles
   * anything, or where the policies of the flow have too many open estimates.
   */
  open(decisions: readonly Decision[], limiters: ReadonlyMap<Component, SettlingLimiter>): string {
    const estimates = this.#withRoom(decisions, limiters);
    if (estimates.length === 0) return "";
    const { clock, chance } = this.#context;
    const now = clock.now();
    const id = this.#originOfIds() + uuid(chance).slice(ORIGIN_LENGTH);
    for (const estimate of estimates) {
      const { settlement } = estimate.limiter;
      const sameTimeout = this.#sameTimeout(settlement.timeoutMs);
      const known = sameTimeout.get(id);
      if (known !== undefined) {
        known.estimates.push(estimate);
        continue;
      }
      const until = now + settlement.timeoutMs;
      sameTimeout.set(id, { estimates: [estimate], until });
      if (until < this.#alarmAt) this.#setAlarm(until);
    }
    return id;
  }

  /** Settles the open estimates of a flow. */
  settle({ reservationId, cost, status }: FlowEnd): Settlement {
    const estimates = this.#take(reservationId);
    if (estimates.length === 0) return this.#isFromHere(reservationId) ? "unknown" : "elsewhere";
    const { observer } = this.#context;
    for (const { limiter, grant } of estimates) {
      const refunded = status > 0 && isRefunded(status, limiter.settlement.refundStatuses);
      const final = refunded ? 0 : (cost ?? grant.amount);
      limiter.settle(grant, final);
      observer.settled(
        limiter.component,
        refunded ? "refunded" : "committed",
        final - grant.amount,
      );
    }
    return "settled";
  }

  /**
   * Takes a place for each grant of a limiter that settles, and returns these grants. Where a policy has no room, its
   * flow is charged the estimate, which is reported.
   */
  #withRoom(
    decisions: readonly Decision[],
    limiters: ReadonlyMap<Component, SettlingLimiter>,
  ): readonly Estimate[] {
    const { observer } = this.#context;
    const estimates: Estimate[] = [];
    let isFull = false;
    for (const decision of decisions) {
      const limiter = limiters.get(decision.component);
      const grant = limiter === undefined ? undefined : grantOf(decision);
      if (limiter === undefined || grant === undefined) continue;
      const { policyName } = limiter.component;
      if (this.#places.hasRoomFor(policyName)) {
        this.#places.take(policyName);
        estimates.push({ limiter, grant });
      } else {
        isFull = true;
        observer.settled(limiter.component, "no_room", 0);
      }
    }
    if (isFull) observer.anomaly("reservations_full");
    return estimates;
  }

  /** Drawn when the first id is made. */
  #originOfIds(): string {
    if (this.#origin === "") this.#origin = uuid(this.#context.chance).slice(0, ORIGIN_LENGTH);
    return this.#origin;
  }

  /** False for ids that another agent made, or this one before a restart. */
  #isFromHere(id: string): boolean {
    return id.length !== ID_LENGTH || id.startsWith(this.#originOfIds());
  }

  #sameTimeout(timeoutMs: number): Map<string, Reservation> {
    let sameTimeout = this.#byTimeout.get(timeoutMs);
    if (sameTimeout === undefined) {
      sameTimeout = new Map();
      this.#byTimeout.set(timeoutMs, sameTimeout);
    }
    return sameTimeout;
  }

  #take(id: string): readonly Estimate[] {
    const taken: Estimate[] = [];
    for (const [timeoutMs, sameTimeout] of this.#byTimeout) {
      const found = sameTimeout.get(id);
      if (found === undefined) continue;
      this.#remove(timeoutMs, sameTimeout, id, found);
      taken.push(...found.estimates);
    }
    return taken;
  }

  #remove(
    timeoutMs: number,
    sameTimeout: Map<string, Reservation>,
    id: string,
    { estimates }: Reservation,
  ): void {
    sameTimeout.delete(id);
    if (sameTimeout.size === 0) this.#byTimeout.delete(timeoutMs);
    for (const { limiter } of estimates) this.#places.giveBack(limiter.component.policyName);
  }

  #setAlarm(until: number): void {
    this.#stopAlarm?.();
    this.#alarmAt = until;
    const { clock } = this.#context;
    this.#stopAlarm = clock.alarm(Math.max(0, until - clock.now()), () => {
      this.#stopAlarm = undefined;
      this.#alarmAt = Number.POSITIVE_INFINITY;
      this.#expire();
    });
  }

  /** Ends the reservations that have expired, and sets the alarm for the next one. */
  #expire(): void {
    const now = this.#context.clock.now();
    let left = MAX_EXPIRED;
    let next = Number.POSITIVE_INFINITY;
    for (const [timeoutMs, sameTimeout] of this.#byTimeout) {
      for (const [id, reservation] of sameTimeout) {
        if (reservation.until > now || left === 0) {
          next = Math.min(next, reservation.until);
          break;
        }
        left--;
        this.#remove(timeoutMs, sameTimeout, id, reservation);
        this.#end(reservation);
      }
    }
    if (next < Number.POSITIVE_INFINITY) this.#setAlarm(next);
  }

  #end({ estimates }: Reservation): void {
    const { observer } = this.#context;
    for (const { limiter, grant } of estimates) {
      const refunds = limiter.settlement.unsettled === "refund";
      if (refunds) limiter.settle(grant, 0);
      const difference = refunds ? -grant.amount : 0;
      observer.settled(limiter.component, refunds ? "unsettled_refunded" : "unsettled", difference);
    }
  }
}

/** True if the list has this status, or its class, such as `5xx`. */
function isRefunded(status: number, statuses: readonly string[]): boolean {
  return statuses.includes(`${Math.floor(status / 100)}xx`) || statuses.includes(`${status}`);
}
