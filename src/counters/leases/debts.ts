// Costs above the estimate that the owner of a bucket has not confirmed yet. They are reported until the owner answers: a
// lost debt would admit more than the limit.

import { type BucketOwner, EMPTY_REQUEST } from "./bucket-owner.ts";
import type { LeaseHolder } from "./lease-holder.ts";

/** Pause before debts are reported again to an owner that did not answer, ms. */
const AGAIN_MS = 1_000;

/** Most keys with unconfirmed debts. Debts of further keys are lost, and counted. */
const MAX_KEYS = 10_000;

export class Debts {
  readonly #holder: LeaseHolder;
  readonly #owner: BucketOwner;
  /** Tokens for the next report, by key. */
  readonly #unpaid = new Map<string | undefined, number>();
  /** Number of times that unpaid debts were reported again. */
  #reports = 0;
  #stop: (() => void) | undefined;
  #closed = false;

  constructor(holder: LeaseHolder, owner: BucketOwner) {
    this.#holder = holder;
    this.#owner = owner;
  }

  charge(value: string | undefined, amount: number): void {
    let waitsSince: number | undefined;
    const keep = () => {
      if (this.#keep(value, amount)) waitsSince = this.#reports;
    };
    const asked = this.#owner.ask(
      value,
      { ...EMPTY_REQUEST, runs: [{ want: amount, times: 1 }], overdraft: "owe" },
      (reply) => {
        if (reply === undefined) keep();
      },
      // The owner did get the report. If it was already repeated, the tokens are charged twice, which is safe.
      () => {
        if (waitsSince === this.#reports) this.#forgive(value, amount);
      },
    );
    if (!asked) keep();
  }

  /** Debts that have not reached the owner are lost. */
  close(): void {
    this.#closed = true;
    this.#stop?.();
    for (const tokens of this.#unpaid.values()) this.#holder.counts.lost += tokens;
    this.#unpaid.clear();
  }

  /** False when there is no room. */
  #keep(value: string | undefined, amount: number): boolean {
    const before = this.#unpaid.get(value);
    if (this.#closed || (before === undefined && this.#unpaid.size >= MAX_KEYS)) {
      this.#holder.counts.lost += amount;
      return false;
    }
    this.#unpaid.set(value, (before ?? 0) + amount);
    this.#stop ??= this.#holder.clock.alarm(AGAIN_MS, () => {
      this.#stop = undefined;
      this.#reports += 1;
      const unpaid = [...this.#unpaid];
      this.#unpaid.clear();
      for (const [key, tokens] of unpaid) this.charge(key, tokens);
    });
    return true;
  }

  #forgive(value: string | undefined, amount: number): void {
    const left = (this.#unpaid.get(value) ?? 0) - amount;
    if (left > 0) this.#unpaid.set(value, left);
    else this.#unpaid.delete(value);
  }
}
