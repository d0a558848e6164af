// The flows of one key that all agents admitted, and the amount by which they exceed the bound: over any window, no
// more than capacity and refill, or that and a credit.

export interface Numbers {
  readonly capacity: number;
  readonly amount: number;
  readonly intervalMs: number;
  readonly continuous: boolean;
}

interface Entry {
  readonly at: number;
  /** Negative where they came back. */
  readonly tokens: number;
}

interface Change {
  readonly at: number;
  readonly numbers: Numbers;
}

export class Admissions {
  readonly #entries: Entry[] = [];
  readonly #changes: Change[];
  #credit = 0;

  constructor(numbers: Numbers) {
    this.#changes = [{ at: Number.NEGATIVE_INFINITY, numbers }];
  }

  /** Tokens that were admitted, or taken for a flow that may not hear of it; negative when they come back. */
  add(at: number, tokens: number): void {
    if (tokens !== 0) this.#entries.push({ at, tokens });
  }

  change(at: number, numbers: Numbers): void {
    this.#changes.push({ at, numbers });
  }

  /** Tokens allowed beyond the bound. The largest that was ever set counts. */
  credit(tokens: number): void {
    this.#credit = Math.max(this.#credit, tokens);
  }

  get total(): number {
    return this.#entries.reduce((sum, { tokens }) => sum + tokens, 0);
  }

  /** Tokens above the bound in the worst window; 0 when there are none. */
  excess(): number {
    const entries = this.#entries.toSorted((a, b) => a.at - b.at);
    const continuous = this.#changes[0]?.numbers.continuous ?? true;
    const worst = continuous ? this.#continuous(entries) : this.#inSteps(entries);
    return Math.max(0, worst - this.#credit);
  }

  /** A bucket that fills continuously would have to owe this much to admit the same. */
  #continuous(entries: readonly Entry[]): number {
    const [first, ...changes] = this.#changes;
    let numbers = first?.numbers ?? { capacity: 0, amount: 0, intervalMs: 1 };
    let level = numbers.capacity;
    let at = Number.NEGATIVE_INFINITY;
    let worst = 0;
    const fill = (to: number) => {
      if (at !== Number.NEGATIVE_INFINITY) {
        level += (numbers.amount * (to - at)) / numbers.intervalMs;
      }
      level = Math.min(level, numbers.capacity);
      at = to;
    };
    for (const entry of entries) {
      for (let next = changes[0]; next !== undefined && next.at <= entry.at; next = changes[0]) {
        fill(next.at);
        // A full bucket equals none.
        const full = level >= numbers.capacity - 1e-9;
        numbers = next.numbers;
        level = full ? numbers.capacity : Math.min(level, numbers.capacity);
        changes.shift();
      }
      fill(entry.at);
      level -= entry.tokens;
      worst = Math.max(worst, -level);
    }
    return worst;
  }

  /**
   * The largest excess of any window: the tokens admitted, less the capacity at its beginning and the steps of the fill
   * that fit in.
   */
  #inSteps(entries: readonly Entry[]): number {
    // A higher capacity counts from its change on, because a full bucket equals none.
    const capacityIn = (begin: number, end: number) => {
      const before = this.#changes.findLast(({ at }) => at <= begin);
      const during = this.#changes.filter(({ at }) => at > begin && at <= end);
      return Math.max(0, ...[before, ...during].map((change) => change?.numbers.capacity ?? 0));
    };
    const { amount, intervalMs } = this.#changes[0]?.numbers ?? { amount: 0, intervalMs: 1 };
    let worst = 0;
    for (let from = 0; from < entries.length; from++) {
      const begin = entries[from]?.at ?? 0;
      let sum = 0;
      for (let to = from; to < entries.length; to++) {
        sum += entries[to]?.tokens ?? 0;
        const end = entries[to]?.at ?? 0;
        const capacity = capacityIn(begin, end);
        const steps = Math.floor((end - begin) / intervalMs + 1e-6) + 1;
        worst = Math.max(worst, sum - capacity - amount * steps);
      }
    }
    return worst;
  }
}
