// One key at an agent: its leased tokens, its demand, and the last refusal of the owner. Arithmetic only;
// `leased-buckets.ts` makes the requests.

import { type BucketParams, SLACK } from "#flow/counters/counter-engine.ts";
import type { BucketReply, LeaseRequest } from "./bucket-owner.ts";
import type { FollowedKey } from "./followed-keys.ts";
import type { LeaseHolder } from "./lease-holder.ts";

/** Part of a lease's duration for which it is spent: clocks do not run equally fast. */
const SPENT_FOR = 0.95;
/** A lease is renewed after this part of its duration, or when this part of it is left. */
const RENEWED_AFTER = 0.5;
/** Tokens beyond those that were spent in the time between two renewals. */
const HEADROOM = 1.25;
/** Shortest time over which demand is measured, and time between attempts that came to nothing; parts of the duration. */
const MIN_WINDOW = 1 / 16;
/** Largest growth from one lease to the next. */
const MAX_GROWTH = 4;
/** A key from which fewer flows per duration are admitted is not worth a lease. */
const MIN_FLOWS_PER_LEASE = 4;

/** The use of a request for the tokens that are held. */
export type Purpose =
  /** They come back, because flows wait for more than there is. */
  | "ask"
  /** They are kept as far as they are needed. */
  | "renew"
  /** They come back. */
  | "return";

export class LeasedKey implements FollowedKey {
  readonly #holder: LeaseHolder;
  readonly #durationMs: number;
  /** A request is on its way. */
  asking = false;
  /** The number of the last request with a lease. */
  turn = 0;
  /** Leased tokens, until `#until`. Never more than the owner counts for this agent, which is `#counted`. */
  #held = 0;
  #counted = 0;
  #until = Number.NEGATIVE_INFINITY;
  #renewAt = Number.NEGATIVE_INFINITY;
  #renewBelow = 0;
  /** No renewal before this time, because the last one prefetched nothing. */
  #patienceUntil = Number.NEGATIVE_INFINITY;
  /** Nothing is leased before this time, because the owner recalled the lease. */
  #recalledUntil = Number.NEGATIVE_INFINITY;
  /**
   * Tokens that the lease keeps while a request is on its way, and the part of its reply that counts after the capacity
   * was lowered.
   */
  #kept = 0;
  #cut = 1;
  #sentAt = 0;
  #everSpent = 0;
  /** Tokens admitted since `#since`. */
  #spent = 0;
  #since: number;
  /** The tokens that it wants to hold, and what one flow took last. */
  #target = 0;
  #unit = 1;
  /** Tokens that are left by the last reply of the owner, less the tokens that were spent here since. */
  #tokens = 0;
  #usedAt: number;
  /** Amounts from this one on are refused without asking until `#askAgainAt`; they could be there at `#readyAt`. */
  #refused = Number.POSITIVE_INFINITY;
  #readyAt = 0;
  #askAgainAt = Number.NEGATIVE_INFINITY;

  constructor(holder: LeaseHolder, now: number) {
    this.#holder = holder;
    this.#durationMs = holder.settings.duration;
    this.#since = now;
    this.#usedAt = now;
  }

  get tokens(): number {
    return this.#tokens;
  }

  /** Whether the owner counts tokens for it. */
  get leased(): boolean {
    return this.#counted > 0;
  }

  /** Leased tokens that were ever spent, less those that were put back. */
  get everSpent(): number {
    return this.#everSpent;
  }

  /** The part of `everSpent` that the owner knows of once it has read all requests so far. */
  get reported(): number {
    return this.#everSpent - Math.max(0, this.#counted - this.#held);
  }

