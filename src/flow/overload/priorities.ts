// Chooses the checks that are shed by their priorities when a share of all has to be. The lowest priorities go first, and of
// the priority at the boundary only the necessary part.

import type { Chance } from "#base/chance.ts";

/** Classes of priorities within a factor of two. Priorities of one class differ by at most 9 %. */
const PER_OCTAVE = 8;
/** The lowest class holds priorities up to 2^-4, the highest those from 2^12 on. */
const LOWEST_OCTAVE = -4;
const CLASSES = 128;

/** Before so many arrivals, shares are unknown, and nothing is shed. */
const ENOUGH = 32;

/** The part of the counts that each renewal keeps: arrivals of half a second ago hardly count. */
const KEPT = 0.95;

/** The class of a priority, 0 for the least important. */
export function priorityClass(priority: number): number {
  const at = Math.floor((Math.log2(priority) - LOWEST_OCTAVE) * PER_OCTAVE);
  return at >= 0 ? Math.min(at, CLASSES - 1) : 0;
}

export class Priorities {
  readonly #counts = new Float64Array(CLASSES);
  /** The shares of lower classes and of the class itself in all arrivals, at the last renewal. */
  readonly #below = new Float64Array(CLASSES);
  readonly #own = new Float64Array(CLASSES);
  #known = false;
  /** Arrivals while nothing is known. */
  #first = 0;

  arrived(at: number): void {
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
    if (!this.#known && ++this.#first >= ENOUGH) this.renew();
  }

  /** Decides by the arrivals so far from now on. */
  renew(): void {
    let total = 0;
    for (const count of this.#counts) total += count;
    if (total === 0 || (!this.#known && this.#first < ENOUGH)) return;
    let below = 0;
    for (let at = 0; at < CLASSES; at++) {
      const count = this.#counts[at] ?? 0;
      this.#below[at] = below / total;
      this.#own[at] = count / total;
      below += count;
      this.#counts[at] = count * KEPT;
    }
    this.#known = true;
  }

  /** Forgets all arrivals. */
  clear(): void {
    this.#counts.fill(0);
    this.#first = 0;
    this.#known = false;
  }

  /** True if a check of this class is shed if `share` of all are. Chance decides within the class at the boundary. */
  sheds(at: number, share: number, chance: Chance): boolean {
    if (!this.#known) return false;
    const left = share - (this.#below[at] ?? 0);
    if (left <= 0) return false;
    const own = this.#own[at] ?? 0;
    return left >= own || chance() < left / own;
  }
}
