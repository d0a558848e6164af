// Counters that the agents of a group keep for each other, opened: the secret of the group, the port for other agents,
// probes, and this agent as a member. The module that the process loads when this engine is configured.

import { randomBytes } from "node:crypto";
import { networkInterfaces } from "node:os";
import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { GrpcService } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import { reachableAddress, splitHostPort } from "#base/net/host-port.ts";
import type { PreSharedKey } from "#base/net/pre-shared-key.ts";
import type { OwnGroup } from "#fleet/members.ts";
import type { BucketStoreContext } from "#flow/counters/bucket-store.ts";
import type { SharedCounters } from "#flow/counters/shared-counters.ts";
import type { Store } from "#store/store.ts";
import type { LeaseHolder } from "../leases/lease-holder.ts";
import type { RequestCounts } from "../requests.ts";
import type { DistCacheSettings, PeersSettings } from "../settings.ts";
import { PeerBuckets } from "./buckets.ts";
import { callerOf, countersService, isMutualTls } from "./exchange/transport.ts";
import { Lingering } from "./membership/lingering.ts";
import { Probes } from "./membership/probes.ts";
import { COUNTERS, PROBES, RingRecords } from "./membership/ring-records.ts";
import { followSecret, type GroupSecret } from "./membership/secret.ts";
import { OwnedLimiters } from "./owned-limiters.ts";
import { type GroupCounts, PeerGroup } from "./peer-group.ts";
import { PeerSlots } from "./slots.ts";

/** Longest time for which a start waits for the secret and the members, without which no check is decided, ms. */
const READY_MS = 2_000;

export interface PeerPort {
  /** The bound `host:port`. */
  readonly address: string;
  close(): Promise<void>;
}

/** Opens `dist_cache.bind_addr` for other agents, with certificates or else for those who know the key. */
export type ListenToPeers = (
  service: GrpcService,
  sharedKey: (() => PreSharedKey | undefined) | undefined,
) => Promise<PeerPort>;

interface PeerCountersOptions {
  readonly settings: PeersSettings;
  readonly leases: LeaseHolder;
  readonly distCache: DistCacheSettings;
  /** Host by which other agents reach this machine; empty: its address. */
  readonly advertisedHost: string;
  /** True if a person set the key. A chosen port must be free; a default one may be replaced. */
  readonly isChosen: (path: string) => boolean;
  readonly group: string;
  /** Id of this process. */
  readonly id: string;
  readonly members: OwnGroup;
  readonly store: Store;
  readonly listen: ListenToPeers;
  readonly context: BucketStoreContext;
  readonly clock: Clock;
  readonly log: Log;
  readonly changed: (away: string | undefined) => void;
}

export interface PeerCounters extends SharedCounters {
  readonly counts: RequestCounts;
  /** Reason why agents cannot be asked; undefined while all can. */
  readonly reason: string | undefined;
  readonly group: PeerGroup;
  readonly moved: GroupCounts & { readonly copiesLost: number; readonly probesRefused: number };
  /** Hands over to the other agents what was counted for them. */
  leave(): Promise<void>;
  close(): Promise<void>;
}

