// Who answers the queries of circuits: a Prometheus server where one is configured, or else Sluice itself,
// from its own meters, which it then reads once a second.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { PrometheusClient } from "#prometheus/client.ts";
import { NAME_LABEL, type Selector, walk } from "#promql/ast.ts";
import { OwnMeasure } from "#promql/own.ts";
import { parse } from "#promql/parse.ts";
import type { Dialect, Measure, Sample } from "#promql/result.ts";
import { SampleStore } from "#promql/samples.ts";
import { type Environment, HttpCaller } from "#wire/http-caller.ts";
import type { ControllerSettings } from "./settings.ts";

export interface Measures {
  readonly dialect: Dialect;
  readonly measure: Measure;
  /** The queries of all circuits, whenever they change. */
  want(queries: readonly string[]): void;
  /** Names in a query that nobody will ever answer. */
  unknown(query: string): readonly string[];
  close(): Promise<void>;
}

/** The meters of this process. */
export interface OwnMeters {
  samples(wanted: (name: string) => boolean): Iterable<Sample>;
  /** Whether there is such a series name, with or without a sample yet. */
  knows(name: string): boolean;
}

export interface MeasuresOptions {
  readonly settings: Pick<ControllerSettings, "prometheus" | "client">;
  readonly meters: OwnMeters;
  readonly env: Environment;
  readonly clock: Clock;
  readonly warn: (fields: Readonly<Record<string, unknown>>, message: string) => void;
}

export function openMeasures(options: MeasuresOptions): Measures {
  return options.settings.prometheus.address === "" ? ownMeasures(options) : server(options);
}

function server({ settings, env, clock, warn }: MeasuresOptions): Measures {
  const { prometheus, client } = settings;
  const proxy = client.proxy;
  const http = new HttpCaller({ settings: prometheus.http_client, proxy, env, clock });
  const measure = new PrometheusClient({
    settings: prometheus,
    http,
    remarked: (query, remark) =>
      warn({ query }, `the metrics server remarks on a query: ${remark}`),
  });
  return {
    dialect: "prometheus",
    measure,
    want: () => undefined,
    unknown: () => [],
    close: () => http.close(),
  };
}

/** Between two readings of the own meters: the shortest interval at which policies are commonly evaluated. */
const SAMPLE_MS = 1_000;

function ownMeasures({ meters, clock, warn }: MeasuresOptions): Measures {
  const samples = new SampleStore();
  let wanted = false;
  let disarm: (() => void) | undefined;
  let dropped = 0;
  let restarts = 0;
  const take = () => {
    samples.take(
      clock.wall(),
      meters.samples((name) => samples.needs(name)),
    );
    if (samples.dropped > 0 && dropped === 0) {
      warn({}, "more samples of own meters are wanted than are kept: queries miss some");
    }
    dropped = samples.dropped;
    if (samples.restarts > restarts) {
      warn({}, "the clock was set back: queries of own meters begin anew, with no earlier samples");
    }
    restarts = samples.restarts;
  };
  /** Nothing is read while no query is there. */
  const run = (due: number) => {
    if (!wanted) {
      disarm = undefined;
      return;
    }
    take();
    // No drift: the next reading is due one period after this one was, or now where that has passed.
    const next = Math.max(due + SAMPLE_MS, clock.now());
    disarm = clock.alarm(next - clock.now(), () => run(next));
  };
  return {
    dialect: "own",
    measure: new OwnMeasure(samples),
    want(queries) {
      samples.want([...new Set(queries)]);
      wanted = queries.length > 0;
      if (wanted && disarm === undefined) run(clock.now());
    },
    unknown: (query) => metersOf(query).filter((name) => !meters.knows(name)),
    async close() {
      wanted = false;
      disarm?.();
    },
  };
}

/** Names of the metrics that a query selects by name. */
function metersOf(query: string): readonly string[] {
  try {
    const selectors = [...walk(parse(query))].filter((node) => node.kind === "selector");
    return [...new Set(selectors.map(nameOf).filter((name) => name !== ""))];
  } catch (thrown) {
    // What cannot be read was told when the policy was compiled.
    if (thrown instanceof Fault) return [];
    throw thrown;
  }
}

function nameOf({ name, matchers }: Selector): string {
  if (name !== "") return name;
  return matchers.find((each) => each.name === NAME_LABEL && each.op === "=")?.value ?? "";
}
