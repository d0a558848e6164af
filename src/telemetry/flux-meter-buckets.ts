// Upper bounds of a flux meter's buckets from the four ways in which a policy says them. Sums and products
// are built step by step, as metric libraries do, so that equal rules give equal `le` texts.

import type { BucketsRule } from "#flow/rules.ts";

/** A count is any number of 32 bits; what is beyond this many bounds falls into +Inf. */
const MOST_BOUNDS = 1_000;

/** Ascending, finite, each once. */
export function boundsOf(rule: BucketsRule): readonly number[] {
  const bounds = steps(rule).filter(Number.isFinite);
  return [...new Set(bounds)].sort((a, b) => a - b);
}

function steps(rule: BucketsRule): number[] {
  switch (rule.kind) {
    case "static":
      return rule.bounds.slice(0, MOST_BOUNDS);
    case "linear":
      return grown(rule.count, rule.start, (last) => last + rule.width);
    case "exponential":
      return grown(rule.count, rule.start, (last) => last * rule.factor);
    case "exponential_range": {
      const { min, max, count } = rule;
      const factor = (max / min) ** (1 / (count - 1));
      return Array.from({ length: most(count) }, (_, at) => min * factor ** at);
    }
  }
}

function grown(count: number, start: number, next: (last: number) => number): number[] {
  let bound = start;
  return Array.from({ length: most(count) }, (_, at) => {
    if (at > 0) bound = next(bound);
    return bound;
  });
}

function most(count: number): number {
  return Math.max(0, Math.min(MOST_BOUNDS, count));
}
