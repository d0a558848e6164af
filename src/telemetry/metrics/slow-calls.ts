// The last calls that took long, for the debug pages. While nobody records, a call costs one comparison that fails.

import type { Clock } from "#base/clock.ts";

export interface SlowCall {
  /** Unix ms at which it ended. */
  readonly at: number;
  readonly ms: number;
  /** Name of the gRPC code, or the HTTP status. */
  readonly result: string | number;
  /** The path of the gRPC method, or the method and the pattern of the route. */
  readonly what: string;
}

/** A check takes far less than a millisecond unless it waits for something. */
const SLOW_MS = 10;
const KEPT = 100;

export class SlowCalls {
  /** Calls that take less are not kept. */
  readonly leastMs = SLOW_MS;
  readonly #kept: SlowCall[] = [];
  #clock: Clock | undefined;
  #threshold = Number.POSITIVE_INFINITY;
  #next = 0;

  /** Starts to keep calls. */
  record(clock: Clock): void {
    this.#clock = clock;
    this.#threshold = SLOW_MS;
  }

  isSlow(ms: number): boolean {
    return ms >= this.#threshold;
  }

  add(ms: number, result: string | number, what: string): void {
    this.#kept[this.#next] = { at: this.#clock?.wall() ?? 0, ms, result, what };
    this.#next = (this.#next + 1) % KEPT;
  }

  newestFirst(): readonly SlowCall[] {
    return [...this.#kept.slice(this.#next), ...this.#kept.slice(0, this.#next)].reverse();
  }
}
