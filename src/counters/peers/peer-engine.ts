// The engine `peers`, in which the agents of a group count for each other. It opens the port for other agents and the probes,
// follows the secret and the members of the group, and has metrics and a status route. Loaded only if it is configured.

import { randomBytes } from "node:crypto";
import { networkInterfaces } from "node:os";
import { within } from "#base/async/wait.ts";
import { Fault } from "#base/fault.ts";
import type { Route } from "#base/handler.ts";
import { reachableAddress, splitHostPort } from "#base/net/host-port.ts";
import type { SharedCounters } from "#flow/counters/shared-counters.ts";
import type { MetricSource } from "#telemetry/metrics/table.ts";
import type { OpenedEngine, SharedCountersOptions } from "../engine.ts";
import { type LeaseCounts, LeaseHolder } from "../leases/lease-holder.ts";
import type { RequestCounts } from "../requests.ts";
import type { CountersSettings } from "../settings.ts";
import type { SlotEndCounts } from "../slot-ends.ts";
import { PeerBuckets } from "./buckets.ts";
import { callerOf, countersService, isMutualTls } from "./exchange/transport.ts";
import { Lingering } from "./membership/lingering.ts";
import { Probes } from "./membership/probes.ts";
import { COUNTERS, PROBES, RingRecords } from "./membership/ring-records.ts";
import { followSecret, type GroupSecret } from "./membership/secret.ts";
import { OwnedLimiters } from "./owned-limiters.ts";
import { PeerGroup } from "./peer-group.ts";
import { PeerSlots } from "./slots.ts";

/** Longest time that the start waits for the secret and the members, ms. Until they are known, no check is decided. */
const READY_MS = 2_000;

export async function openPeers(
  settings: CountersSettings,
  options: SharedCountersOptions,
  changed: (reason: string | undefined) => void,
): Promise<OpenedEngine> {
  const engine = new PeerEngine(settings, options, changed);
  await engine.open();
  return engine;
}

