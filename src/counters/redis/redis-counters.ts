// Counters in Redis, opened: connected, or trying to. The module that the process loads when Redis is configured.

import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import type { CounterName, SharedCounters } from "#flow/counters/shared-counters.ts";
import type { OpenedEngine, SharedCountersOptions } from "../engine.ts";
import { COUNTER_SERVICES } from "../group-engines.ts";
import { LeaseHolder } from "../leases/lease-holder.ts";
import { LeasedBuckets } from "../leases/leased-buckets.ts";
import { type RequestCounts, Requests } from "../requests.ts";
import type { CountersSettings, RedisSettings } from "../settings.ts";
import { type SlotEndCounts, SlotEnds } from "../slot-ends.ts";
import { RedisBuckets } from "./buckets.ts";
import { DEFAULT_PORT, RedisConnection } from "./connection.ts";
import { KeySpace } from "./keys.ts";
import { isMisconfigured } from "./refusals.ts";
import { askEnd, RedisSlots } from "./slots.ts";

interface RedisCountersOptions {
  readonly settings: RedisSettings;
  readonly group: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Most keys of one limiter that this agent creates. */
  readonly maxKeys: number;
  /** Called for each flow whose key would be one more. */
  readonly noRoom: () => void;
  readonly leases: LeaseHolder;
  readonly changed: (reason: string | undefined) => void;
  /** Called when Redis is away for another reason than before. */
  readonly reasonChanged?: (reason: string) => void;
}

export interface RedisCounters extends SharedCounters {
  readonly counts: Readonly<RequestCounts>;
  readonly slotEnds: Readonly<SlotEndCounts>;
  /** Reason why Redis is not asked now; undefined while it is. */
  readonly reason: string | undefined;
  close(): void;
}

/** Opens Redis as one of the engines, and logs each transition. */
export async function openRedis(
  { lease, redis: settings }: CountersSettings,
  { group, clock, log, members, context: { maxKeys, observer } }: SharedCountersOptions,
  report: (reason: string | undefined) => void,
): Promise<OpenedEngine> {
  let loggedMisconfiguration = false;
  const changed = (reason: string | undefined) => {
    loggedMisconfiguration = reason !== undefined && isMisconfigured(reason);
    if (reason === undefined) log.info({}, "shared counters: Redis answers again");
    else {
      const away = `Redis is away, on_failure of each component answers: ${reason}`;
      log.error({}, `shared counters: ${away}`);
    }
    report(reason);
  };
  // A server that is restarted with other users is first lost and then refuses: only the latter tells what to do.
  const reasonChanged = (reason: string) => {
    if (!loggedMisconfiguration && isMisconfigured(reason)) {
      loggedMisconfiguration = true;
      log.error({}, `shared counters: Redis refuses the configuration: ${reason}`);
    }
    report(reason);
  };
  const leases = LeaseHolder.random(clock, { ...lease });
  const counters = await openRedisCounters({
    settings,
    group,
    clock,
    log,
    maxKeys,
    noRoom: () => observer.anomaly("keys_overflow"),
    leases,
    changed,
    reasonChanged,
  });
  if (counters.reason === undefined) log.info({}, "shared counters: connected to Redis");
  members.register(COUNTER_SERVICES.redis, serverOf(settings));
  return {
    counters,
    counts: counters.counts,
    slotEnds: counters.slotEnds,
    leases: leases.counts,
    get reason() {
      return counters.reason;
    },
    close: () => counters.close(),
  };
}

/**
 * Returns when Redis can be asked, or when it turned out to be away: it is then probed until it comes back. Throws a
 * Fault FAILED_PRECONDITION when it refuses the settings.
 */
async function openRedisCounters(options: RedisCountersOptions): Promise<RedisCounters> {
  const { settings, group, clock, log, maxKeys, noRoom, leases, changed, reasonChanged } = options;
  const connection = new RedisConnection({
    settings,
    clock,
    log,
    lost: (reason) => requests.trip(reason),
  });
  const requests = new Requests(connection, {
    clock,
    timeoutMs: settings.timeout,
    probeMs: settings.probe_interval,
    most: settings.max_pending,
    changed(reason) {
      changed(reason);
      if (reason === undefined) ends.resume();
    },
    reasonChanged,
  });
  const { max_pending: most, namespace } = settings;
  const ends = new SlotEnds(askEnd(requests), { clock, most });
  try {
    const reason = await connection.connect();
    if (reason !== undefined) requests.trip(reason);
  } catch (thrown) {
    requests.close();
    throw thrown;
  }
  const keysOf = (name: CounterName) =>
    new KeySpace(namespace, group, name, { maxKeys, chance: Math.random });
  return {
    counts: requests.counts,
    slotEnds: ends.counts,
    get reason() {
      return requests.reason;
    },
    buckets(name) {
      return new LeasedBuckets(leases, new RedisBuckets(requests, clock, keysOf(name), noRoom));
    },
    fixedLimits: "redis",
    slots: (name) => new RedisSlots(requests, clock, ends, keysOf(name), noRoom),
    close: () => requests.close(),
  };
}

/** `host:port` of the first server, without the other parts of the URL. */
function serverOf({ url, sentinel }: RedisSettings): string {
  const { hostname, port } = new URL(url);
  return sentinel.addresses[0] ?? `${hostname}:${port || DEFAULT_PORT}`;
}
