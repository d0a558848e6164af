// This process's metrics as a Prometheus server would store them after a scrape: one sample per series, histograms as
// cumulative buckets, sum and count. Circuits in the same process query them without a server.

import { type Gathered, gather, type SampleValue } from "./gather.ts";
import type { MetricType } from "./table/row.ts";
import {
  type Buckets,
  METRICS,
  type MetricName,
  type MetricSource,
  type Summary,
} from "./table.ts";

/** The name is in the label `__name__`. Labels with an empty value are absent, as in a Prometheus server. */
export interface MetricSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Suffixes of the series names of each type of metric. */
const SUFFIXES: Readonly<Record<MetricType, readonly string[]>> = {
  counter: [""],
  gauge: [""],
  histogram: ["_bucket", "_sum", "_count"],
  summary: ["", "_sum", "_count"],
};

/** True if a metric has series of this name. */
export function isSeriesName(name: string): boolean {
  return Object.entries(METRICS).some(([metric, { type }]) =>
    SUFFIXES[type].some((part) => metric + part === name),
  );
}

/** The current samples of the series names that are `wanted`. Other metrics are not even collected. */
export function samples(
  sources: Iterable<MetricSource>,
  wanted: (name: string) => boolean,
): Iterable<MetricSample> {
  const isWanted = memoized(wanted);
  const { families } = gather(sources, (name) =>
    SUFFIXES[METRICS[name].type].some((part) => isWanted(name + part)),
  );
  return spread(families, isWanted);
}

function* spread(
  families: Gathered["families"],
  isWanted: (name: string) => boolean,
): Generator<MetricSample> {
  for (const [metric, series] of families) {
    const keys = METRICS[metric].labels;
    for (const { labels: values, value: sample } of series)
      for (const { name, labels, value } of expanded(metric, named(keys, values), sample, isWanted))
        yield { labels: { __name__: name, ...labels }, value };
  }
}

/** How many values a histogram or a summary has observed. */
export function observations(value: Buckets | Summary): number {
  if ("quantiles" in value) return value.count;
  let sum = 0;
  for (let at = 0; at < value.counts.length; at++) sum += value.counts[at] ?? 0;
  return sum;
}

/** One number of a metric, under the name that a Prometheus server stores it by. */
interface StoredSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The numbers of one series: a histogram has cumulative buckets, a summary quantiles, and both have a sum and a count. */
export function* expanded(
  name: MetricName,
  labels: Readonly<Record<string, string>>,
  value: SampleValue,
  isWanted: (name: string) => boolean = () => true,
): Generator<StoredSample> {
  if (typeof value === "number") {
    yield { name, labels, value };
    return;
  }
  if ("quantiles" in value && isWanted(name))
    for (const [at, quantile] of value.quantiles.entries())
      yield {
        name,
        labels: { ...labels, quantile: String(quantile) },
        value: value.values[at] ?? Number.NaN,
      };
  const bucket = `${name}_bucket`;
  if ("counts" in value && isWanted(bucket)) {
    let below = 0;
    for (let at = 0; at <= value.bounds.length; at++) {
      below += value.counts[at] ?? 0;
      const le = String(value.bounds[at] ?? "+Inf");
      yield { name: bucket, labels: { ...labels, le }, value: below };
    }
  }
  if (isWanted(`${name}_sum`)) yield { name: `${name}_sum`, labels, value: value.sum };
  if (isWanted(`${name}_count`))
    yield { name: `${name}_count`, labels, value: observations(value) };
}

function named(keys: readonly string[], values: readonly string[]): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const [at, key] of keys.entries()) {
    const value = values[at] ?? "";
    if (value !== "") labels[key] = value;
  }
  return labels;
}

/** A cached `wanted`: it is called once for each name, because it may be slower than a lookup. */
function memoized(wanted: (name: string) => boolean): (name: string) => boolean {
  const known = new Map<string, boolean>();
  return (name) => {
    const answer = known.get(name) ?? wanted(name);
    known.set(name, answer);
    return answer;
  };
}
