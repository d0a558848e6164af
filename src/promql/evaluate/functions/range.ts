// Functions of the samples of one series in a range (rate, avg_over_time …).

import { greatest, least, mean, quantile, sum, variance } from "../numbers.ts";
import type { Points } from "../series.ts";

/** Unix ms; the range excludes `from` and includes `to`. */
interface Window {
  readonly from: number;
  readonly to: number;
}

/** Undefined when the series has no result. There is at least one point. */
type OfRange = (points: Points, window: Window, parameter: number) => number | undefined;

export const RANGES: ReadonlyMap<string, OfRange> = new Map<string, OfRange>([
  ["rate", (points, window) => divided(extrapolated(points, window, true), window)],
  ["increase", (points, window) => extrapolated(points, window, true)],
  ["delta", (points, window) => extrapolated(points, window, false)],
  ["irate", (points) => lastStep(points, true)],
  ["idelta", (points) => lastStep(points, false)],
  ["avg_over_time", ({ values }) => mean(values)],
  ["sum_over_time", ({ values }) => sum(values)],
  ["min_over_time", ({ values }) => least(values)],
  ["max_over_time", ({ values }) => greatest(values)],
  ["count_over_time", ({ values }) => values.length],
  ["last_over_time", ({ values }) => values.at(-1)],
  ["present_over_time", () => 1],
  ["stddev_over_time", ({ values }) => Math.sqrt(variance(values))],
  ["stdvar_over_time", ({ values }) => variance(values)],
  ["quantile_over_time", ({ values }, _, part) => quantile(part, values)],
  ["changes", ({ values }) => steps(values, (before, value) => !same(before, value))],
  ["resets", ({ values }) => steps(values, (before, value) => value < before)],
]);

function same(one: number, two: number): boolean {
  return one === two || (Number.isNaN(one) && Number.isNaN(two));
}

function steps(values: Float64Array, counts: (before: number, value: number) => boolean): number {
  let count = 0;
  for (let at = 1; at < values.length; at++) {
    if (counts(values[at - 1] ?? 0, values[at] ?? 0)) count += 1;
  }
  return count;
}

function divided(increase: number | undefined, { from, to }: Window): number | undefined {
  return increase === undefined ? undefined : increase / ((to - from) / 1000);
}

/** Gaps at the edges of the range of up to this many steps are due to sampling; wider ones mean absence. */
const NEAR_STEPS = 1.1;

/**
 * The difference over the whole range, extrapolated from the samples as Prometheus does: to each edge if the
 * nearest sample is near it, otherwise by half a step, but a counter not below zero. A counter that decreases
 * was reset to zero.
 */
function extrapolated(
  { times, values }: Points,
  { from, to }: Window,
  counter: boolean,
): number | undefined {
  const end = values.length - 1;
  if (end < 1) return undefined;
  const first = values[0] ?? 0;
  let difference = (values[end] ?? 0) - first;
  for (let at = 1; counter && at <= end; at++) {
    const before = values[at - 1] ?? 0;
    if ((values[at] ?? 0) < before) difference += before;
  }
  const covered = (times[end] ?? 0) - (times[0] ?? 0);
  const step = covered / end;
  const near = (gap: number) => (gap < step * NEAR_STEPS ? gap : step / 2);
  let before = near((times[0] ?? 0) - from);
  if (counter && difference > 0 && first >= 0) {
    before = Math.min(before, covered * (first / difference));
  }
  return difference * ((covered + before + near(to - (times[end] ?? 0))) / covered);
}

/** Difference of the last two samples; per second, with counter resets, for `rate`. */
function lastStep({ times, values }: Points, rate: boolean): number | undefined {
  const end = values.length - 1;
  if (end < 1) return undefined;
  const [before, last] = [values[end - 1] ?? 0, values[end] ?? 0];
  if (!rate) return last - before;
  const seconds = ((times[end] ?? 0) - (times[end - 1] ?? 0)) / 1000;
  return (last < before ? last : last - before) / seconds;
}
