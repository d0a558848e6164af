// Numbers that arrive from a controller, made fit to count with: finite, not negative, not so large that
// sums lose whole tokens.

/** Largest count: up to here doubles tell neighbouring whole numbers apart with room for fractions. */
const MAX_COUNT = 1e15;

/** Undefined for a signal that is no number: it opens rather than blocks. */
export function bounded(signal: number | undefined): number | undefined {
  if (signal === undefined || !Number.isFinite(signal)) return undefined;
  return Math.min(MAX_COUNT, Math.max(0, signal));
}
