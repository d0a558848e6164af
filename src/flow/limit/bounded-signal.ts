// Makes the signals of a controller safe to count with: finite, not negative, and small enough that sums lose no tokens.

/** Up to this value, doubles are exact for whole numbers and keep some fractions. */
const MAX_COUNT = 1e15;

/** The signal within [0, 1e15]; undefined for one that is not finite. */
export function boundedSignal(signal: number | undefined): number | undefined {
  if (signal === undefined || !Number.isFinite(signal)) return undefined;
  return Math.min(MAX_COUNT, Math.max(0, signal));
}
