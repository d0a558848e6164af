// histogram_quantile over classic histograms, which are counters with their upper bound as label `le`.

import type { Labels } from "../../result.ts";
import { NAME_LABEL } from "../../syntax/ast.ts";
import { parseNumber } from "../../syntax/literals.ts";
import { drop, keyBut } from "../labels.ts";
import type { Vector } from "../value.ts";

const BUCKET = "le";
const DROPPED: ReadonlySet<string> = new Set([BUCKET, NAME_LABEL]);

interface Bucket {
  readonly bound: number;
  /** Number of values up to the bound. */
  readonly count: number;
}

export function histogramQuantile(part: number, vector: Vector): Vector {
  const histograms = new Map<string, { readonly labels: Labels; readonly buckets: Bucket[] }>();
  for (const { labels, value } of vector) {
    const bound = boundOf(labels[BUCKET] ?? "");
    if (bound === undefined) continue;
    const key = keyBut(labels, DROPPED);
    const found = histograms.get(key) ?? { labels: drop(labels, DROPPED), buckets: [] };
    found.buckets.push({ bound, count: value });
    histograms.set(key, found);
  }
  return [...histograms.values()].map(({ labels, buckets }) => ({
    labels,
    value: within(part, risingFrom(buckets)),
  }));
}

function boundOf(text: string): number | undefined {
  const [, sign = "", digits = ""] = /^([-+]?)(inf|[\d.]+(?:e[-+]?\d+)?)$/i.exec(text) ?? [];
  if (digits === "") return undefined;
  const bound = /^inf$/i.test(digits) ? parseNumber(digits) : Number(digits);
  if (Number.isNaN(bound)) return undefined;
  return sign === "-" ? -bound : bound;
}

/** Relative differences below this are rounding errors. */
const NOISE = 1e-12;

/** Sorts buckets, merges equal bounds, and makes counts monotonic, since buckets are scraped at slightly different times. */
function risingFrom(buckets: readonly Bucket[]): readonly Bucket[] {
  const rising: Bucket[] = [];
  const ordered = buckets.toSorted((one, two) => one.bound - two.bound || 0);
  for (const bucket of coalesced(ordered)) {
    const before = rising.at(-1)?.count ?? Number.NEGATIVE_INFINITY;
    const noise =
      Math.abs(bucket.count - before) < NOISE * (Math.abs(before) + Math.abs(bucket.count));
    rising.push(noise || bucket.count < before ? { ...bucket, count: before } : bucket);
  }
  return rising;
}

function coalesced(ordered: readonly Bucket[]): readonly Bucket[] {
  const result: Bucket[] = [];
  for (const bucket of ordered) {
    const last = result.at(-1);
    if (last?.bound !== bucket.bound) result.push(bucket);
    else result[result.length - 1] = { ...last, count: last.count + bucket.count };
  }
  return result;
}

function within(part: number, buckets: readonly Bucket[]): number {
  if (Number.isNaN(part)) return Number.NaN;
  if (part < 0) return Number.NEGATIVE_INFINITY;
  if (part > 1) return Number.POSITIVE_INFINITY;
  const all = buckets.at(-1);
  const highest = buckets.at(-2);
  if (all?.bound !== Number.POSITIVE_INFINITY || highest === undefined || all.count === 0) {
    return Number.NaN;
  }
  const rank = part * all.count;
  const at = buckets.findIndex(({ count }) => count >= rank);
  const bucket = buckets[at];
  if (bucket === undefined || bucket === all) return highest.bound;
  // Assumes a uniform distribution within buckets; the lowest bucket begins at 0.
  if (at === 0 && bucket.bound <= 0) return bucket.bound;
  const { bound: start, count: below } = buckets[at - 1] ?? { bound: 0, count: 0 };
  return start + (bucket.bound - start) * ((rank - below) / (bucket.count - below));
}