export class PeerEngine implements OpenedEngine {
  readonly counters: SharedCounters;
  readonly group: PeerGroup;
  readonly leases: LeaseCounts;
  readonly slotEnds: SlotEndCounts;
  readonly metrics: MetricSource = { collect: (to) => this.#collect(to) };
  readonly routes: readonly Route[] = [statsRoute(this)];
  readonly #options: SharedCountersOptions;
  readonly #changed: (reason: string | undefined) => void;
  readonly #owned: OwnedLimiters;
  readonly #probes: Probes;
  readonly #lingering: Lingering;
  readonly #records: RingRecords;
  readonly #stop = new AbortController();
  readonly #secretKnown = Promise.withResolvers<void>();
  #secret: GroupSecret | undefined;
  #whyNoSecret = "the secret of the group is not known yet";
  /** The start went on without the secret or the members. */
  #isLate = false;
  #closePort: () => Promise<void> = async () => undefined;
  #ignoreMembers: () => void = () => undefined;
  #following: Promise<void> | undefined;

  constructor(
    { lease, peers: settings }: CountersSettings,
    options: SharedCountersOptions,
    changed: (reason: string | undefined) => void,
  ) {
    const { id, clock, log, distCache, context } = options;
    const { tls } = distCache;
    this.#options = options;
    this.#changed = changed;
    this.#owned = new OwnedLimiters(context, randomSeed());
    const group = new PeerGroup({
      id,
      owned: this.#owned,
      clock,
      log,
      changed,
      timeoutMs: settings.timeout,
      probeMs: settings.probe_interval,
      most: settings.max_pending,
      replicas: distCache.replica_count,
      synchronous: distCache.sync_replication,
      connect: ({ address }) => callerOf(address, { tls, sharedKey: this.#sharedKey, clock }),
    });
    group.ready = false;
    this.group = group;
    this.slotEnds = group.slots.ends.counts;
    const holder = LeaseHolder.random(clock, { ...lease });
    this.leases = holder.counts;
    this.counters = {
      buckets: (name) => new PeerBuckets(group, holder, name),
      slots: (name) => new PeerSlots(group, name),
    };
    const probes = new Probes({
      id,
      clock,
      key: () => this.#secret?.probes,
      heard: (member) => group.members.include(member),
      silent: (member) => group.links.link(member)?.requests.trip("no answer to probes"),
      gone: (member) => group.members.exclude(member, "gone"),
    });
    this.#probes = probes;
    this.#records = new RingRecords(log);
    this.#lingering = new Lingering({
      clock,
      hasEnded: (member) => group.members.hasEnded(member),
      answers: (member) => member === id || probes.answers(member),
      changed: () => this.#follow(),
    });
  }

  /** Resolves when checks can be decided, or after a time limit. */
  async open(): Promise<void> {
    const { group, clock, log, store, members, listen, distCache } = this.#options;
    const certificates = isMutualTls(distCache.tls);
    const port = await listen(
      countersService(this.group),
      certificates ? undefined : this.#sharedKey,
    );
    this.#closePort = () => port.close();
    const probePort = await listenForProbes(this.#probes, this.#options).catch(
      async (thrown: unknown) => {
        await port.close();
        throw thrown;
      },
    );
    const known = (secret: GroupSecret) => this.#adoptSecret(secret, port.address, probePort);
    const unusable = (why: string) => {
      this.#whyNoSecret = why;
      if (this.#secret === undefined && this.#isLate) this.#changed(why);
    };
    const { signal } = this.#stop;
    this.#following = followSecret({ store, group, clock, log, known, unusable }, signal);
    const ready = Promise.all([this.#secretKnown.promise, members.known]).then(() => {
      if (signal.aborted) return;
      this.group.ready = true;
      if (!this.#isLate) return;
      log.info({}, "the secret of the group is known now, agents share their counts");
      this.#changed(this.group.links.away);
    });
    await within(READY_MS, clock, ready, () => {
      this.#isLate = true;
      log.warn({}, `${this.#missing()}: until then on_failure of each component answers`);
    });
  }

  get counts(): RequestCounts {
    return this.group.links.requests;
  }

  get reason(): string | undefined {
    return this.group.ready ? this.group.links.away : this.#missing();
  }

  /** Numbers since the start about hand-overs, copies and probes. */
  get moved() {
    const { counts, links } = this.group;
    return { ...counts, copiesLost: links.copiesLost, probesRefused: this.#probes.refused };
  }

  leave(): Promise<void> {
    return this.group.leave();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#ignoreMembers();
    this.#lingering.clear();
    this.#probes.close();
    this.group.close();
    this.#owned.close();
    await this.#closePort();
    await this.#following;
  }

  readonly #sharedKey = () => this.#secret?.connections;

  /** The reason why checks cannot be decided yet. */
  #missing(): string {
    return this.#secret === undefined
      ? this.#whyNoSecret
      : "the members of the group are not known yet";
  }

  /** Closes connections and forgets counts under any earlier secret. */
  #adoptSecret(secret: GroupSecret, address: string, probePort: number): void {
    const { members, distCache } = this.#options;
    this.#lingering.clear();
    this.group.members.set([]);
    this.#probes.set([]);
    if (this.#secret === undefined) {
      this.#ignoreMembers = members.onChange(() => this.#follow());
      members.register(COUNTERS, reachable(address, distCache.bind_addr, this.#options));
      members.register(PROBES, probeAddress(probePort, this.#options));
    }
    this.#secret = secret;
    this.#owned.reseed(secret.seed);
    this.#follow();
    this.#secretKnown.resolve();
  }

  #follow(): void {
    const stored = this.#records.membersOf(this.#options.members.list);
    const ring = this.#lingering.withLingering(stored);
    this.group.members.set(ring);
    this.#probes.set(ring);
  }

  #collect(to: Parameters<MetricSource["collect"]>[0]): void {
    const { received, handedOver, unheard, copiesLost, probesRefused } = this.moved;
    to.number("sluice_counter_members", [], this.group.ring.members.length);
    to.number("sluice_counter_buckets_moved_total", ["received"], received);
    to.number("sluice_counter_buckets_moved_total", ["handed_over"], handedOver);
    to.number("sluice_counter_hand_overs_missed_total", [], unheard);
    to.number("sluice_counter_copies_lost_total", [], copiesLost);
    to.number("sluice_counter_probes_refused_total", [], probesRefused);
  }
}

/** `GET /v1/distcache/stats`. */
export function statsRoute(
  engine: Pick<PeerEngine, "group" | "counts" | "reason" | "moved">,
): Route {
  return {
    method: "GET",
    path: "/v1/distcache/stats",
    about: "The agents that count for each other, and what this one counts.",
    access: "administration",
    handle: () => {
      const { group, counts, reason, moved } = engine;
      const stats = {
        members: group.ring.members.map(({ name, address }) => ({ name, address })),
        excluded: group.members.excluded,
        joining: group.joining,
        away: reason ?? null,
        limiters: group.owned.count,
        keys: [...group.owned.all].reduce((sum, { buckets }) => sum + buckets.keys, 0),
        leased: [...group.owned.all].reduce((sum, { buckets }) => sum + buckets.leased, 0),
        slots: group.owned.slots.count,
        requests: counts,
        moved,
      };
      const headers = { "content-type": "application/json" };
      return { status: 200, headers, body: JSON.stringify(stats) };
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
  { distCache, isChosen, log }: SharedCountersOptions,
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

function probeAddress(port: number, options: SharedCountersOptions): string {
  const { memberlist_advertise_addr: chosen, memberlist_bind_addr: bind } = options.distCache;
  return chosen === "" ? reachable(`:${port}`, bind, options) : chosen;
}

/**
 * The address by which others reach a bound listener. If it is bound to every interface, the host is that of this
 * machine.
 */
function reachable(bound: string, bind: string, { advertisedHost }: SharedCountersOptions): string {
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
