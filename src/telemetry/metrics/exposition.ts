// Writes collected samples as a page for Prometheus with its client library, and owns the library's collectors of the
// runtime and the process. Imported with the first scrape.

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry, Summary } from "prom-client";
import type { Series } from "./gather.ts";
import { expanded } from "./samples.ts";
import { METRICS, type MetricName } from "./table.ts";

export type ExpositionFormat = "text" | "openmetrics";

/** One line of the page. */
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

export const CONTENT_TYPE: Readonly<Record<ExpositionFormat, Registry["contentType"]>> = {
  text: Registry.PROMETHEUS_CONTENT_TYPE,
  openmetrics: Registry.OPENMETRICS_CONTENT_TYPE,
};

interface RuntimeChoice {
  /** Heap, garbage collection, event loop and handles: `nodejs_*`. */
  readonly runtime: boolean;
  /** Processor time, memory and file descriptors: `process_*`. */
  readonly process: boolean;
}

/** The library's collectors in a registry of their own; undefined when none is wanted. */
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

/** Writes the page. Creates a new registry each time, because the library renames counters in place for OpenMetrics. */
export async function page(
  format: ExpositionFormat,
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
  const lines = series.flatMap(({ labels, value: sample }) => {
    const named = Object.fromEntries(keys.map((key, at) => [key, labels[at] ?? ""]));
    return [...expanded(name, named, sample)].map((each): Line => {
      const { labels: all, value } = each;
      return each.name === name
        ? { labels: all, value }
        : { labels: all, value, metricName: each.name };
    });
  });
  return { name, help: about, type, lines };
}

/** Registers a metric whose lines are already known, so that the library only writes them. */
function add(
  registry: Registry,
  format: ExpositionFormat,
  { name, help, type, lines }: Family,
): void {
  const config = { name, help, registers: [] };
  const shownName =
    format === "openmetrics" && type === "counter" ? name.replace(/_total$/, "") : name;
  const json = {
    name: shownName,
    help,
    type,
    values: [...lines],
    aggregator: "sum",
    collect: none,
  };
  const get = () => Promise.resolve(json);
  const metric =
    type === "counter"
      ? new Counter<string>(config)
      : type === "gauge"
        ? new Gauge<string>(config)
        : type === "summary"
          ? new Summary<string>(config)
          : new Histogram<string>(config);
  registry.registerMetric(Object.assign(metric, { get, getForPromString: get }));
}

const none = () => undefined;
