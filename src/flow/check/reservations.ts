// Reservations: flows that took an estimate, from their check to their end, when the true cost takes its place. All
// limiters of a flow settle together, and once. An estimate that nobody settles within the time of its policy ends as that
// policy says.

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
import type { SettlingLimiter } from "../limit/stage-member.ts";
import type { Observer } from "../observer.ts";

/** Estimates that await their settlement at one time; one policy has at most half of them. One takes some 500 bytes. */
const MAX_ESTIMATES = 100_000;

/** Reservations that end by themselves in one turn, so that none of them keeps checks waiting. */
const MAX_EXPIRED = 1_000;

/** Length of a UUID, and of its first part. */
const ID_LENGTH = 36;
const ORIGIN_LENGTH = 8;

/** The tokens that one limiter took for a flow. */
interface Part {
  readonly limiter: SettlingLimiter;
  readonly grant: Grant;
}

/** The estimates of a flow whose policies give it the same time. */
interface Reservation {
  readonly parts: Part[];
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
  /** Limit of open estimates, shared by policies. */
  readonly #places: SharedPlaces;
  /** Reservations by timeout: those of one timeout end in the order in which they were made. */
  readonly #byTimeout = new Map<number, Map<string, Reservation>>();
  /** The first part of all ids that are made here. */
  #origin = "";
  #alarm: (() => void) | undefined;
  #rings = Number.POSITIVE_INFINITY;

  constructor(context: Context, most = MAX_ESTIMATES) {
    this.#context = context;
    this.#places = new SharedPlaces(most);
  }

  /** Estimates that await their settlement. */
  get count(): number {
    return this.#places.count;
  }

  /**
   * Reserves what an accepted flow took, and returns the id for its end; empty where no limiter settles anything, or where
   * its policies have too many estimates open already.
   */
  open(decisions: readonly Decision[], limiters: ReadonlyMap<Component, SettlingLimiter>): string {
    const parts = this.#partsWithRoom(decisions, limiters);
    if (parts.length === 0) return "";
    const { clock, chance } = this.#context;
    const now = clock.now();
    const id = this.#originOfIds() + uuid(chance).slice(ORIGIN_LENGTH);
    for (const part of parts) {
      const { settlement } = part.limiter;
      const alike = this.#alike(settlement.timeoutMs);
      const known = alike.get(id);
      if (known !== undefined) {
        known.parts.push(part);
        continue;
      }
      const until = now + settlement.timeoutMs;
      alike.set(id, { parts: [part], until });
      if (until < this.#rings) this.#ringAt(until);
    }
    return id;
  }

  /** Settles all that a flow took and that its policies still keep open. */
  settle({ reservationId, cost, status }: FlowEnd): Settlement {
    const parts = this.#take(reservationId);
    if (parts.length === 0) return this.#isFromHere(reservationId) ? "unknown" : "elsewhere";
    const { observer } = this.#context;
    for (const { limiter, grant } of parts) {
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
   * Takes a place for each grant of a limiter that settles, and returns these grants. Those of a policy without room
   * charge the estimate, which is reported.
   */
  #partsWithRoom(
    decisions: readonly Decision[],
    limiters: ReadonlyMap<Component, SettlingLimiter>,
  ): readonly Part[] {
    const { observer } = this.#context;
    const parts: Part[] = [];
    let isFull = false;
    for (const decision of decisions) {
      const limiter = limiters.get(decision.component);
      const grant = limiter === undefined ? undefined : grantOf(decision);
      if (limiter === undefined || grant === undefined) continue;
      const { policyName } = limiter.component;
      if (this.#places.hasRoomFor(policyName)) {
        this.#places.take(policyName);
        parts.push({ limiter, grant });
      } else {
        isFull = true;
        observer.settled(limiter.component, "no_room", 0);
      }
    }
    if (isFull) observer.anomaly("reservations_full");
    return parts;
  }

  /** Drawn when it is needed: an agent whose flows settle nothing draws no chance for it. */
  #originOfIds(): string {
    if (this.#origin === "") this.#origin = uuid(this.#context.chance).slice(0, ORIGIN_LENGTH);
    return this.#origin;
  }

  /** False for ids that another agent has made, or this one before it was started again. */
  #isFromHere(id: string): boolean {
    return id.length !== ID_LENGTH || id.startsWith(this.#originOfIds());
  }

  #alike(timeoutMs: number): Map<string, Reservation> {
    let alike = this.#byTimeout.get(timeoutMs);
    if (alike === undefined) {
      alike = new Map();
      this.#byTimeout.set(timeoutMs, alike);
    }
    return alike;
  }

  #take(id: string): readonly Part[] {
    const taken: Part[] = [];
    for (const [timeoutMs, alike] of this.#byTimeout) {
      const found = alike.get(id);
      if (found === undefined) continue;
      this.#remove(timeoutMs, alike, id, found);
      taken.push(...found.parts);
    }
    return taken;
  }

  #remove(
    timeoutMs: number,
    alike: Map<string, Reservation>,
    id: string,
    { parts }: Reservation,
  ): void {
    alike.delete(id);
    if (alike.size === 0) this.#byTimeout.delete(timeoutMs);
    for (const { limiter } of parts) this.#places.giveBack(limiter.component.policyName);
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
        this.#remove(timeoutMs, alike, id, reservation);
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
