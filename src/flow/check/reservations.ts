// Reservations: flows that took an estimate, from their check to their end, when the true cost takes its place. All
// limiters of a flow settle together, and once. A reservation that nobody settles in time ends as its policies say.

import { type Chance, uuid } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { type Component, type Decision, type FlowEnd, type Grant, grantOf } from "../flow.ts";
import type { SettlingLimiter } from "../limit/stage-member.ts";
import type { Observer } from "../observer.ts";

/** Flows whose end is awaited at one time. One takes some 500 bytes; further ones cost what they took. */
const MAX_RESERVATIONS = 50_000;

/** Reservations that end by themselves in one turn, so that none of them keeps checks waiting. */
const MAX_EXPIRED = 1_000;

/** The tokens that one limiter took for a flow. */
interface Part {
  readonly limiter: SettlingLimiter;
  readonly grant: Grant;
}

interface Reservation {
  readonly parts: readonly Part[];
  /** When it ends by itself, on `Clock.now()`. */
  readonly until: number;
}

interface Context {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly observer: Observer;
}

export class Reservations {
  readonly #context: Context;
  readonly #most: number;
  /** Reservations by timeout: those of one timeout end in the order in which they were made. */
  readonly #byTimeout = new Map<number, Map<string, Reservation>>();
  #count = 0;
  #alarm: (() => void) | undefined;
  #rings = Number.POSITIVE_INFINITY;

  constructor(context: Context, most = MAX_RESERVATIONS) {
    this.#context = context;
    this.#most = most;
  }

  /** Flows whose end is awaited. */
  get count(): number {
    return this.#count;
  }

  /** Reserves what an accepted flow took, and returns the id for its end; empty where no limiter settles anything. */
  open(decisions: readonly Decision[], limiters: ReadonlyMap<Component, SettlingLimiter>): string {
    const { clock, chance, observer } = this.#context;
    const parts: Part[] = [];
    let timeoutMs = 0;
    for (const decision of decisions) {
      const limiter = limiters.get(decision.component);
      const grant = limiter === undefined ? undefined : grantOf(decision);
      if (limiter === undefined || grant === undefined) continue;
      parts.push({ limiter, grant });
      timeoutMs = Math.max(timeoutMs, limiter.settlement.timeoutMs);
    }
    if (parts.length === 0) return "";
    if (this.#count >= this.#most) {
      observer.anomaly("reservations_full");
      return "";
    }
    const id = uuid(chance);
    const until = clock.now() + timeoutMs;
    let alike = this.#byTimeout.get(timeoutMs);
    if (alike === undefined) {
      alike = new Map();
      this.#byTimeout.set(timeoutMs, alike);
    }
    alike.set(id, { parts, until });
    this.#count++;
    if (until < this.#rings) this.#ringAt(until);
    return id;
  }

  /** Settles all that a flow took. False when the reservation is unknown: it was settled before, or has ended. */
  settle({ reservationId, cost, status }: FlowEnd): boolean {
    const reservation = this.#take(reservationId);
    if (reservation === undefined) return false;
    const { observer } = this.#context;
    for (const { limiter, grant } of reservation.parts) {
      const refunded = status > 0 && isRefunded(status, limiter.settlement.refundStatuses);
      const final = refunded ? 0 : (cost ?? grant.amount);
      limiter.settle(grant, final);
      observer.settled(
        limiter.component,
        refunded ? "refunded" : "committed",
        final - grant.amount,
      );
    }
    return true;
  }

  #take(id: string): Reservation | undefined {
    for (const [timeoutMs, alike] of this.#byTimeout) {
      const found = alike.get(id);
      if (found === undefined) continue;
      this.#remove(timeoutMs, alike, id);
      return found;
    }
    return undefined;
  }

  #remove(timeoutMs: number, alike: Map<string, Reservation>, id: string): void {
    alike.delete(id);
    if (alike.size === 0) this.#byTimeout.delete(timeoutMs);
    this.#count--;
  }

  #ringAt(until: number): void {
    this.#alarm?.();
    this.#rings = until;
    const { clock } = this.#context;
    this.#alarm = clock.alarm(Math.max(0, until - clock.now()), () => {
      this.#alarm = undefined;
      this.#rings = Number.POSITIVE_INFINITY;
      this.#expire();
    });
  }

  /** Ends the reservations whose time is over, and sets the alarm for the next one. */
  #expire(): void {
    const now = this.#context.clock.now();
    let left = MAX_EXPIRED;
    let next = Number.POSITIVE_INFINITY;
    for (const [timeoutMs, alike] of this.#byTimeout) {
      for (const [id, reservation] of alike) {
        if (reservation.until > now || left === 0) {
          next = Math.min(next, reservation.until);
          break;
        }
        left--;
        this.#remove(timeoutMs, alike, id);
        this.#end(reservation);
      }
    }
    if (next < Number.POSITIVE_INFINITY) this.#ringAt(next);
  }

  #end({ parts }: Reservation): void {
    const { observer } = this.#context;
    for (const { limiter, grant } of parts) {
      const refunds = limiter.settlement.unsettled === "refund";
      if (refunds) limiter.settle(grant, 0);
      const difference = refunds ? -grant.amount : 0;
      observer.settled(limiter.component, refunds ? "unsettled_refunded" : "unsettled", difference);
    }
  }
}

/** Whether a status is one of those, or of a class such as `5xx` among them. */
function isRefunded(status: number, statuses: readonly string[]): boolean {
  return statuses.includes(`${Math.floor(status / 100)}xx`) || statuses.includes(`${status}`);
}
