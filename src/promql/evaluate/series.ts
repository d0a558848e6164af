// The samples of one series in order of time, in typed arrays that grow while the owner grants it, and otherwise
// drop the oldest samples.

import type { Labels } from "../result.ts";

/** A range of samples; views that are valid until the next sample is added. */
export interface Points {
  readonly times: Float64Array;
  readonly values: Float64Array;
}

/** Asks the owner of the memory budget for room for more samples. */
type Grant = (samples: number) => boolean;

const FIRST_CAPACITY = 8;

export class Series {
  readonly labels: Labels;
  /** Length of the history that queries need, ms. */
  keepMs: number;
  /** Number of the last scrape that contained it. */
  scrape = 0;
  /** True once it was removed from the store: its labels then get a new series. */
  forgotten = false;
  #times = new Float64Array(0);
  #values = new Float64Array(0);
  /** 1 marks a sample as the end of the series, after which it has no value. */
  #ends = new Uint8Array(0);
  #start = 0;
  #end = 0;

  constructor(labels: Labels, keepMs: number) {
    this.labels = labels;
    this.keepMs = keepMs;
  }

  get capacity(): number {
    return this.#times.length;
  }

  /** Unix ms of the newest sample; -Infinity when there is none. */
  get last(): number {
    return this.#end > this.#start ? (this.#times[this.#end - 1] ?? 0) : Number.NEGATIVE_INFINITY;
  }

  get ended(): boolean {
    return this.#end > this.#start && this.#ends[this.#end - 1] === 1;
  }

  /** Adds a sample; undefined ends the series. Returns the number of samples that were lost for it. */
  add(at: number, value: number | undefined, grant: Grant): number {
    const lost = this.#end < this.capacity ? 0 : this.#makeRoom(grant);
    if (this.capacity === 0) return lost + 1;
    this.#times[this.#end] = at;
    this.#values[this.#end] = value ?? Number.NaN;
    this.#ends[this.#end] = value === undefined ? 1 : 0;
    this.#end += 1;
    return lost;
  }

  /** Drops samples older than `before`, except for the newest of these, which is the value at `before`. */
  forget(before: number): void {
    while (this.#end - this.#start > 1 && (this.#times[this.#start + 1] ?? 0) <= before) {
      this.#start += 1;
    }
  }

  /** Releases memory that a shorter retention no longer needs. */
  shrink(): void {
    const size = this.#end - this.#start;
    if (this.capacity > FIRST_CAPACITY && size < this.capacity / 4) this.#move(size * 2);
  }

  #makeRoom(grant: Grant): number {
    const size = this.#end - this.#start;
    if (size > 0 && this.#start >= this.capacity / 4) {
      this.#move(this.capacity);
      return 0;
    }
    const more = Math.max(FIRST_CAPACITY, this.capacity);
    if (grant(more)) {
      this.#move(this.capacity + more);
      return 0;
    }
    const lost = Math.ceil(size / 4);
    this.#start += lost;
    this.#move(this.capacity);
    return lost;
  }

  #move(capacity: number): void {
    const [times, values, ends] = [this.#times, this.#values, this.#ends];
    if (capacity !== this.capacity) {
      this.#times = new Float64Array(capacity);
      this.#values = new Float64Array(capacity);
      this.#ends = new Uint8Array(capacity);
    }
    this.#times.set(times.subarray(this.#start, this.#end));
    this.#values.set(values.subarray(this.#start, this.#end));
    this.#ends.set(ends.subarray(this.#start, this.#end));
    this.#end -= this.#start;
    this.#start = 0;
  }

  /** The newest sample at or before `at`, if it is younger than `oldest` and the series has not ended. */
  newest(
    oldest: number,
    at: number,
  ): { readonly time: number; readonly value: number } | undefined {
    const place = this.#after(at) - 1;
    if (place < this.#start || this.#ends[place] === 1) return undefined;
    const time = this.#times[place] ?? 0;
    return time > oldest ? { time, value: this.#values[place] ?? Number.NaN } : undefined;
  }

  /** Samples after `from` up to and including `to`. */
  between(from: number, to: number): Points {
    const [first, after] = [this.#after(from), this.#after(to)];
    const times = this.#times.subarray(first, after);
    const values = this.#values.subarray(first, after);
    const ends = this.#ends.subarray(first, after);
    if (!ends.includes(1)) return { times, values };
    return {
      times: times.filter((_, at) => ends[at] === 0),
      values: values.filter((_, at) => ends[at] === 0),
    };
  }

  /** Index of the first sample after `at`. */
  #after(at: number): number {
    let [low, high] = [this.#start, this.#end];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#times[middle] ?? 0) <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
