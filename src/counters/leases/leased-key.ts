// One key at an agent: its leased tokens, its demand, and the last refusal of the owner. Arithmetic only;
// `leased-buckets.ts` makes the requests.

import { type BucketParams, SLACK } from "#flow/counters/counter-engine.ts";
import type { BucketReply, LeaseRequest } from "./bucket-owner.ts";
import type { FollowedKey } from "./followed-keys.ts";
import type { LeaseHolder } from "./lease-holder.ts";

/** Part of a lease's duration during which its tokens may be spent: clocks do not run equally fast. */
const SPENT_FOR = 0.95;
/** A lease is renewed after this part of its duration, or when less than this part of its tokens is left. */
const RENEWED_AFTER = 0.5;
/** A lease covers the tokens spent between two renewals times this factor. */
const HEADROOM = 1.25;
/** Shortest time over which demand is measured, and the pause after a failed attempt; a part of the duration. */
const MIN_WINDOW = 1 / 16;
/** Largest growth factor from one lease to the next. */
const MAX_GROWTH = 4;
/** Keys with fewer admitted flows per lease duration get no lease. */
const MIN_FLOWS_PER_LEASE = 4;

/** What a request does with the tokens that the agent holds. */
export type Purpose =
  /** Returns them, because flows wait for more tokens than the lease has. */
  | "ask"
  /** Keeps the tokens that are needed and returns the rest. */
  | "renew"
  /** Returns all. */
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
  #noRenewalUntil = Number.NEGATIVE_INFINITY;
  /** Nothing is leased before this time, because the owner recalled the lease. */
  #recalledUntil = Number.NEGATIVE_INFINITY;
  /** Tokens that the lease keeps while a request is on its way. */
  #kept = 0;
  /** Scales a reply to a capacity that was lowered after the request. */
  #replyScale = 1;
  #sentAt = 0;
  #everSpent = 0;
  /** Tokens admitted since `#since`. */
  #spent = 0;
  #since: number;
  /** Tokens to hold, and the tokens that the last flow took. */
  #target = 0;
  #unit = 1;
  /** The balance in the last reply of the owner, less the tokens spent here since. */
  #tokens = 0;
  #usedAt: number;
  /** Takes of at least this many tokens are refused locally until `#askAgainAt`; they may succeed at `#readyAt`. */
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

  /** True if the owner counts tokens as leased to this agent. */
  get leased(): boolean {
    return this.#counted > 0;
  }

  /** All leased tokens spent so far, less those that were put back. */
  get everSpent(): number {
    return this.#everSpent;
  }

  /** The part of `everSpent` that the requests so far report to the owner. */
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
   * Milliseconds until a take that the owner has just refused may succeed; undefined if the owner has to be asked. The
   * owner may be asked `aheadMs` early.
   */
  refusal(want: number, now: number, aheadMs = 0): number | undefined {
    if (want < this.#refused || now + aheadMs >= this.#askAgainAt) return undefined;
    return this.#readyAt - now;
  }

  refuse(want: number, waitMs: number, now: number): void {
    if (waitMs <= 0) return;
    this.#refused = want;
    this.#readyAt = now + waitMs;
    // Other agents may return tokens sooner.
    this.#askAgainAt = now + Math.min(waitMs, this.#durationMs);
  }

  /** True if the lease should be renewed now, so that no flow has to wait. */
  wantsRenewal(now: number): boolean {
    if (this.asking || now < this.#noRenewalUntil) return false;
    return now >= this.#renewAt || this.#held < this.#renewBelow;
  }

  /** True if it holds tokens although no flow has asked since the renewal was due. */
  unused(now: number): boolean {
    const late = this.#renewAt + MIN_WINDOW * this.#durationMs;
    return !this.asking && this.#counted > 0 && now >= late && now < this.#until;
  }

  /** Builds the lease part of a request that is sent now; undefined if the agent has no lease and needs none. */
  request(purpose: Purpose, waiting: number, now: number): LeaseRequest | undefined {
    const wanted = purpose === "return" ? 0 : this.#demand(waiting, now);
    // Rounding may leave slightly less than zero.
    const unspent = Math.max(0, this.#held);
    const keep = purpose === "renew" ? Math.min(unspent, wanted) : 0;
    const wish = wanted - keep;
    this.asking = true;
    this.#sentAt = now;
    this.#kept = keep;
    this.#replyScale = 1;
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
    this.#noRenewalUntil = now + this.#durationMs * MIN_WINDOW;
  }

  /** The owner's reply to the last request, which had this `lease`. */
  answered(reply: BucketReply, lease: LeaseRequest | undefined, now: number): void {
    this.asking = false;
    this.#tokens = reply.tokens - (this.#kept - this.#held);
    this.#refused = Number.POSITIVE_INFINITY;
    if (lease === undefined) return;
    this.#counted = reply.leased * this.#replyScale;
    this.#held = Math.max(0, this.#held + this.#counted - this.#kept);
    this.#until = this.#sentAt + this.#durationMs * SPENT_FOR;
    this.#renewAt = this.#sentAt + this.#durationMs * RENEWED_AFTER;
    this.#renewBelow = this.#held * RENEWED_AFTER;
    this.#noRenewalUntil = Number.NEGATIVE_INFINITY;
    if (lease.wish > 0 && reply.leased < lease.keep + lease.unit) {
      this.#noRenewalUntil = now + this.#durationMs * MIN_WINDOW;
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
    this.#replyScale *= part;
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

  /** Tokens to hold: those admitted between two renewals, and a reserve. Starts a new measurement. */
  #demand(waiting: number, now: number): number {
    const elapsed = Math.max(now - this.#since, this.#durationMs * MIN_WINDOW);
    const perDuration = ((this.#spent + waiting) * this.#durationMs) / elapsed;
    const worthIt = perDuration >= MIN_FLOWS_PER_LEASE * this.#unit && now >= this.#recalledUntil;
    // A single flow does not predict further ones.
    const known = this.#target > 0 || this.#spent > 0;
    this.#since = now;
    this.#spent = 0;
    const limit = Math.max(this.#target * MAX_GROWTH, 2 * this.#unit);
    this.#target = worthIt && known ? Math.min(limit, perDuration * RENEWED_AFTER * HEADROOM) : 0;
    return this.#target;
  }
}
