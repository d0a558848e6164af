// The engine of counters in Redis, opened: connected, or trying to connect. Loaded only where it is configured.

import type { CounterName } from "#flow/counters/shared-counters.ts";
import type { OpenedEngine, SharedCountersOptions } from "../engine.ts";
import { COUNTER_SERVICES } from "../group-engines.ts";
import { LeaseHolder } from "../leases/lease-holder.ts";
import { LeasedBuckets } from "../leases/leased-buckets.ts";
import { Requests } from "../requests.ts";
import type { CountersSettings, RedisSettings } from "../settings.ts";
import { SlotEnds } from "../slot-ends.ts";
import { RedisBuckets } from "./buckets.ts";
import {
  DEFAULT_PORT,
  RedisConnection,
  type RedisLimiter,
  type ScriptRequests,
} from "./connection.ts";
import { KeySpace } from "./keys.ts";
import { isMisconfigured } from "./refusals.ts";
import { askEnd, RedisSlots } from "./slots.ts";

/**
 * Opens Redis as one of the engines, and logs each transition. Returns when Redis can be asked, or when it turned out to be
 * away: it is then probed until it comes back. Throws a Fault FAILED_PRECONDITION when it refuses the settings.
 */
export async function openRedis(
  { lease, redis: settings }: CountersSettings,
  options: SharedCountersOptions,
  report: (reason: string | undefined) => void,
): Promise<OpenedEngine> {
  const { group, clock, log, members, context } = options;
  const { maxKeys, observer } = context;
  const { namespace } = settings;
  let loggedMisconfiguration = false;
  const connection = new RedisConnection({
    settings,
    clock,
    log,
    lost: (reason) => requests.trip(reason),
  });
  const requests: ScriptRequests = new Requests(connection, {
    clock,
    timeoutMs: settings.timeout,
    probeMs: settings.probe_interval,
    most: settings.max_pending,
    changed(reason) {
      loggedMisconfiguration = reason !== undefined && isMisconfigured(reason);
      if (reason === undefined) log.info({}, "shared counters: Redis answers again");
      else {
        const away = `Redis is away, on_failure of each component answers: ${reason}`;
        log.error({}, `shared counters: ${away}`);
      }
      report(reason);
      if (reason === undefined) ends.resume();
    },
    // A server that is restarted with other users is first lost and then refuses: only the refusal tells what to do.
    reasonChanged(reason) {
      if (!loggedMisconfiguration && isMisconfigured(reason)) {
        loggedMisconfiguration = true;
        log.error({}, `shared counters: Redis refuses the configuration: ${reason}`);
      }
      report(reason);
    },
  });
  const ends = new SlotEnds(askEnd(requests), { clock, most: settings.max_pending });
  try {
    const reason = await connection.connect();
    if (reason !== undefined) requests.trip(reason);
  } catch (thrown) {
    requests.close();
    throw thrown;
  }
  if (requests.reason === undefined) log.info({}, "shared counters: connected to Redis");
  members.register(COUNTER_SERVICES.redis, serverOf(settings));
  const holder = LeaseHolder.random(clock, { ...lease });
  const noRoom = () => observer.anomaly("keys_overflow");
  const limiterOf = (name: CounterName): RedisLimiter => {
    const bounds = { maxKeys, chance: Math.random };
    const keys = new KeySpace(namespace, group, name, bounds);
    return { requests, clock, keys, noRoom };
  };
  return {
    counters: {
      buckets: (name) => new LeasedBuckets(holder, new RedisBuckets(limiterOf(name))),
      fixedLimits: "redis",
      slots: (name) => new RedisSlots(limiterOf(name), ends),
    },
    counts: requests.counts,
    slotEnds: ends.counts,
    leases: holder.counts,
    get reason() {
      return requests.reason;
    },
    close: () => requests.close(),
  };
}

/** `host:port` of the first server, without the other parts of the URL. */
function serverOf({ url, sentinel }: RedisSettings): string {
  const { hostname, port } = new URL(url);
  return sentinel.addresses[0] ?? `${hostname}:${port || DEFAULT_PORT}`;
}
