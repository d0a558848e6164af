// The counters that agents share, as a process opens them: the engine that the configuration names, its metrics and its
// status.

import type { Route } from "#base/handler.ts";
import type { SharedCounters } from "#flow/counters/shared-counters.ts";
import type { MetricSource } from "#telemetry/metrics/table.ts";
import type { OpenedEngine, SharedCountersOptions } from "./engine.ts";
import { type EngineName, watchEngines } from "./group-engines.ts";
import type { CountersSettings } from "./settings.ts";

export interface OpenCounters {
  /** Undefined where each process counts for itself. */
  readonly counters: SharedCounters | undefined;
  readonly metrics: MetricSource;
  readonly routes: readonly Route[];
  /** Hands over what this process counts for others, before it leaves the group. */
  leave(): Promise<void>;
  close(): void | Promise<void>;
}

interface Engine {
  /** Text of the status while the engine answers. */
  readonly answers: string;
  /** Text of the status while the engine does not answer; the reason follows it. */
  readonly away: string;
  /** Logs each transition, and calls `changed`. */
  readonly open: (
    settings: CountersSettings,
    options: SharedCountersOptions,
    changed: (reason: string | undefined) => void,
  ) => Promise<OpenedEngine>;
}

/** A row for each engine that is shared. Modules are loaded only when they are needed: they take time and memory. */
const ENGINES: Readonly<Record<Exclude<EngineName, "local">, Engine>> = {
  peers: {
    answers: "all agents of the group answer",
    away: "some keys cannot be counted, on_failure of each component answers for them",
    open: async (settings, options, changed) =>
      (await import("./peers/peer-engine.ts")).openPeers(settings, options, changed),
  },
  redis: {
    answers: "Redis answers",
    away: "Redis is away, on_failure of each component answers",
    open: async (settings, options, changed) =>
      (await import("./redis/redis-engine.ts")).openRedis(settings, options, changed),
  },
};

/** Opens the engine. One that is away does not keep the process from starting. Throws a Fault when its settings are wrong. */
export async function openSharedCounters(
  settings: CountersSettings,
  options: SharedCountersOptions,
): Promise<OpenCounters> {
  const { byDefault, members, log } = options;
  const name = settings.engine === "auto" ? byDefault : settings.engine;
  if (name === "local") {
    const ignore = watchEngines(name, members, log, (others) => {
      if (others === undefined) options.status().ok("this process counts for itself");
      else options.status().fail(others);
    });
    return {
      counters: undefined,
      metrics: NO_METRICS,
      routes: [],
      close: ignore,
      leave: async () => undefined,
    };
  }
  const engine = ENGINES[name];
  const node = options.status();
  let away: string | undefined;
  let apart: string | undefined;
  const show = () => {
    const all = [away, apart].filter((each) => each !== undefined);
    if (all.length === 0) node.ok(engine.answers);
    else node.fail(all.join("; "));
  };
  const changed = (reason: string | undefined) => {
    away = reason === undefined ? undefined : `${engine.away}: ${reason}`;
    show();
  };
  const opened = await engine.open(settings, options, changed);
  changed(opened.reason);
  const ignore = watchEngines(name, members, log, (others) => {
    apart = others;
    show();
  });
  return {
    counters: opened.counters,
    metrics: metricsOf(name, opened),
    routes: opened.routes ?? [],
    leave: async () => opened.leave?.(),
    close() {
      ignore();
      return opened.close();
    },
  };
}

const NO_METRICS: MetricSource = { collect: () => undefined };

const RESULTS = ["answered", "failed", "skipped", "refused"] as const;

function metricsOf(engine: string, opened: OpenedEngine): MetricSource {
  return {
    collect(to) {
      const { counts, leases, slotEnds, reason, metrics } = opened;
      to.number("sluice_counter_engine_up", [engine], reason === undefined ? 1 : 0);
      for (const state of ["away", "back"] as const)
        to.number("sluice_counter_engine_transitions_total", [engine, state], counts[state]);
      for (const result of RESULTS)
        to.number("sluice_counter_requests_total", [engine, result], counts[result]);
      if (leases !== undefined) {
        for (const result of ["granted", "refused", "asked", "own"] as const)
          to.number("sluice_counter_takes_total", [engine, result], leases[result]);
        to.number("sluice_counter_followed_keys", [engine], leases.keys);
        if (leases.lost > 0) to.number("sluice_counter_lost_debts_total", [engine], leases.lost);
      }
      if (slotEnds !== undefined) {
        for (const result of ["kept", "dropped"] as const)
          to.number("sluice_counter_slot_ends_total", [engine, result], slotEnds[result]);
      }
      metrics?.collect(to);
    },
  };
}
