// Token bucket arithmetic, for buckets that fill continuously and for those that fill in steps. A bucket is two
// numbers: `available`, and `mark`, the time up to which it has been filled. A delayed fill is a mark in the
// future: nothing is added before it, so no third number is needed.

import type { BucketParams } from "../counter-engine.ts";
import type { RefillHistory } from "./refill-history.ts";

/** Longest wait reported, ms: the most that a protobuf duration holds (10 000 years). */
const MAX_MS = 315_576_000_000_000;

/** Part of an interval that rounding may lose: now + (end - now) is not always end. */
const TICK_SLACK = 1e-9;

/** Milliseconds that filling `tokens` takes from a mark on; 0 when the bucket never fills. */
export function timeFor(tokens: number, params: BucketParams): number {
  if (params.amount <= 0) return 0;
  const intervals = tokens / params.amount;
  const whole = params.continuous ? intervals : Math.ceil(intervals - TICK_SLACK);
  return Math.min(MAX_MS, whole * params.intervalMs);
}

/** The mark of a bucket that has been filled up to `now`. */
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
  refill: RefillHistory,
): number {
  if (next <= mark) return Math.min(params.capacity, available);
  const steady = mark >= refill.since && !params.continuous;
  const gained = steady
    ? params.amount * Math.round((next - mark) / params.intervalMs)
    : refill.between(mark, next);
  return Math.min(params.capacity, available + gained);
}

/**
 * Fills the bucket at `d`, its available tokens and its mark, up to `now`. It is given by its place, and the usual case
 * is spelled out, because numbers as arguments of calls would be objects on the heap.
 */
export function fill(
  doubles: Float64Array,
  d: number,
  now: number,
  params: BucketParams,
  refill: RefillHistory,
): void {
  const available = doubles[d] ?? 0;
  const mark = doubles[d + 1] ?? 0;
  if (params.continuous && mark >= refill.since && mark <= now) {
    const gained = (params.amount * (now - mark)) / params.intervalMs;
    doubles[d] = Math.min(params.capacity, available + gained);
    doubles[d + 1] = now;
    return;
  }
  const next = markAt(mark, now, params);
  doubles[d] = filled(available, mark, next, params, refill);
  doubles[d + 1] = next;
}

/** The mark of a bucket that is full at `now` under a delayed fill: the first fill ends the delay. */
export function delayedMark(now: number, params: BucketParams): number {
  const start = now + timeFor(params.capacity, params);
  return params.continuous || params.amount <= 0 ? start : start - params.intervalMs;
}

/** Milliseconds until `deficit` more tokens are there; 0 when the bucket never fills. */
export function waitFor(deficit: number, mark: number, now: number, params: BucketParams): number {
  if (params.amount <= 0) return 0;
  return Math.max(0, mark + timeFor(deficit, params) - now);
}
