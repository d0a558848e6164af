// The metrics of one process. Sources register, and `/metrics` reads them, as may circuits in the same process. Nothing
// happens between scrapes.

import { Fault } from "#base/fault.ts";
import type { Route } from "#base/handler.ts";
import type { ExpositionFormat } from "./exposition.ts";
import { type Gathered, gather } from "./gather.ts";
import { isSeriesName, type MetricSample, observations, samples } from "./samples.ts";
import { METRICS, type MetricName, type MetricSource } from "./table.ts";

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

type Exposition = typeof import("./exposition.ts");
/** The metrics library, once it is loaded. */
interface Writer {
  readonly write: Exposition;
  readonly runtime: ReturnType<Exposition["runtimeCollectors"]>;
}

export class Metrics {
  readonly #settings: MetricsSettings;
  readonly #sources = new Set<MetricSource>();
  #writer: Promise<Writer> | undefined;
  #leftOut = 0;

  constructor(settings: MetricsSettings) {
    this.#settings = settings;
  }

  /** Adds a source. The returned function removes it together with its series. */
  add(source: MetricSource): () => void {
    this.#sources.add(source);
    return () => void this.#sources.delete(source);
  }

  /**
   * The sum of the series with these labels; undefined when there are none. Of a histogram or summary, the number of
   * observations counts.
   */
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
   * The samples that a Prometheus server would store if it scraped now, for the series names that are `wanted` (such as
   * `flux_meter_bucket`, not `flux_meter`). Metrics of the runtime and the process are not included.
   */
  samples(wanted: (name: string) => boolean): Iterable<MetricSample> {
    return samples(this.#all(), wanted);
  }

  /** True if Sluice exports series of this name, even if there is no sample yet. */
  knows(name: string): boolean {
    return isSeriesName(name);
  }

  /** The page in the format that the `accept` header prefers. When pedantic, throws INTERNAL on inconsistent metrics. */
  async scrape(accept = ""): Promise<Page> {
    const { write, runtime } = await this.#loadWriter();
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

  #all(): readonly MetricSource[] {
    const leftOut: MetricSource = {
      collect: (to) => {
        if (this.#leftOut > 0) to.number("sluice_metrics_inconsistent_total", [], this.#leftOut);
      },
    };
    return [...this.#sources, leftOut];
  }

  /** Loads the library at the first scrape: checks do not need it. */
  #loadWriter(): Promise<Writer> {
    this.#writer ??= import("./exposition.ts").then((write) => ({
      write,
      runtime: write.runtimeCollectors({
        runtime: this.#settings.enable_go_metrics,
        process: this.#settings.enable_process_collector,
      }),
    }));
    return this.#writer;
  }
}

/** OpenMetrics only if the header names it and does not prefer plain text (RFC 9110 §12.5.1). */
function preferred(accept: string): ExpositionFormat {
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

export function metricsRoute(metrics: Metrics): Route {
  return {
    method: "GET",
    path: "/metrics",
    about: "Metrics as Prometheus text or OpenMetrics, whichever `accept` prefers.",
    access: "open",
    costly: true,
    async handle({ headers }) {
      const page = await metrics.scrape(String(headers["accept"] ?? ""));
      return { status: 200, headers: { "content-type": page.contentType }, body: page.body };
    },
  };
}
