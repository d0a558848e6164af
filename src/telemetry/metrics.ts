// The metrics of one process: sources register, `/metrics` reads them, and so may a circuit in the same
// process. Nothing happens between scrapes.

import { Fault } from "#base/fault.ts";
import type { Format } from "./metrics-exposition.ts";
import { type Gathered, gather } from "./metrics-gather.ts";
import { isSeriesName, type MetricSample, samples } from "./metrics-samples.ts";
import {
  type Buckets,
  METRICS,
  type MetricName,
  type Source,
  type Summary,
} from "./metrics-table.ts";

/** `metrics.*` of the configuration. */
interface MetricsSettings {
  /** The runtime's collector: Node's heap, garbage collector and event loop. */
  readonly enable_go_metrics: boolean;
  readonly enable_process_collector: boolean;
  /** A sample that contradicts the table makes the whole scrape fail; otherwise it is left out and counted. */
  readonly pedantic: boolean;
}

interface Page {
  readonly contentType: string;
  readonly body: string;
}

type Exposition = typeof import("./metrics-exposition.ts");
interface Voice {
  readonly write: Exposition;
  readonly runtime: ReturnType<Exposition["runtimeCollectors"]>;
}

export class Metrics {
  readonly #settings: MetricsSettings;
  readonly #sources = new Set<Source>();
  #voice: Promise<Voice> | undefined;
  #leftOut = 0;

  constructor(settings: MetricsSettings) {
    this.#settings = settings;
  }

  /** Adds what counts; the returned function takes it, and so its series, away. */
  add(source: Source): () => void {
    this.#sources.add(source);
    return () => void this.#sources.delete(source);
  }

  /** Sum of the series that carry these labels; undefined when there is none. A histogram or summary counts its observations. */
  read(name: MetricName, labels: Readonly<Record<string, string>> = {}): number | undefined {
    const keys: readonly string[] = METRICS[name].labels;
    const wanted = Object.entries(labels).map(([key, value]) => ({ at: keys.indexOf(key), value }));
    let sum: number | undefined;
    for (const series of this.#gather().families.get(name) ?? []) {
      if (!wanted.every(({ at, value }) => series.labels[at] === value)) continue;
      const { value } = series;
      sum = (sum ?? 0) + (typeof value === "number" ? value : observations(value));
    }
    return sum;
  }

  /**
   * The samples that a scrape at this moment would store, of the series names that are `wanted`
   * (`flux_meter_bucket`, not `flux_meter`). Without those of the runtime and the process.
   */
  samples(wanted: (name: string) => boolean): Iterable<MetricSample> {
    return samples(this.#all(), wanted);
  }

  /** Whether there is a series name such as this, with or without a sample yet. */
  knows(name: string): boolean {
    return isSeriesName(name);
  }

  /** The page in the form that the `accept` header prefers. Throws INTERNAL when pedantic and inconsistent. */
  async scrape(accept = ""): Promise<Page> {
    const { write, runtime } = await this.#speak();
    let gathered = this.#gather();
    const [first] = gathered.faults;
    if (this.#settings.pedantic && first !== undefined) {
      throw new Fault("INTERNAL", `metrics are inconsistent: ${first}`);
    }
    if (first !== undefined) {
      this.#leftOut += gathered.faults.length;
      gathered = this.#gather();
    }
    const format = preferred(accept);
    const body = await write.page(format, gathered.families, runtime);
    return { contentType: write.CONTENT_TYPE[format], body };
  }

  #gather(): Gathered {
    return gather(this.#all());
  }

  #all(): readonly Source[] {
    const own: Source = {
      collect: (to) => {
        if (this.#leftOut > 0) to.number("sluice_metrics_inconsistent_total", [], this.#leftOut);
      },
    };
    return [...this.#sources, own];
  }

  /** The library comes with the first scrape: a check can be answered without it. */
  #speak(): Promise<Voice> {
    this.#voice ??= import("./metrics-exposition.ts").then((write) => ({
      write,
      runtime: write.runtimeCollectors({
        runtime: this.#settings.enable_go_metrics,
        process: this.#settings.enable_process_collector,
      }),
    }));
    return this.#voice;
  }
}

function observations(value: Buckets | Summary): number {
  if ("quantiles" in value) return value.count;
  const { counts } = value;
  let sum = 0;
  for (let at = 0; at < counts.length; at++) sum += counts[at] ?? 0;
  return sum;
}

/** OpenMetrics only for those who name it and like plain text no better (RFC 9110 §12.5.1). */
function preferred(accept: string): Format {
  let open = 0;
  let text = 0;
  for (const part of accept.split(",")) {
    const [type = "", ...parameters] = part.split(";").map((piece) => piece.trim().toLowerCase());
    const given = parameters.find((parameter) => parameter.startsWith("q="));
    const weight = given === undefined ? 1 : Number(given.slice(2)) || 0;
    if (type === "application/openmetrics-text") open = Math.max(open, weight);
    if (type === "text/plain") text = Math.max(text, weight);
  }
  return open > 0 && open >= text ? "openmetrics" : "text";
}

/** One row of a port's route table, as much of it as this route needs. */
interface MetricsRoute {
  readonly method: "GET";
  readonly path: "/metrics";
  readonly about: string;
  readonly revealing: true;
  readonly costly: true;
  handle(request: {
    readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  }): Promise<{
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  }>;
}

export function metricsRoute(metrics: Metrics): MetricsRoute {
  return {
    method: "GET",
    path: "/metrics",
    about: "Metrics as Prometheus text or OpenMetrics, whichever `accept` prefers.",
    revealing: true,
    costly: true,
    async handle({ headers }) {
      const page = await metrics.scrape(String(headers["accept"] ?? ""));
      return { status: 200, headers: { "content-type": page.contentType }, body: page.body };
    },
  };
}
