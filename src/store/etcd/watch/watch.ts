// Follows the keys under some prefixes. Changes arrive over a stream of watches, which continues from its revision after it
// broke. Where etcd no longer has the changes since then, the present state is listed and compared with the delivered one.
// So a reader gets the keys that changed and nothing else. A store that lost data, or went back to an older state, is told
// apart from one in which keys were deleted.

import { setImmediate } from "node:timers";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { Entry, StoreUpdate } from "../../store.ts";
import { Undelivered } from "../../undelivered.ts";
import type { EtcdClient, WatchResponse, WatchStream } from "../client.ts";
import { isCompacted, isFutureRevision, isTransient } from "../faults.ts";
import type { Keys } from "../keys.ts";
import { list } from "../list.ts";

/** Counts of a store's watches, for metrics and tests. */
export interface WatchCounts {
  /** Streams that were opened, the first one included. */
  opened: number;
  /** States that were listed, the first one included. */
  listed: number;
}

interface WatchOptions {
  readonly client: EtcdClient;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly log: Log;
  readonly counts: WatchCounts;
  /** Called when the keys cannot be followed although a server answers, and with undefined when they can again. */
  readonly refused: (fault: Fault | undefined) => void;
}

/** Reason why the present state has to be listed before changes can be followed. */
type ListReason =
  /** The reader knows no key. */
  | "nothing known"
  /** etcd has compacted away the changes since the state that the reader knows. */
  | "compacted"
  /** The present state does not follow from the one that the reader knows. */
  | "reset";

/** Milliseconds that a change waits for others of its commit: those under other prefixes come in messages of their own. */
const GATHER_MS = 5;
/** Milliseconds that a server may take to begin a watch. */
const OPEN_MS = 5_000;

export class EtcdWatch {
  readonly #options: WatchOptions;
  readonly #prefixes: readonly string[];
  readonly #undelivered = new Undelivered();
  /** Cluster of the state that was listed last. */
  #clusterId: bigint | undefined;
  /** Undefined when changes can be followed. */
  #listBecause: ListReason | undefined = "nothing known";
  /** Revision up to which everything is delivered or undelivered, by prefix. */
  readonly #known: Map<string, number>;
  #ended: Fault | undefined;
  #gathering: (() => void) | undefined;
  #stream: WatchStream | undefined;
  #over = false;
  #wake: () => void = () => undefined;

  constructor(prefixes: readonly string[], options: WatchOptions) {
    this.#prefixes = prefixes;
    this.#options = options;
    this.#known = new Map(prefixes.map((prefix) => [prefix, 0]));
  }

