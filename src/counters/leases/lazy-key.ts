// One key under lazy synchronisation: the tokens that an agent admitted since its last report, and those that it may still
// admit. Arithmetic only; `lazy-buckets.ts` sends the reports.

import { type BucketParams, SLACK } from "#flow/counters/counter-engine.ts";
import type { BucketReply } from "./bucket-owner.ts";
import type { FollowedKey } from "./followed-keys.ts";

/** A report without a reply is repeated after this part of the interval between reports. */
const RETRY = 1 / 4;

export class LazyKey implements FollowedKey {
  /** A report is on its way. */
  asking = false;
  /**
   * Tokens that may still be admitted until `#validUntil`. `left` plus what was admitted since the last report is at most
   * one capacity.
   */
  left = 0;
  /** Tokens that were admitted but not reported, and tokens that were reported but not confirmed. */
  #credit = 0;
  #reported = 0;
  #reportAt = Number.NEGATIVE_INFINITY;
  #validUntil = Number.NEGATIVE_INFINITY;
  /** The bucket is overdrawn until then, so nothing passes. */
  #owedUntil = Number.NEGATIVE_INFINITY;
  #sentAt = 0;
  /** Scales a reply to a capacity that was lowered after the request. */
  #replyScale = 1;
  #usedAt: number;
  #idleMs = 0;

  constructor(now: number) {
    this.#usedAt = now;
  }

  /** True if there are tokens to report. */
  get owes(): boolean {
    return this.#credit > 0;
  }

  /** True if it is time to report. */
  due(now: number): boolean {
    return !this.asking && now >= this.#reportAt;
  }

  /** Takes on credit. False when the credit does not suffice. */
  spend(want: number, now: number): boolean {
    this.#usedAt = now;
    if (now >= this.#validUntil || now < this.#owedUntil || want > this.left + SLACK) return false;
    this.left -= want;
    this.#credit += want;
    return true;
  }

  /** Milliseconds until tokens may be available, as the owner said; undefined if the owner has to be asked. */
  refusal(now: number): number | undefined {
    if (now >= this.#validUntil || now >= this.#reportAt) return undefined;
    return Math.max(this.#owedUntil, this.#reportAt) - now;
  }

  /** Puts tokens back that were not reported yet. Returns the rest, which belongs to the owner. */
  putBack(amount: number): number {
    const back = Math.min(amount, this.#credit);
    this.#credit -= back;
    this.left += back;
    return amount - back;
  }

  /** Begins a report: returns the tokens to report, and keeps them apart until the reply. */
  report(now: number): number {
    this.asking = true;
    this.#sentAt = now;
    this.#replyScale = 1;
    this.#reported = this.#credit;
    this.#credit = 0;
    return this.#reported;
  }

  answered({ tokens, waitMs }: BucketReply, params: BucketParams, now: number): void {
    const periodMs = params.intervalMs / params.lazySyncs;
    this.asking = false;
    this.#reported = 0;
    this.#idleMs = params.intervalMs;
    this.left = Math.max(0, tokens * this.#replyScale - this.#credit);
    this.#owedUntil = now + waitMs;
    this.#reportAt = this.#sentAt + periodMs;
    // Flows do not wait while the next report is on its way.
    this.#validUntil = this.#sentAt + 2 * periodMs;
    if (waitMs > 0) {
      this.#reportAt = now + Math.min(waitMs, params.intervalMs);
      this.#validUntil = this.#reportAt;
    }
  }

  /** The report had no reply. It may not have been counted, so its tokens are reported again. */
  unanswered({ intervalMs, lazySyncs }: BucketParams, now: number): void {
    this.asking = false;
    this.#credit += this.#reported;
    this.#reported = 0;
    this.#reportAt = now + (intervalMs / lazySyncs) * RETRY;
  }

  /** The owner did count a report that seemed lost, so its tokens must not be reported again. */
  reportedLate(tokens: number): void {
    this.#credit = Math.max(0, this.#credit - tokens);
  }

  /** A lower capacity reduces the credit in proportion. */
  adopt({ capacity }: BucketParams, before: BucketParams): void {
    this.#owedUntil = Number.NEGATIVE_INFINITY;
    this.#reportAt = Number.NEGATIVE_INFINITY;
    if (capacity >= before.capacity) return;
    this.#replyScale *= capacity / before.capacity;
    this.left *= capacity / before.capacity;
  }

  holds(): boolean {
    return this.asking || this.#credit > 0;
  }

  idle(now: number): boolean {
    return now > this.#usedAt + this.#idleMs;
  }
}