export async function openPeerCounters(options: PeerCountersOptions): Promise<PeerCounters> {
  const { settings, distCache, id, members, store, listen, context, clock, log } = options;
  const { tls } = distCache;
  let secret: GroupSecret | undefined;
  let noSecret = "the secret of the group is not known yet";
  const first = Promise.withResolvers<void>();
  const sharedKey = () => secret?.connections;
  const owned = new OwnedLimiters(context, randomSeed());
  const group = new PeerGroup({
    id,
    owned,
    clock,
    log,
    changed: options.changed,
    timeoutMs: settings.timeout,
    probeMs: settings.probe_interval,
    most: settings.max_pending,
    replicas: distCache.replica_count,
    synchronous: distCache.sync_replication,
    connect: ({ address }) => callerOf(address, { tls, sharedKey, clock }),
  });
  group.ready = false;
  const probes = new Probes({
    id,
    clock,
    key: () => secret?.probes,
    heard: (member) => group.members.include(member),
    silent: (member) => group.links.link(member)?.requests.trip("no answer to probes"),
    gone: (member) => group.members.exclude(member, "gone"),
  });
  const records = new RingRecords(log);
  const follow = () => {
    const ring = lingering.withLingering(records.membersOf(members.list));
    group.members.set(ring);
    probes.set(ring);
  };
  const lingering = new Lingering({
    clock,
    hasEnded: (member) => group.members.hasEnded(member),
    answers: (member) => member === id || probes.answers(member),
    changed: follow,
  });
  const port = await listen(countersService(group), isMutualTls(tls) ? undefined : sharedKey);
  const probePort = await listenForProbes(probes, options).catch(async (thrown: unknown) => {
    await port.close();
    throw thrown;
  });
  const stop = new AbortController();
  let ignore: () => void = () => undefined;
  let late = false;
  const following = followSecret(
    {
      store,
      group: options.group,
      clock,
      log,
      known(found) {
        // Connections and counts under another secret are over.
        lingering.clear();
        group.members.set([]);
        probes.set([]);
        if (secret === undefined) {
          ignore = members.onChange(follow);
          members.register(COUNTERS, reachable(port.address, distCache.bind_addr, options));
          members.register(PROBES, probeAddress(probePort, options));
        }
        secret = found;
        owned.reseed(found.seed);
        follow();
        first.resolve();
      },
      unusable(why) {
        noSecret = why;
        if (secret === undefined && late) options.changed(why);
      },
    },
    stop.signal,
  );
  const missing = () =>
    secret === undefined ? noSecret : "the members of the group are not known yet";
  const ready = Promise.all([first.promise, members.known]).then(() => {
    if (stop.signal.aborted) return;
    group.ready = true;
    if (!late) return;
    log.info({}, "the secret of the group is known now, agents share their counts");
    options.changed(group.links.away);
  });
  await within(READY_MS, clock, ready, () => {
    late = true;
    log.warn({}, `${missing()}: until then on_failure of each component answers`);
  });
  return {
    group,
    get counts() {
      return group.links.requests;
    },
    get reason() {
      return group.ready ? group.links.away : missing();
    },
    get moved() {
      const { copiesLost } = group.links;
      return { ...group.counts, copiesLost, probesRefused: probes.refused };
    },
    buckets: (name) => new PeerBuckets(group, options.leases, name),
    slots: (name) => new PeerSlots(group, name),
    leave: () => group.leave(),
    async close() {
      stop.abort();
      ignore();
      lingering.clear();
      probes.close();
      group.close();
      owned.close();
      await port.close();
      await following;
    },
  };
}

function randomSeed(): readonly [number, number] {
  const bytes = randomBytes(8);
  return [bytes.readUInt32LE(0), bytes.readUInt32LE(4)];
}

/** Returns the bound port. */
async function listenForProbes(
  probes: Probes,
  { distCache, isChosen, log }: PeerCountersOptions,
): Promise<number> {
  const key = "dist_cache.memberlist_bind_addr";
  const { host, port } = splitHostPort(distCache.memberlist_bind_addr);
  try {
    return await probes.listen(host, Number(port));
  } catch (thrown) {
    const why = `cannot listen on ${key}: ${Fault.from(thrown).message}`;
    if (isChosen(key) || Number(port) === 0) throw new Fault("UNAVAILABLE", why);
    log.warn({}, `using another port: ${why}`);
    return probes.listen(host, 0);
  }
}

function probeAddress(port: number, options: PeerCountersOptions): string {
  const { memberlist_advertise_addr: chosen, memberlist_bind_addr: bind } = options.distCache;
  return chosen === "" ? reachable(`:${port}`, bind, options) : chosen;
}

/**
 * The address by which others reach a bound listener. Where it is bound to every interface, the host is that of this
 * machine.
 */
function reachable(
  bound: string,
  bind: string,
  { advertisedHost }: Pick<PeerCountersOptions, "advertisedHost">,
): string {
  const { port } = splitHostPort(bound);
  const { host } = splitHostPort(bind);
  return reachableAddress(host, port, () => advertisedHost || ownAddress());
}

/** The first IPv4 address of this machine that is not loopback. */
function ownAddress(): string {
  const found = Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .find(({ family, internal }) => family === "IPv4" && !internal);
  return found?.address ?? "127.0.0.1";
}
