// Gathers one scrape from all sources and judges it: a sample that contradicts the table or repeats another
// never reaches the page.

import {
  type Buckets,
  METRICS,
  type MetricName,
  type Sink,
  type Source,
  type Summary,
} from "./metrics-table.ts";

export type Value = number | Buckets | Summary;

export interface Series {
  readonly labels: readonly string[];
  readonly value: Value;
}

export interface Gathered {
  /** In the table's order; metrics without a sample are absent. */
  readonly families: ReadonlyMap<MetricName, readonly Series[]>;
  /** One line per sample that was left out: the metric and what is wrong with it. */
  readonly faults: readonly string[];
}

/** Metrics that are not `wanted` are passed over before anything is made of their samples. */
export function gather(
  sources: Iterable<Source>,
  wanted: (name: MetricName) => boolean = () => true,
): Gathered {
  const found = new Map<MetricName, Map<string, Series>>();
  const faults: string[] = [];
  const take = (name: MetricName, labels: readonly (string | number)[], value: Value) => {
    if (!wanted(name)) return;
    const series = found.get(name) ?? new Map<string, Series>();
    found.set(name, series);
    const text = labels.map((label) => String(label).toWellFormed());
    const key = JSON.stringify(text);
    const fault = contradiction(name, text, value) ?? (series.has(key) ? "repeated series" : "");
    if (fault !== "") faults.push(`${name}: ${fault}`);
    else series.set(key, { labels: text, value });
  };
  const sink: Sink = { number: take, buckets: take, summary: take };
  for (const source of sources) source.collect(sink);
  const families = new Map<MetricName, readonly Series[]>();
  for (const name of Object.keys(METRICS) as MetricName[]) {
    const series = found.get(name);
    if (series !== undefined && series.size > 0) families.set(name, [...series.values()]);
  }
  return { families, faults };
}

function contradiction(
  name: MetricName,
  labels: readonly string[],
  value: Value,
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
  if (type === "counter" && value < 0) return "a counter below 0";
  return undefined;
}
