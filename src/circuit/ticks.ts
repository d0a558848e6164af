// Durations as ticks. Components count ticks and never compare clocks, so a late tick changes nothing.

/** Ticks that `ms` takes, rounded up. Decimal seconds are exact in whole nanoseconds only. */
export function ticksOf(ms: number, intervalMs: number): number {
  return Math.ceil(Math.round(ms * 1e6) / Math.round(intervalMs * 1e6));
}

/** Ticks that fit into `ms`, rounded down: for what may last at most so long. */
export function ticksWithin(ms: number, intervalMs: number): number {
  return Math.floor(Math.round(ms * 1e6) / Math.round(intervalMs * 1e6));
}

/**
 * Is this a tick at which a component that acts every `every` ticks acts? Its first turn comes after one
 * whole period: ticks 11, 21, … for 10; 2, 3, … for 1.
 */
export function isTurn(tick: number, every: number): boolean {
  return tick > 1 && (tick - 1) % every === 0;
}

/** The start of the interval that the moment is in: queries of one tick ask about one moment. Unix ms. */
export function startOf(timestamp: number, intervalMs: number): number {
  return Math.floor(timestamp / intervalMs) * intervalMs;
}
