// Collects the samples of all sources and leaves out those that contradict the table or duplicate another sample.

import {
  type Buckets,
  METRICS,
  type MetricName,
  type MetricSink,
  type MetricSource,
  type Summary,
} from "./table.ts";

export type SampleValue = number | Buckets | Summary;

export interface Series {
  readonly labels: readonly string[];
  readonly value: SampleValue;
}

export interface Gathered {
  /** In the order of the table; metrics without samples are absent. */
  readonly families: ReadonlyMap<MetricName, readonly Series[]>;
  /** One message per omitted sample: the metric and what is wrong with the sample. */
  readonly faults: readonly string[];
}

/** Samples of metrics that are not `wanted` are skipped at no cost. */
export function gather(
  sources: Iterable<MetricSource>,
  wanted: (name: MetricName) => boolean = () => true,
): Gathered {
  const found = new Map<MetricName, Map<string, Series>>();
  const faults: string[] = [];
  const take = (name: MetricName, labels: readonly (string | number)[], value: SampleValue) => {
    if (!wanted(name)) return;
    const series = found.get(name) ?? new Map<string, Series>();
    found.set(name, series);
    const text = labels.map((label) => String(label).toWellFormed());
    const key = JSON.stringify(text);
    const fault = contradiction(name, text, value) ?? (series.has(key) ? "duplicate series" : "");
    if (fault !== "") faults.push(`${name}: ${fault}`);
    else series.set(key, { labels: text, value });
  };
  const sink: MetricSink = { wants: wanted, number: take, buckets: take, summary: take };
  for (const source of sources) source.collect(sink);
  const families = new Map<MetricName, readonly Series[]>();
  for (const name of Object.keys(METRICS) as MetricName[]) {
    const series = found.get(name);
    if (series !== undefined && series.size > 0) families.set(name, [...series.values()]);
  }
  return { families, faults };
}

/** The fault of a sample; undefined when it fits the table. */
function contradiction(
  name: MetricName,
  labels: readonly string[],
  value: SampleValue,
): string | undefined {
  const { type, labels: wanted } = METRICS[name];
  if (labels.length !== wanted.length)
    return `wanted ${wanted.length} label values, got ${labels.length}`;
  if (typeof value !== "number" && "quantiles" in value)
    return type === "summary" ? undefined : `wanted a number for a ${type}, got quantiles`;
  if (typeof value !== "number") {
    if (type !== "histogram") return `wanted a number for a ${type}, got buckets`;
    return value.counts.length === value.bounds.length + 1
      ? undefined
      : `wanted ${value.bounds.length + 1} buckets, got ${value.counts.length}`;
  }
  if (type === "histogram") return "wanted buckets, got a number";
  if (type === "summary") return "wanted quantiles, got a number";
  if (Number.isNaN(value)) return "not a number";
  if (type === "counter" && value < 0) return "a negative counter";
  return undefined;
}