  /** Takes from the leased tokens. False when there are not enough. */
  spend(want: number, now: number): boolean {
    this.#usedAt = now;
    if (now >= this.#until || want > this.#held + SLACK) return false;
    this.#held -= want;
    this.#everSpent += want;
    this.#spent += want;
    this.#tokens -= want;
    if (want > 0) this.#unit = want;
    return true;
  }

  /** Returns tokens to the lease. Returns the rest, which does not belong to the lease. */
  putBack(amount: number, now: number): number {
    this.#refused = Number.POSITIVE_INFINITY;
    this.#tokens += amount;
    if (now >= this.#until) return amount;
    const added = Math.max(0, Math.min(amount, this.#counted - this.#held));
    this.#held += added;
    this.#everSpent -= added;
    this.#spent = Math.max(0, this.#spent - added);
    return amount - added;
  }

  /**
   * Milliseconds until so much could be there where the owner just refused it; undefined where it has to be asked, which
   * may be so `aheadMs` before the time.
   */
  refusal(want: number, now: number, aheadMs = 0): number | undefined {
    if (want < this.#refused || now + aheadMs >= this.#askAgainAt) return undefined;
    return this.#readyAt - now;
  }

  refuse(want: number, waitMs: number, now: number): void {
    if (waitMs <= 0) return;
    this.#refused = want;
    this.#readyAt = now + waitMs;
    // Tokens that others give back are there sooner.
    this.#askAgainAt = now + Math.min(waitMs, this.#durationMs);
  }

  /** Whether it is time to ask for more, so that no flow has to wait. */
  wantsRenewal(now: number): boolean {
    if (this.asking || now < this.#patienceUntil) return false;
    return now >= this.#renewAt || this.#held < this.#renewBelow;
  }

  /** Whether it has tokens that nobody has wanted since they should have been renewed. */
  unused(now: number): boolean {
    const late = this.#renewAt + MIN_WINDOW * this.#durationMs;
    return !this.asking && this.#counted > 0 && now >= late && now < this.#until;
  }

  /** The lease of a request that is sent now. Undefined where there is none and none is needed. */
  request(purpose: Purpose, waiting: number, now: number): LeaseRequest | undefined {
    const wanted = purpose === "return" ? 0 : this.#demand(waiting, now);
    // Rounding may make the spent tokens slightly more than there were.
    const unspent = Math.max(0, this.#held);
    const keep = purpose === "renew" ? Math.min(unspent, wanted) : 0;
    const wish = wanted - keep;
    this.asking = true;
    this.#sentAt = now;
    this.#kept = keep;
    this.#cut = 1;
    const known = this.#counted > 0;
    this.#held = keep;
    this.#counted = keep;
    if (!known && wish <= 0) return undefined;
    this.turn = this.#holder.nextTurn();
    const { turn } = this;
    return {
      agent: this.#holder.id,
      turn,
      unspent,
      keep,
      wish,
      unit: this.#unit,
      durationMs: this.#durationMs,
    };
  }

  /** No reply arrived in time. Tokens that were leased before are still spent. */
  unanswered(now: number): void {
    this.asking = false;
    this.#renewBelow = 0;
    this.#patienceUntil = now + this.#durationMs * MIN_WINDOW;
  }

  /** The owner's reply to the last request. `lease` is what was asked for. */
  answered(reply: BucketReply, lease: LeaseRequest | undefined, now: number): void {
    this.asking = false;
    this.#tokens = reply.tokens - (this.#kept - this.#held);
    this.#refused = Number.POSITIVE_INFINITY;
    if (lease === undefined) return;
    this.#counted = reply.leased * this.#cut;
    this.#held = Math.max(0, this.#held + this.#counted - this.#kept);
    this.#until = this.#sentAt + this.#durationMs * SPENT_FOR;
    this.#renewAt = this.#sentAt + this.#durationMs * RENEWED_AFTER;
    this.#renewBelow = this.#held * RENEWED_AFTER;
    this.#patienceUntil = Number.NEGATIVE_INFINITY;
    if (lease.wish > 0 && reply.leased < lease.keep + lease.unit) {
      this.#patienceUntil = now + this.#durationMs * MIN_WINDOW;
    }
    if (reply.recall) {
      this.#target = 0;
      this.#recalledUntil = now + this.#durationMs;
    }
  }

  /** Flows that waited were admitted. */
  admitted(tokens: number): void {
    this.#spent += tokens;
  }

  /** New numbers: refused amounts may pass, and a lower capacity shrinks the lease. */
  adopt({ capacity }: BucketParams, before: BucketParams): void {
    this.#refused = Number.POSITIVE_INFINITY;
    if (capacity >= before.capacity) return;
    const part = capacity / before.capacity;
    this.#cut *= part;
    this.#held *= part;
    this.#counted *= part;
    this.#kept *= part;
    this.#tokens = Math.min(this.#tokens, capacity);
  }

  holds(now: number): boolean {
    return this.asking || (this.#counted > 0 && now < this.#until) || now < this.#askAgainAt;
  }

  idle(now: number): boolean {
    return now > this.#usedAt + this.#durationMs;
  }

  /** Tokens to hold: those admitted in the time between two renewals, and a reserve. Begins to measure anew. */
  #demand(waiting: number, now: number): number {
    const elapsed = Math.max(now - this.#since, this.#durationMs * MIN_WINDOW);
    const perDuration = ((this.#spent + waiting) * this.#durationMs) / elapsed;
    const worthIt = perDuration >= MIN_FLOWS_PER_LEASE * this.#unit && now >= this.#recalledUntil;
    // A first flow says nothing about the next ones.
    const known = this.#target > 0 || this.#spent > 0;
    this.#since = now;
    this.#spent = 0;
    const most = Math.max(this.#target * MAX_GROWTH, 2 * this.#unit);
    this.#target = worthIt && known ? Math.min(most, perDuration * RENEWED_AFTER * HEADROOM) : 0;
    return this.#target;
  }
}
