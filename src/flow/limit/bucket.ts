// Token bucket arithmetic over numbers, for buckets that fill as time goes and for those that fill in steps.
// A bucket is two of them: `available`, and `mark`, the time up to which it has been filled. A delayed
// fill is a mark that lies ahead: nothing falls due before it, so no third number is needed.

import type { Refill } from "./refill.ts";

/** What buckets of one limiter have in common. All numbers finite and >= 0, `intervalMs` > 0. */
export interface BucketParams {
  readonly capacity: number;
  /** Tokens per interval. */
  readonly amount: number;
  readonly intervalMs: number;
  /** Fills as time goes, or whole amounts at the ends of intervals. */
  readonly continuous: boolean;
  /** A bucket found full starts to fill only after the time that filling it takes. */
  readonly delayed: boolean;
  /** Forgotten when unused for longer; 0 = never. */
  readonly maxIdleMs: number;
}

/** Longest time told, ms: the most that a protobuf duration holds (10 000 years). */
const MAX_MS = 315_576_000_000_000;

/** Part of an interval that may be missing: now + (end - now) is not always end. */
const TICK_SLACK = 1e-9;

/** How long filling `tokens` takes from a mark on; 0 when nothing is ever filled. */
export function timeFor(tokens: number, params: BucketParams): number {
  if (params.amount <= 0) return 0;
  const intervals = tokens / params.amount;
  const whole = params.continuous ? intervals : Math.ceil(intervals - TICK_SLACK);
  return Math.min(MAX_MS, whole * params.intervalMs);
}

/** The mark after filling up to `now`. */
export function markAt(mark: number, now: number, params: BucketParams): number {
  if (mark >= now) return mark;
  if (params.continuous) return now;
  return mark + Math.floor((now - mark) / params.intervalMs + TICK_SLACK) * params.intervalMs;
}

/** Tokens after filling from `mark` to `next`, which is `markAt` of it. */
export function filled(
  available: number,
  mark: number,
  next: number,
  params: BucketParams,
  refill: Refill,
): number {
  if (next <= mark) return Math.min(params.capacity, available);
  const steady = mark >= refill.since && !params.continuous;
  const gained = steady
    ? params.amount * Math.round((next - mark) / params.intervalMs)
    : refill.between(mark, next);
  return Math.min(params.capacity, available + gained);
}

/** The mark of a bucket found full at `now` under a delayed fill: the first fill ends the delay. */
export function delayedMark(now: number, params: BucketParams): number {
  const start = now + timeFor(params.capacity, params);
  return params.continuous || params.amount <= 0 ? start : start - params.intervalMs;
}

/** Until `deficit` more tokens are there; 0 when nothing is ever filled. */
export function waitFor(deficit: number, mark: number, now: number, params: BucketParams): number {
  if (params.amount <= 0) return 0;
  return Math.max(0, mark + timeFor(deficit, params) - now);
}
