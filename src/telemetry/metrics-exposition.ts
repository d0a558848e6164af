// Writes gathered samples as a metrics page with the Prometheus client library, and holds the library's
// collectors of the runtime and the process. Imported at the first scrape only.

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry, Summary } from "prom-client";
import type { Series } from "./metrics-gather.ts";
import { METRICS, type MetricName } from "./metrics-table.ts";

export type Format = "text" | "openmetrics";

interface Line {
  readonly value: number;
  readonly labels: Partial<Record<string, string | number>>;
  readonly metricName?: string;
}

interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram" | "summary";
  readonly lines: readonly Line[];
}

export const CONTENT_TYPE: Readonly<Record<Format, Registry["contentType"]>> = {
  text: Registry.PROMETHEUS_CONTENT_TYPE,
  openmetrics: Registry.OPENMETRICS_CONTENT_TYPE,
};

interface RuntimeChoice {
  /** Heap, garbage collection, event loop and handles: `nodejs_*`. */
  readonly runtime: boolean;
  /** Processor time, memory and file descriptors: `process_*`. */
  readonly process: boolean;
}

/** The library's own collectors, in a registry apart; undefined when none was asked for. */
export function runtimeCollectors(choice: RuntimeChoice): Registry | undefined {
  if (!choice.runtime && !choice.process) return undefined;
  const register = new Registry();
  collectDefaultMetrics({ register });
  for (const { name } of register.getMetricsAsArray()) {
    const wanted = name.startsWith("process_") ? choice.process : choice.runtime;
    if (!wanted) register.removeSingleMetric(name);
  }
  return register;
}

/** The page. Registry and families are made anew each time: the library renames counters in place for OpenMetrics. */
export async function page(
  format: Format,
  own: ReadonlyMap<MetricName, readonly Series[]>,
  runtime: Registry | undefined,
): Promise<string> {
  const registry = new Registry(CONTENT_TYPE[format]);
  for (const [name, series] of own) add(registry, format, familyOf(name, series));
  for (const { name, help, type, values } of (await runtime?.getMetricsAsJSON()) ?? [])
    add(registry, format, { name, help, type, lines: values });
  return registry.metrics();
}

function familyOf(name: MetricName, series: readonly Series[]): Family {
  const { type, labels: keys, about } = METRICS[name];
  const lines: Line[] = [];
  for (const { labels, value } of series) {
    const named: Record<string, string> = {};
    for (const [at, key] of keys.entries()) named[key] = labels[at] ?? "";
    if (typeof value === "number") {
      lines.push({ labels: named, value });
      continue;
    }
    if ("quantiles" in value) {
      for (const [at, quantile] of value.quantiles.entries())
        lines.push({ labels: { ...named, quantile }, value: value.values[at] ?? Number.NaN });
      lines.push({ labels: named, value: value.sum, metricName: `${name}_sum` });
      lines.push({ labels: named, value: value.count, metricName: `${name}_count` });
      continue;
    }
    let below = 0;
    for (let at = 0; at <= value.bounds.length; at++) {
      below += value.counts[at] ?? 0;
      const le = value.bounds[at] ?? "+Inf";
      lines.push({ labels: { ...named, le }, value: below, metricName: `${name}_bucket` });
    }
    lines.push({ labels: named, value: value.sum, metricName: `${name}_sum` });
    lines.push({ labels: named, value: below, metricName: `${name}_count` });
  }
  return { name, help: about, type, lines };
}

/** Registers a metric whose lines are already known; the library only writes them out. */
function add(registry: Registry, format: Format, { name, help, type, lines }: Family): void {
  const shape = { name, help, registers: [] };
  const shown = format === "openmetrics" && type === "counter" ? name.replace(/_total$/, "") : name;
  const told = { name: shown, help, type, values: [...lines], aggregator: "sum", collect: none };
  const get = () => Promise.resolve(told);
  const made =
    type === "counter"
      ? new Counter<string>(shape)
      : type === "gauge"
        ? new Gauge<string>(shape)
        : type === "summary"
          ? new Summary<string>(shape)
          : new Histogram<string>(shape);
  registry.registerMetric(Object.assign(made, { get, getForPromString: get }));
}

const none = () => undefined;
