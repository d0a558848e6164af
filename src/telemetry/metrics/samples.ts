// This process's metrics as a Prometheus server would store them after a scrape: one sample per series, histograms as
// cumulative buckets, sum and count. Circuits in the same process query them without a server.

import { type Gathered, gather } from "./gather.ts";
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

/** Whether a metric has series of this name. */
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
  for (const [name, series] of families) {
    const keys = METRICS[name].labels;
    for (const { labels: values, value } of series) {
      const labels = named(keys, values);
      if (typeof value === "number") yield { labels: { __name__: name, ...labels }, value };
      else if ("quantiles" in value) yield* quantiles(name, labels, value, isWanted);
      else yield* expanded(name, labels, value, isWanted);
    }
  }
}

function* expanded(
  name: MetricName,
  labels: Readonly<Record<string, string>>,
  { bounds, counts, sum }: Buckets,
  isWanted: (name: string) => boolean,
): Generator<MetricSample> {
  const buckets = `${name}_bucket`;
  const each = isWanted(buckets);
  let below = 0;
  for (let at = 0; at <= bounds.length; at++) {
    below += counts[at] ?? 0;
    const le = String(bounds[at] ?? "+Inf");
    if (each) yield { labels: { __name__: buckets, ...labels, le }, value: below };
  }
  if (isWanted(`${name}_sum`)) yield { labels: { __name__: `${name}_sum`, ...labels }, value: sum };
  if (isWanted(`${name}_count`))
    yield { labels: { __name__: `${name}_count`, ...labels }, value: below };
}

function* quantiles(
  name: MetricName,
  labels: Readonly<Record<string, string>>,
  summary: Summary,
  isWanted: (name: string) => boolean,
): Generator<MetricSample> {
  for (const [at, each] of isWanted(name) ? summary.quantiles.entries() : []) {
    const value = summary.values[at] ?? Number.NaN;
    yield { labels: { __name__: name, ...labels, quantile: String(each) }, value };
  }
  for (const [part, value] of [
    ["_sum", summary.sum],
    ["_count", summary.count],
  ] as const)
    if (isWanted(name + part)) yield { labels: { __name__: name + part, ...labels }, value };
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
