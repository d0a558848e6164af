// Time as an argument. Pure rooms take a Clock; the real one lives in `host`, tests hand in their own.

export interface Clock {
  /** Milliseconds on a clock that never steps back, fractions included. Limiters count on it. */
  now(): number;
  /** Unix milliseconds, fractions included. For timestamps in replies and logs only. */
  wall(): number;
  /** The same now, for who has what `wall` said a moment ago: for half of its price, and never before that. */
  wallSince(wall: number): number;
  /**
   * Calls `ring` once when `ms` have passed on `now`, never sooner, however many they are; at the earliest after this
   * call has returned. The returned function takes the alarm back (idempotent).
   */
  alarm(ms: number, ring: () => void): () => void;
}
