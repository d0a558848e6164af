// The interface between the process and an engine of shared counters: the options of an engine, and the object that it
// returns.

import type { Clock } from "#base/clock.ts";
import type { GrpcService, Route } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import type { PreSharedKey } from "#base/net/pre-shared-key.ts";
import type { OwnGroup } from "#fleet/members.ts";
import type { BucketStoreContext } from "#flow/counters/bucket-store.ts";
import type { SharedCounters } from "#flow/counters/shared-counters.ts";
import type { Store } from "#store/store.ts";
import type { MetricSource } from "#telemetry/metrics/table.ts";
import type { EngineName } from "./group-engines.ts";
import type { LeaseCounts } from "./leases/lease-holder.ts";
import type { RequestCounts } from "./requests.ts";
import type { DistCacheSettings } from "./settings.ts";
import type { SlotEndCounts } from "./slot-ends.ts";

/** The node of the status tree that shows the state of the engine. */
interface CountersStatus {
  ok(message: string): void;
  fail(message: string): void;
}

interface PeerPort {
  /** The bound `host:port`. */
  readonly address: string;
  close(): Promise<void>;
}

/** Opens `dist_cache.bind_addr` for other agents: with certificates, or else for agents that know the key. */
type ListenToPeers = (
  service: GrpcService,
  sharedKey: (() => PreSharedKey | undefined) | undefined,
) => Promise<PeerPort>;

/** The parts of the process that engines use. */
export interface SharedCountersOptions {
  /** The engine of this process where none is configured. */
  readonly byDefault: EngineName;
  /** The agents of one group share their counts. */
  readonly group: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Called only where counters are shared. */
  readonly status: () => CountersStatus;
  readonly distCache: DistCacheSettings;
  /** Host by which other agents reach this machine; empty: its address. */
  readonly advertisedHost: string;
  /** True if the configuration sets this key explicitly. */
  readonly isChosen: (path: string) => boolean;
  /** Id of this process. */
  readonly id: string;
  readonly members: OwnGroup;
  readonly store: Store;
  readonly listen: ListenToPeers;
  readonly context: BucketStoreContext;
}

/** One engine, opened. */
export interface OpenedEngine {
  readonly counters: SharedCounters;
  readonly counts: Readonly<RequestCounts>;
  /** Reason why the engine cannot be asked now; undefined while it can. */
  readonly reason: string | undefined;
  readonly slotEnds?: Readonly<SlotEndCounts>;
  readonly leases?: Readonly<LeaseCounts>;
  readonly metrics?: MetricSource;
  readonly routes?: readonly Route[];
  leave?(): Promise<void>;
  close(): void | Promise<void>;
}
