// One key under lazy synchronisation: the tokens that an agent admitted since its last report, and those that it may still
// admit. Arithmetic only; `lazy-buckets.ts` sends the reports.

import { type BucketParams, SLACK } from "#flow/counters/counter-engine.ts";
import type { BucketReply } from "./bucket-owner.ts";
import type { FollowedKey } from "./followed-keys.ts";

/** A report that gets no reply is made again after this part of the time between two of them. */
const RETRY = 1 / 4;

export class LazyKey implements FollowedKey {
  /** A report is on its way. */
  asking = false;
  /**
   * Tokens that may still be admitted until `#validUntil`. `left` plus what was admitted since the last report is at most
   * one capacity.
   */
  left = 0;
  /** Admitted and not reported; reported and not confirmed. */
  #credit = 0;
  #reported = 0;
  #reportAt = Number.NEGATIVE_INFINITY;
  #validUntil = Number.NEGATIVE_INFINITY;
  /** All agents together admitted more than there was: nothing passes before. */
  #owedUntil = Number.NEGATIVE_INFINITY;
  #sentAt = 0;
  #cut = 1;
  #usedAt: number;
  #idleMs = 0;

  constructor(now: number) {
    this.#usedAt = now;
  }

  /** Whether something is to be reported. */
  get owes(): boolean {
    return this.#credit > 0;
  }

  /** Whether it is time to report. */
  due(now: number): boolean {
    return !this.asking && now >= this.#reportAt;
  }

  /** Takes on credit. False when that is not possible. */
  spend(want: number, now: number): boolean {
    this.#usedAt = now;
    if (now >= this.#validUntil || now < this.#owedUntil || want > this.left + SLACK) return false;
    this.left -= want;
    this.#credit += want;
    return true;
  }

  /** Milliseconds until more may be there, where the owner said so; undefined where it has to be asked. */
  refusal(now: number): number | undefined {
    if (now >= this.#validUntil || now >= this.#reportAt) return undefined;
    return Math.max(this.#owedUntil, this.#reportAt) - now;
  }

  /** Returns what does not belong to the credit. */
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
    this.#cut = 1;
    this.#reported = this.#credit;
    this.#credit = 0;
    return this.#reported;
  }

  answered({ tokens, waitMs }: BucketReply, params: BucketParams, now: number): void {
    const periodMs = params.intervalMs / params.lazySyncs;
    this.asking = false;
    this.#reported = 0;
    this.#idleMs = params.intervalMs;
    this.left = Math.max(0, tokens * this.#cut - this.#credit);
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

  /** A report that was taken to be lost was counted after all: its tokens leave the credit. */
  reportedLate(tokens: number): void {
    this.#credit = Math.max(0, this.#credit - tokens);
  }

  /** A lower capacity leaves less to admit. */
  adopt({ capacity }: BucketParams, before: BucketParams): void {
    this.#owedUntil = Number.NEGATIVE_INFINITY;
    this.#reportAt = Number.NEGATIVE_INFINITY;
    if (capacity >= before.capacity) return;
    this.#cut *= capacity / before.capacity;
    this.left *= capacity / before.capacity;
  }

  holds(): boolean {
    return this.asking || this.#credit > 0;
  }

  idle(now: number): boolean {
    return now > this.#usedAt + this.#idleMs;
  }
}
