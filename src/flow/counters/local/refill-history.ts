// Remembers changes of a fill rate, to compute how many tokens a bucket gains between two times. Buckets are filled only
// when they are used; with this history a new rate counts from its change on, not from the last use.

/** Number of changes remembered. Beyond it, old neighbours are merged: their sum stays exact. */
const MAX_POINTS = 64;

export class RefillHistory {
  /** Tokens per interval since `since`. */
  amount = 0;
  intervalMs = 1;
  /** Time of the last change. */
  since = Number.NEGATIVE_INFINITY;
  #total = 0;
  /** Earlier changes, oldest first, and the tokens up to each. */
  readonly #at: number[] = [];
  readonly #totals: number[] = [];

  change(now: number, amount: number, intervalMs: number): void {
    if (amount === this.amount && intervalMs === this.intervalMs) return;
    if (now > this.since) {
      if (this.since !== Number.NEGATIVE_INFINITY) {
        this.#at.push(this.since);
        this.#totals.push(this.#total);
      }
      this.#total = this.#upTo(now);
      this.since = now;
      if (this.#at.length > MAX_POINTS) this.#thin();
    }
    this.amount = amount;
    this.intervalMs = intervalMs;
  }

  /** Tokens that have been filled since the beginning, up to a time. */
  filledBy(time: number): number {
    return this.#upTo(time);
  }

  /** Tokens that a bucket far from full gains from `from` to `to`. */
  between(from: number, to: number): number {
    if (from >= this.since) return (this.amount * (to - from)) / this.intervalMs;
    return Math.max(0, this.#upTo(to) - this.#upTo(from));
  }

  #upTo(time: number): number {
    if (time >= this.since) {
      if (this.since === Number.NEGATIVE_INFINITY) return 0;
      return this.#total + (this.amount * (time - this.since)) / this.intervalMs;
    }
    let end = this.since;
    let endTotal = this.#total;
    for (let index = this.#at.length - 1; index >= 0; index--) {
      const start = this.#at[index] ?? 0;
      const startTotal = this.#totals[index] ?? 0;
      if (time >= start) {
        return startTotal + ((endTotal - startTotal) * (time - start)) / (end - start);
      }
      end = start;
      endTotal = startTotal;
    }
    return endTotal;
  }

  /** Drops every second point of the older half. */
  #thin(): void {
    let kept = 0;
    for (let index = 0; index < this.#at.length; index++) {
      if (index < MAX_POINTS / 2 && index % 2 === 1) continue;
      this.#at[kept] = this.#at[index] ?? 0;
      this.#totals[kept] = this.#totals[index] ?? 0;
      kept++;
    }
    this.#at.length = kept;
    this.#totals.length = kept;
  }
}
