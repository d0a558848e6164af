// The adaptive limits of one concurrency limiter: one for each key that has flows, and one for all keys that find no room.

import type { AdaptiveBounds } from "../rules.ts";
import { Gradient } from "./adaptive/gradient.ts";

/** Most keys of a limiter that learn by themselves. Each takes about 300 bytes. */
const MAX_LIMITS = 16_384;
/** Keys that are examined when there are too many: keys without measurements make room. */
const MAX_EXAMINED = 16;

/** The limits and baselines of all keys, for metrics and status. Latencies are in ms; undefined while none is known. */
export interface AdaptiveSummary {
  readonly keys: number;
  readonly lowest: number;
  readonly highest: number;
  readonly lowestLatency: number | undefined;
  readonly highestLatency: number | undefined;
}

export class AdaptiveLimits {
  readonly #most: number;
  readonly #limits = new Map<number, Gradient>();
  /** The limit of the keys that found no room, and of the count without a key. */
  #shared: Gradient | undefined;

  /** `maxKeys`: the most keys that the limiter counts separately. */
  constructor(maxKeys: number) {
    this.#most = Math.min(maxKeys, MAX_LIMITS);
  }

  /** The limit of a key, by its hash; `lo` is 0 for the count without a key. Reads only. */
  limit(lo: number, hi: number, bounds: AdaptiveBounds, now: number): number {
    const known = this.#known(lo, hi);
    if (known === undefined) return bounds.start;
    known.bounds = bounds;
    return known.limit(now);
  }

  /** The state of a key that a flow asks for. */
  of(lo: number, hi: number, bounds: AdaptiveBounds, now: number): Gradient {
    const own = lo === 0 ? this.#shared : this.#limits.get(placeOf(lo, hi));
    const gradient = own ?? this.#open(lo, hi, bounds, now);
    gradient.bounds = bounds;
    return gradient;
  }

  /** The state of a key that some flow has asked for. */
  known(lo: number, hi: number): Gradient | undefined {
    return this.#known(lo, hi);
  }

  /** Undefined while no flow has asked. */
  summary(now: number): AdaptiveSummary | undefined {
    const all = [...this.#limits.values()];
    if (this.#shared !== undefined) all.push(this.#shared);
    if (all.length === 0) return undefined;
    let [lowest, highest] = [Number.POSITIVE_INFINITY, 0];
    let lowestLatency: number | undefined;
    let highestLatency: number | undefined;
    for (const gradient of all) {
      const limit = gradient.limit(now);
      lowest = Math.min(lowest, limit);
      highest = Math.max(highest, limit);
      const { baseline } = gradient;
      if (baseline === undefined) continue;
      lowestLatency = Math.min(lowestLatency ?? baseline, baseline);
      highestLatency = Math.max(highestLatency ?? baseline, baseline);
    }
    return { keys: all.length, lowest, highest, lowestLatency, highestLatency };
  }

  clear(): void {
    this.#limits.clear();
    this.#shared = undefined;
  }

  #known(lo: number, hi: number): Gradient | undefined {
    if (lo === 0) return this.#shared;
    return this.#limits.get(placeOf(lo, hi)) ?? (this.#isFull ? this.#shared : undefined);
  }

  #open(lo: number, hi: number, bounds: AdaptiveBounds, now: number): Gradient {
    if (lo === 0 || !this.#hasRoom(now)) {
      this.#shared ??= new Gradient(bounds, now);
      return this.#shared;
    }
    const gradient = new Gradient(bounds, now);
    this.#limits.set(placeOf(lo, hi), gradient);
    return gradient;
  }

  get #isFull(): boolean {
    return this.#limits.size >= this.#most;
  }

  #hasRoom(now: number): boolean {
    if (!this.#isFull) return true;
    let left = MAX_EXAMINED;
    for (const [place, gradient] of this.#limits) {
      if (left-- <= 0) break;
      this.#limits.delete(place);
      // The next time, other keys are examined.
      if (!gradient.isFresh(now)) this.#limits.set(place, gradient);
    }
    return !this.#isFull;
  }
}

/** One number for a key: its 32 lower bits, and 20 of the others. Keys with the same number share a limit. */
function placeOf(lo: number, hi: number): number {
  return lo * 0x10_0000 + (hi >>> 12);
}
