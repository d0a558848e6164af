// Seeded random choices for the fuzzer: everything that it does in a case follows from the seed of that case.

import { type Chance, seededChance } from "#base/chance.ts";

/** Seed of the case with this index in a run. */
export function seedOf(run: number, index: number): number {
  return (Math.imul(run, 0x9e3779b1) ^ Math.imul(index + 1, 0x85ebca6b)) >>> 0;
}

export class Random {
  /** Uniform from 0 to below 1. */
  readonly uniform: Chance;

  constructor(seed: number) {
    this.uniform = seededChance(seed);
  }

  /** Integer from 0 to below `end`. */
  below(end: number): number {
    return Math.floor(this.uniform() * end);
  }

  /** Integer from `least` to `most`, both included. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.uniform() < probability;
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error("nothing to pick from");
    return item;
  }

  /** Integer below `most`, strongly skewed towards 0. */
  size(most: number): number {
    return Math.floor(most * this.uniform() ** 4);
  }

  bytes(count: number): Buffer {
    const bytes = Buffer.allocUnsafe(count);
    for (let at = 0; at < count; at++) bytes[at] = this.below(256);
    return bytes;
  }

  text(most: number): string {
    const length = this.size(most);
    let text = "";
    for (let at = 0; at < length; at++) text += LETTERS[this.below(LETTERS.length)];
    return text;
  }
}

const LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
