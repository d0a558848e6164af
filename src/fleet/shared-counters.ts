// The counters that agents share, as a process opens them: the engine that the configuration names, its metrics, and
// one log line for each time that it goes away or comes back.

import { randomInt } from "node:crypto";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { SharedCounters } from "#flow/counters/shared-counters.ts";
import type { MetricSource } from "#telemetry/metrics/table.ts";
import { LeaseAgent, type LeaseSettings } from "./leases/lease-agent.ts";
import type { RedisCounters } from "./redis/redis-counters.ts";
import type { RedisSettings } from "./redis/settings.ts";

/** Agents are told apart by a random number below it: the most that `randomInt` draws from. */
const MOST_AGENTS = 2 ** 48 - 1;

/** `counters.*` of the configuration. */
export interface CountersSettings {
  /** `peers` is not built yet, and refused. */
  readonly engine: "local" | "peers" | "redis";
  readonly lease: LeaseSettings;
  readonly redis: RedisSettings;
}

/** Where the state of the engine is reported. */
export interface CountersStatus {
  ok(message: string): void;
  fail(message: string): void;
}

export interface SharedCountersOptions {
  /** The agents of one group share their counts. */
  readonly group: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Called only where counters are shared. */
  readonly status: () => CountersStatus;
}

export interface OpenCounters {
  readonly counters: SharedCounters;
  readonly metrics: MetricSource;
  close(): void;
}

/**
 * Opens the engine; undefined where each process counts for itself. An engine that is away does not keep the process
 * from starting. Throws a Fault when its settings are wrong, or when it is not built yet.
 */
export async function openSharedCounters(
  { engine, lease, redis }: CountersSettings,
  { group, clock, log, status }: SharedCountersOptions,
): Promise<OpenCounters | undefined> {
  if (engine === "local") return undefined;
  if (engine === "peers") {
    const wanted = "counters.engine: wanted local or redis, got peers, which is not built yet";
    throw new Fault("INVALID_ARGUMENT", wanted);
  }
  const node = status();
  const changed = (reason: string | undefined) => {
    if (reason === undefined) {
      log.info({}, "shared counters: Redis answers again");
      node.ok("Redis answers");
    } else {
      const away = `Redis is away, on_failure of each component answers: ${reason}`;
      log.error({}, `shared counters: ${away}`);
      node.fail(away);
    }
  };
  // Loaded only here: the client library takes time and memory.
  const { openRedisCounters } = await import("./redis/redis-counters.ts");
  const leases = new LeaseAgent(randomInt(MOST_AGENTS), clock, lease);
  const options = { settings: redis, group, clock, log, leases, changed };
  const counters = await openRedisCounters(options);
  if (counters.reason === undefined) {
    log.info({}, "shared counters: connected to Redis");
    node.ok("Redis answers");
  }
  return { counters, metrics: metricsOf(engine, counters, leases), close: () => counters.close() };
}

const RESULTS = ["answered", "failed", "skipped", "refused"] as const;

function metricsOf(engine: string, counters: RedisCounters, leases: LeaseAgent): MetricSource {
  return {
    collect(to) {
      const { counts, slotEnds, reason } = counters;
      to.number("sluice_counter_engine_up", [engine], reason === undefined ? 1 : 0);
      for (const state of ["away", "back"] as const)
        to.number("sluice_counter_engine_transitions_total", [engine, state], counts[state]);
      for (const result of RESULTS)
        to.number("sluice_counter_requests_total", [engine, result], counts[result]);
      for (const result of ["granted", "refused", "asked"] as const)
        to.number("sluice_counter_takes_total", [engine, result], leases.counts[result]);
      to.number("sluice_counter_followed_keys", [engine], leases.counts.keys);
      for (const result of ["kept", "dropped"] as const)
        to.number("sluice_counter_slot_ends_total", [engine, result], slotEnds[result]);
    },
  };
}
