// The own meters as a scrape would store them: one sample per series, histograms as their cumulative
// buckets, sum and count. So a circuit in the same process queries what a metrics server would have.

import { type Gathered, gather } from "./metrics-gather.ts";
import {
  type Buckets,
  METRICS,
  type MetricName,
  type MetricType,
  type Source,
  type Summary,
} from "./metrics-table.ts";

/** The name is the label `__name__`; labels without a value are absent, as in a metrics server. */
export interface MetricSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const PARTS: Readonly<Record<MetricType, readonly string[]>> = {
  counter: [""],
  gauge: [""],
  histogram: ["_bucket", "_sum", "_count"],
  summary: ["", "_sum", "_count"],
};

/** Whether there is a metric whose samples have this name. */
export function isSeriesName(name: string): boolean {
  return Object.entries(METRICS).some(([metric, { type }]) =>
    PARTS[type].some((part) => metric + part === name),
  );
}

/** Samples of the series names that are wanted, as they are now; what nobody wants is not gathered either. */
export function samples(
  sources: Iterable<Source>,
  wanted: (name: string) => boolean,
): Iterable<MetricSample> {
  const isWanted = memory(wanted);
  const { families } = gather(sources, (name) =>
    PARTS[METRICS[name].type].some((part) => isWanted(name + part)),
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

/** A caller's test may cost more than a look-up: it is asked once for each name. */
function memory(wanted: (name: string) => boolean): (name: string) => boolean {
  const known = new Map<string, boolean>();
  return (name) => {
    const answer = known.get(name) ?? wanted(name);
    known.set(name, answer);
    return answer;
  };
}
