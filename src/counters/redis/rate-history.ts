// The earlier rates of a limiter. The script fills a bucket only when it is used, and needs them because a new rate applies
// only from its change on.

import type { BucketParams } from "#flow/counters/counter-engine.ts";

/** Changes that are remembered. For the time before, the lowest older rate applies, so that no bucket gets too much. */
const MAX_CHANGES = 8;

interface Change {
  /** On the monotonic clock. */
  readonly at: number;
  /** Tokens per ms before the change. */
  readonly rate: number;
}

export class RateHistory {
  /** Latest first. */
  #changes: readonly Change[] = [];
  #rate: number | undefined;

  /** These parameters apply from `now` on. */
  change(now: number, { amount, intervalMs }: BucketParams): void {
    const rate = amount / intervalMs;
    const before = this.#rate;
    this.#rate = rate;
    if (before === undefined || before === rate) return;
    const all = [{ at: now, rate: before }, ...this.#changes];
    const kept = all.slice(0, MAX_CHANGES);
    const last = kept.at(-1);
    if (last === undefined || all.length <= MAX_CHANGES) this.#changes = kept;
    else {
      const least = Math.min(...all.slice(MAX_CHANGES - 1).map((change) => change.rate));
      this.#changes = [...kept.slice(0, -1), { at: last.at, rate: least }];
    }
  }

  /** Forgets changes before `oldest`: no bucket was last used before then. */
  forget(oldest: number): void {
    if (this.#changes.some(({ at }) => at < oldest)) {
      this.#changes = this.#changes.filter(({ at }) => at >= oldest);
    }
  }

  /** For each change, latest first: how many ms ago it was, and the tokens per interval before it. */
  pairs(now: number, { intervalMs }: BucketParams): readonly string[] {
    if (this.#changes.length === 0) return NONE;
    return this.#changes.flatMap(({ at, rate }) => [String(now - at), String(rate * intervalMs)]);
  }
}

const NONE: readonly string[] = [];
