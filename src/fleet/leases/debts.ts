// Tokens that flows turned out to have cost beyond what they took. The home is told, and told again while it is away: a
// debt that got lost would admit more than the limit.

import type { Clock } from "#base/clock.ts";
import type { BucketHome } from "#flow/counters/bucket-home.ts";

/** Pause before debts that did not reach the home are reported again, ms. */
const AGAIN_MS = 1_000;

/** Keys with debts that wait for a home that is away. Those of further keys are forgotten: they may admit more. */
const MAX_KEYS = 10_000;

export class Debts {
  readonly #clock: Clock;
  readonly #home: BucketHome;
  /** Tokens by key that the home does not know of. */
  readonly #unpaid = new Map<string | undefined, number>();
  #stop: (() => void) | undefined;
  #closed = false;

  constructor(clock: Clock, home: BucketHome) {
    this.#clock = clock;
    this.#home = home;
  }

  charge(value: string | undefined, amount: number): void {
    const asked = this.#home.ask(
      value,
      { runs: [{ want: amount, times: 1 }], back: 0, overdraft: "owe", lease: undefined },
      this.#clock.now(),
      (reply) => {
        if (reply === undefined) this.#keep(value, amount);
      },
      // It has arrived after all.
      () => this.#forgive(value, amount),
    );
    if (!asked) this.#keep(value, amount);
  }

  /** Debts that have not reached the home are lost. */
  close(): void {
    this.#closed = true;
    this.#stop?.();
    this.#unpaid.clear();
  }

  #keep(value: string | undefined, amount: number): void {
    const before = this.#unpaid.get(value);
    if (this.#closed || (before === undefined && this.#unpaid.size >= MAX_KEYS)) return;
    this.#unpaid.set(value, (before ?? 0) + amount);
    this.#stop ??= this.#clock.alarm(AGAIN_MS, () => {
      this.#stop = undefined;
      const unpaid = [...this.#unpaid];
      this.#unpaid.clear();
      for (const [key, tokens] of unpaid) this.charge(key, tokens);
    });
  }

  #forgive(value: string | undefined, amount: number): void {
    const left = (this.#unpaid.get(value) ?? 0) - amount;
    if (left > 0) this.#unpaid.set(value, left);
    else this.#unpaid.delete(value);
  }
}