  /** Follows until `close`. A login or a right that is refused before the first state ends the watch with a fault. */
  async run(): Promise<void> {
    try {
      for (let failures = 0; !this.#over; ) {
        try {
          // The first stream and one after a list go on from what was just listed.
          if (this.#listBecause === undefined) this.#listBecause = await this.#continuity();
          while (this.#listBecause !== undefined)
            this.#listBecause = await this.#list(this.#listBecause);
          const ended = await this.#follow(() => {
            failures = 0;
          });
          if (ended !== "broken") this.#listBecause = ended;
        } catch (thrown) {
          if (this.#over) return;
          const fault = Fault.from(thrown);
          // A list that was overtaken by a compaction begins again.
          const refused = !isTransient(fault) && fault.code !== "OUT_OF_RANGE";
          if (refused && this.#undelivered.revision === 0) throw fault;
          if (refused) this.#options.refused(fault);
        }
        failures += 1;
        if (!this.#over) await this.#options.client.pause(failures);
      }
    } catch (thrown) {
      if (!this.#over) this.#ended = Fault.from(thrown);
      this.#wake();
    }
  }

  close(): void {
    this.#over = true;
    this.#gathering?.();
    this.#stream?.cancel();
    this.#wake();
  }

  /** The next difference; undefined when the watch was closed. Throws the fault that ended it. */
  async next(): Promise<StoreUpdate | undefined> {
    for (;;) {
      if (this.#over) return undefined;
      if (this.#ended !== undefined) throw this.#ended;
      const batch = this.#gathering === undefined ? this.#undelivered.take() : undefined;
      if (batch !== undefined) return batch;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /**
   * Lists the present state and notes how it differs from what was delivered. Returns `reset` when it must be listed again
   * as a state that does not follow from the one before.
   */
  async #list(why: ListReason): Promise<"reset" | undefined> {
    const { client, keys, counts } = this.#options;
    counts.listed += 1;
    const gone = this.#undelivered.keys();
    const entries: Entry[] = [];
    let revision = 0;
    let clusterId = 0n;
    // All prefixes show one state.
    for (const prefix of this.#prefixes) {
      const found = (entry: Entry) => {
        gone.delete(entry.key);
        // A reader that has this revision of the key needs no copy of it.
        if (why === "reset" || this.#undelivered.differs(entry)) entries.push(entry);
      };
      const state = await list(client, keys, prefix, found, { revision });
      ({ revision, clusterId } = state);
    }
    if (this.#over) return undefined;
    const before = this.#clusterId;
    this.#clusterId = clusterId;
    const wentBack = (before !== undefined && before !== clusterId) || revision < this.#newestKnown;
    if (wentBack && why !== "reset") return "reset";
    if (why === "reset") this.#undelivered.reset();
    for (const entry of entries) this.#undelivered.put(entry);
    for (const key of gone) this.#undelivered.delete(key);
    this.#undelivered.reached(revision, "listed");
    for (const prefix of this.#prefixes) this.#known.set(prefix, revision);
    this.#wake();
    return undefined;
  }

  get #newestKnown(): number {
    return Math.max(0, ...this.#known.values());
  }

  /**
   * True if the store still has the state that the reader knows, so that its changes since then say everything. A store
   * that lost its data may have the same identity, and after some writes the same revision, but not the same keys at it.
   */
  async #continuity(): Promise<ListReason | undefined> {
    const { client, keys } = this.#options;
    const newest = this.#undelivered.newest();
    // If no key is known, listing the state is as cheap as this check.
    if (newest === undefined) return "nothing known";
    const itsPrefixes = this.#prefixes.filter((prefix) => newest.key.startsWith(prefix));
    const revision = Math.max(...itsPrefixes.map((prefix) => this.#known.get(prefix) ?? 0));
    const request = { key: keys.bytes(newest.key), revision, keysOnly: true };
    try {
      const { kvs, header } = await client.call("range", request, { repeatable: true });
      if (header?.clusterId !== this.#clusterId) return "reset";
      return Number(kvs[0]?.modRevision ?? 0) === newest.revision ? undefined : "reset";
    } catch (thrown) {
      const fault = Fault.from(thrown);
      if (isFutureRevision(fault)) return "reset";
      if (isCompacted(fault)) return "compacted";
      throw thrown;
    }
  }

  /** Resolves when the stream ended, with the reason when it cannot be continued. Rejects with what is refused. */
  async #follow(working: () => void): Promise<"broken" | ListReason> {
    const { client, keys, clock, counts, refused } = this.#options;
    const result = Promise.withResolvers<"broken" | ListReason>();
    const parts = new Map<bigint, WatchResponse["events"][number][]>();
    const received = (response: WatchResponse) => {
      const { watchId, created, canceled, compactRevision, header, fragment, events } = response;
      const prefix = this.#prefixes[Number(watchId) - 1];
      if (compactRevision > 0n) return result.resolve("compacted");
      if (canceled) return result.reject(refusal(response));
      if (prefix === undefined || header === null) return;
      if (header.clusterId !== this.#clusterId) return result.resolve("reset");
      disarm();
      if (created) {
        // Either this member lags behind, or the cluster lost data: the next round finds out which.
        if (header.revision < (this.#known.get(prefix) ?? 0)) result.resolve("broken");
        else if (Number(watchId) === this.#prefixes.length) refused(undefined);
        return;
      }
      working();
      refused(undefined);
      const all = parts.get(watchId) ?? [];
      all.push(...events);
      if (fragment) {
        parts.set(watchId, all);
        return;
      }
      parts.delete(watchId);
      this.#apply(prefix, all, Number(header.revision));
    };
    const stream = await client.watch(received, (fault) => {
      if (isTransient(fault)) result.resolve("broken");
      else result.reject(fault);
    });
    const late = new Fault("UNAVAILABLE", "no answer in time");
    const disarm = clock.alarm(OPEN_MS, () => {
      client.moveOn(late);
      result.resolve("broken");
    });
    counts.opened += 1;
    this.#stream = stream;
    if (this.#over) stream.cancel();
    for (const [at, prefix] of this.#prefixes.entries()) {
      stream.send({
        createRequest: {
          ...keys.range(prefix),
          startRevision: (this.#known.get(prefix) ?? 0) + 1,
          progressNotify: true,
          watchId: at + 1,
          fragment: true,
        },
      });
    }
    try {
      return await result.promise;
    } catch (thrown) {
      // A refused watch says little about the reason; a refused list names it.
      if (Fault.from(thrown).code !== "UNAVAILABLE") client.forgetToken();
      for (const prefix of this.#prefixes) {
        const request = { ...keys.range(prefix), limit: 1, keysOnly: true };
        await client.call("range", request, { repeatable: true });
      }
      return "broken";
    } finally {
      disarm();
      stream.cancel();
    }
  }

  #apply(prefix: string, events: WatchResponse["events"], revision: number): void {
    const { keys, clock } = this.#options;
    if (revision <= (this.#known.get(prefix) ?? 0)) return;
    this.#known.set(prefix, revision);
    for (const { type, kv } of events) {
      if (kv === null) continue;
      if (type === 1) this.#undelivered.delete(keys.text(kv.key));
      else this.#undelivered.put(keys.entry(kv));
    }
    if (events.length === 0) return;
    this.#undelivered.reached(revision, "changed");
    if (this.#gathering !== undefined) return;
    const disarm = clock.alarm(GATHER_MS, () => {
      // Data that the socket has received by now is read before this runs.
      setImmediate(() => {
        this.#gathering = undefined;
        this.#wake();
      });
    });
    this.#gathering = disarm;
  }
}

function refusal({ cancelReason }: WatchResponse): Fault {
  const reason = cancelReason === "" ? "the watch was refused" : cancelReason;
  const code = /permission denied/.test(reason) ? "PERMISSION_DENIED" : "UNKNOWN";
  return new Fault(/no leader/.test(reason) ? "UNAVAILABLE" : code, reason);
}
