// The priorities of the checks that arrive: which of them are shed when a share of all has to be. The lowest go first, and
// of the priority at the boundary only as many as are needed, so the threshold rises in steps as small as the share.

import type { Chance } from "#base/chance.ts";

/** Classes of priorities within a factor of two: those of one class differ by 9 % at most, and are shed alike. */
const PER_OCTAVE = 8;
/** Priorities up to 2^-4, the lowest class, and from 2^12 on, the highest, are not told apart. */
const LOWEST_OCTAVE = -4;
const CLASSES = 128;

/** Arrivals from which shares are first known. Until then none is shed for its priority. */
const ENOUGH = 32;

/** The part of the counts that is kept at each renewal: what arrived half a second ago hardly counts. */
const KEPT = 0.95;

/** The class of a priority, 0 for the least important. */
export function priorityClass(priority: number): number {
  const at = Math.floor((Math.log2(priority) - LOWEST_OCTAVE) * PER_OCTAVE);
  return at >= 0 ? Math.min(at, CLASSES - 1) : 0;
}

export class Priorities {
  readonly #counts = new Float64Array(CLASSES);
  /** The share of lower classes in all arrivals, and that of the class itself, at the last renewal. */
  readonly #below = new Float64Array(CLASSES);
  readonly #own = new Float64Array(CLASSES);
  #known = false;
  /** Arrivals while nothing is known. */
  #first = 0;

  arrived(at: number): void {
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
    if (!this.#known && ++this.#first >= ENOUGH) this.renew();
  }

  /** Makes the arrivals so far the base of decisions. */
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

  /** Decides whether a check of this class is shed where `share` of all are. Leaves the choice within a class to chance. */
  sheds(at: number, share: number, chance: Chance): boolean {
    if (!this.#known) return false;
    const left = share - (this.#below[at] ?? 0);
    if (left <= 0) return false;
    const own = this.#own[at] ?? 0;
    return left >= own || chance() < left / own;
  }
}
