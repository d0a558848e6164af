// Arithmetic shared by aggregations and range functions. NaN sorts before all numbers, as on a server.

/** Compensated summation (Neumaier). */
export function sum(values: Iterable<number>): number {
  let total = 0;
  let lost = 0;
  for (const value of values) {
    const next = total + value;
    if (!Number.isFinite(next)) lost = 0;
    else if (Math.abs(total) >= Math.abs(value)) lost += total - next + value;
    else lost += value - next + total;
    total = next;
  }
  return total + lost;
}

export function mean(values: ArrayLike<number> & Iterable<number>): number {
  const total = sum(values);
  if (Number.isFinite(total) || Number.isNaN(total)) return total / values.length;
  // Either a value is infinite, or the sum overflows.
  return sum(Array.from(values, (value) => value / values.length));
}

export function variance(values: ArrayLike<number> & Iterable<number>): number {
  const middle = mean(values);
  return mean(Array.from(values, (value) => (value - middle) ** 2));
}

export function least(values: Iterable<number>): number {
  let found = Number.NaN;
  for (const value of values) if (value < found || Number.isNaN(found)) found = value;
  return found;
}

export function greatest(values: Iterable<number>): number {
  let found = Number.NaN;
  for (const value of values) if (value > found || Number.isNaN(found)) found = value;
  return found;
}

export function ascending(one: number, two: number): number {
  if (Number.isNaN(one)) return Number.isNaN(two) ? 0 : -1;
  return Number.isNaN(two) ? 1 : one - two || 0;
}

/** Sorts by `order` of the values; NaN comes last in every order. */
export function sortedByValue<T extends { readonly value: number }>(
  all: readonly T[],
  order: (one: number, two: number) => number,
): readonly T[] {
  return all.toSorted((one, two) => {
    const absent = Number(Number.isNaN(one.value)) - Number(Number.isNaN(two.value));
    return absent || order(one.value, two.value);
  });
}

/** Quantile with linear interpolation; `part` from 0 to 1. */
export function quantile(part: number, values: Iterable<number>): number {
  const sorted = [...values].sort(ascending);
  if (sorted.length === 0 || Number.isNaN(part)) return Number.NaN;
  if (part < 0) return Number.NEGATIVE_INFINITY;
  if (part > 1) return Number.POSITIVE_INFINITY;
  const rank = part * (sorted.length - 1);
  const below = Math.floor(rank);
  const weight = rank - below;
  const low = sorted[below] ?? Number.NaN;
  const high = sorted[Math.min(sorted.length - 1, below + 1)] ?? Number.NaN;
  return low * (1 - weight) + high * weight;
}
