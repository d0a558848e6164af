// Answers the queries of circuits: from a Prometheus server if one is configured, or from the metrics of this process, which
// are then sampled once a second.

import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import { HttpClient } from "#client/http.ts";
import type { Environment } from "#client/http-settings.ts";
import type { ControllerConfig } from "#config/tree.ts";
import { PrometheusClient } from "#prometheus/client.ts";
import { LocalQueryEngine } from "#promql/local-engine.ts";
import type { Dialect, QueryEngine, Sample } from "#promql/result.ts";
import { SampleStore } from "#promql/samples.ts";
import type { MetricSource } from "#telemetry/metrics/table.ts";

export interface QueryBackend {
  readonly dialect: Dialect;
  readonly engine: QueryEngine;
  /** Sets the queries of all circuits. Call it whenever they change. */
  setQueries(queries: readonly string[]): void;
  /** True if a metric exists, with or without a value; undefined if a server may have any metric. */
  readonly knowsMetric: ((name: string) => boolean) | undefined;
  /** Counts samples that are kept and lost. */
  readonly metrics: MetricSource;
  close(): Promise<void>;
}

/** The metrics of this process. */
export interface LocalMetrics {
  samples(wanted: (name: string) => boolean): Iterable<Sample>;
  /** True if a metric of this name exists, with or without a sample yet. */
  knows(name: string): boolean;
}

interface QueryBackendOptions {
  readonly settings: Pick<ControllerConfig, "prometheus" | "client">;
  readonly metrics: LocalMetrics;
  readonly env: Environment;
  readonly clock: Clock;
  readonly log: Log;
}

export function openQueryBackend(options: QueryBackendOptions): QueryBackend {
  return options.settings.prometheus.address === ""
    ? localBackend(options)
    : serverBackend(options);
}

function serverBackend({ settings, env, clock, log }: QueryBackendOptions): QueryBackend {
  const { prometheus, client } = settings;
  const proxy = client.proxy;
  const http = new HttpClient({
    settings: prometheus.http_client,
    key: "prometheus.http_client",
    proxy,
    env,
    clock,
    log: log.child("prometheus"),
  });
  const engine = new PrometheusClient({
    settings: prometheus,
    http,
    onWarning: (query, remark) =>
      log.warn({ query }, `the metrics server sent a warning about a query: ${remark}`),
  });
  return {
    dialect: "prometheus",
    engine,
    setQueries: () => undefined,
    knowsMetric: undefined,
    metrics: { collect: () => undefined },
    close: () => http.close(),
  };
}

/** Time between two samples, ms: the shortest interval at which policies are commonly evaluated. */
const SAMPLE_MS = 1_000;

function localBackend({ metrics, clock, log }: QueryBackendOptions): QueryBackend {
  const samples = new SampleStore();
  let hasQueries = false;
  let disarm: (() => void) | undefined;
  let dropped = 0;
  let restarts = 0;
  const take = () => {
    samples.addScrape(
      clock.wall(),
      metrics.samples((name) => samples.needs(name)),
    );
    if (samples.dropped > 0 && dropped === 0) {
      log.warn(
        {},
        "some queries need more samples of this process's metrics than there is room for; they have no result",
      );
    }
    dropped = samples.dropped;
    if (samples.restarts > restarts) {
      log.warn(
        {},
        "the clock was set back: queries of this process's metrics start without earlier samples",
      );
    }
    restarts = samples.restarts;
  };
  /** Samples periodically while there are queries. */
  const run = (due: number) => {
    if (!hasQueries) {
      disarm = undefined;
      return;
    }
    take();
    // The next sample is due one period after this one was due, or now if that has passed. So there is no drift.
    const next = Math.max(due + SAMPLE_MS, clock.now());
    disarm = clock.alarm(next - clock.now(), () => run(next));
  };
  return {
    dialect: "own",
    engine: new LocalQueryEngine(samples),
    setQueries(queries) {
      samples.setQueries([...new Set(queries)]);
      hasQueries = queries.length > 0;
      if (hasQueries && disarm === undefined) run(clock.now());
    },
    knowsMetric: (name) => metrics.knows(name),
    metrics: {
      collect(to) {
        to.number("sluice_query_samples_series", [], samples.series);
        to.number("sluice_query_samples_lost_total", [], samples.dropped);
      },
    },
    async close() {
      hasQueries = false;
      disarm?.();
    },
  };
}
