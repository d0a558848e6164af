// Upper bounds of a flux meter's buckets, from the four forms in which a policy can define them. Bounds are added or
// multiplied step by step, as metric libraries do it, so that equal rules give equal `le` labels.

import type { BucketsRule } from "#flow/rules.ts";

/** A count may be any 32-bit number; values above this many bounds fall into +Inf. */
const MAX_BOUNDS = 1_000;

/** The bounds of a rule: ascending, finite, without duplicates. */
export function boundsOf(rule: BucketsRule): readonly number[] {
  const bounds = steps(rule).filter(Number.isFinite);
  return [...new Set(bounds)].sort((a, b) => a - b);
}

function steps(rule: BucketsRule): number[] {
  switch (rule.kind) {
    case "static":
      return rule.bounds.slice(0, MAX_BOUNDS);
    case "linear":
      return series(rule.count, rule.start, (last) => last + rule.width);
    case "exponential":
      return series(rule.count, rule.start, (last) => last * rule.factor);
    case "exponential_range": {
      const { min, max, count } = rule;
      const factor = (max / min) ** (1 / (count - 1));
      return Array.from({ length: limited(count) }, (_, at) => min * factor ** at);
    }
  }
}

function series(count: number, start: number, next: (last: number) => number): number[] {
  let bound = start;
  return Array.from({ length: limited(count) }, (_, at) => {
    if (at > 0) bound = next(bound);
    return bound;
  });
}

function limited(count: number): number {
  return Math.max(0, Math.min(MAX_BOUNDS, count));
}
