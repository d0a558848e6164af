// Converts durations to ticks. Components count ticks instead of reading clocks, so a late tick changes nothing.

export interface Tick {
  /** Counts from 1. */
  readonly number: number;
  /** Unix ms. */
  readonly timestamp: number;
  readonly intervalMs: number;
}

/** Number of ticks in `ms`, rounded up. Computes in whole nanoseconds, in which decimal seconds are exact. */
export function ticksOf(ms: number, intervalMs: number): number {
  return Math.ceil(Math.round(ms * 1e6) / Math.round(intervalMs * 1e6));
}

/** Number of ticks in `ms`, rounded down: for durations that must not be exceeded. */
export function ticksWithin(ms: number, intervalMs: number): number {
  return Math.floor(Math.round(ms * 1e6) / Math.round(intervalMs * 1e6));
}

/**
 * Tells whether a component that acts every `every` ticks is due at this tick. It is due for the first time after
 * one whole period: at ticks 11, 21, … for 10, and at ticks 2, 3, … for 1.
 */
export function isDue(tick: number, every: number): boolean {
  return tick > 1 && (tick - 1) % every === 0;
}

/** Start of the interval that contains `timestamp`, Unix ms: all queries of a tick are evaluated at one time. */
export function intervalStart(timestamp: number, intervalMs: number): number {
  return Math.floor(timestamp / intervalMs) * intervalMs;
}
