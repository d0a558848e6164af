// Time as an argument. The real Clock is in `runtime`; tests pass one that they control.

export interface Clock {
  /** Milliseconds with fractions on a monotonic clock. Limiters use this one. */
  now(): number;
  /** Unix milliseconds with fractions. Only for timestamps in replies and logs. */
  wall(): number;
  /**
   * Wall time of a recent reading of `now`, at almost no cost: the two clocks are compared once a millisecond at most.
   */
  wallOf(now: number): number;
  /**
   * Calls `ring` once when `ms` have passed on `now`, never sooner, and never before this call has returned. `ms` may
   * be arbitrarily large. The returned function cancels the alarm and may be called more than once.
   */
  alarm(ms: number, ring: () => void): () => void;
}
