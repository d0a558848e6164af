// Chance that can be had again: everything that a fuzzer does follows from the seed of its case.

import { type Chance, seededChance } from "#base/chance.ts";

/** The seed of one case of a run. */
export function seedOf(run: number, index: number): number {
  return (Math.imul(run, 0x9e3779b1) ^ Math.imul(index + 1, 0x85ebca6b)) >>> 0;
}

export class Dice {
  readonly chance: Chance;

  constructor(seed: number) {
    this.chance = seededChance(seed);
  }

  /** Whole, from 0 to below `end`. */
  below(end: number): number {
    return Math.floor(this.chance() * end);
  }

  /** Whole, both ends included. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  hits(probability: number): boolean {
    return this.chance() < probability;
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error("nothing to pick from");
    return item;
  }

  /** Mostly small, seldom up to `most`. */
  size(most: number): number {
    return Math.floor(most * this.chance() ** 4);
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
