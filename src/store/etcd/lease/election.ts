// Elections as etcd's own concurrency library holds them, so that its candidates and these never lead at the same time:
// each candidate writes a key of its own under `<name>/`, and the one whose key was created first leads.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Leadership } from "../../store.ts";
import type { EtcdClient } from "../client.ts";
import type { Keys } from "../keys.ts";
import { EtcdLease } from "./lease.ts";

interface ElectionOptions {
  readonly client: EtcdClient;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly ttlMs: number;
  readonly name: string;
  /** The value of the key. */
  readonly candidate: string;
  readonly signal: AbortSignal;
  /** The state under a prefix, then each change, until the signal aborts. */
  readonly changes: (prefix: string, signal: AbortSignal) => AsyncIterable<unknown>;
}

/** Resolves when this candidate leads. Rejects when the signal aborts. Keeps trying while etcd is away. */
export async function lead(options: ElectionOptions): Promise<Leadership> {
  for (let round = 1; ; round++) {
    options.signal.throwIfAborted();
    try {
      const leadership = await candidacy(options);
      if (leadership !== undefined) return leadership;
    } catch (thrown) {
      const { code } = Fault.from(thrown);
      if (code !== "UNAVAILABLE") throw thrown;
    }
    await options.client.pause(round);
  }
}

/** One lease's candidacy; undefined when the lease was lost while waiting. */
async function candidacy(options: ElectionOptions): Promise<Leadership | undefined> {
  const { client, keys, clock, ttlMs, name, candidate, signal, changes } = options;
  const lost = new AbortController();
  const ended = () => lost.abort(new Fault("UNAVAILABLE", "the lease of the leadership was lost"));
  const lease = await EtcdLease.grant(client, clock, ttlMs, ended);
  const key = `${name}/${lease.id.toString(16)}`;
  let handedOver = false;
  try {
    const revision = await enter(client, keys.bytes(key), candidate, lease.id);
    const waiting = AbortSignal.any([signal, lost.signal]);
    let leads = false;
    for await (const _ of changes(`${name}/`, waiting)) {
      leads = await isFirst(client, keys, `${name}/`, revision);
      if (leads) break;
    }
    signal.throwIfAborted();
    if (!leads || lost.signal.aborted) return undefined;
    const disarm = expireLocally(lease, clock, ended);
    const resign = async () => {
      disarm();
      ended();
      await lease.revoke();
    };
    handedOver = true;
    return { lost: lost.signal, guard: { key, revision }, resign };
  } finally {
    // A key without an owner would keep all others from leading until its lease expires, and that would be renewed.
    if (!handedOver) await lease.revoke().catch(() => undefined);
  }
}

/** Writes the key of a candidate and resolves with the revision that created it. */
async function enter(
  client: EtcdClient,
  key: Uint8Array,
  candidate: string,
  lease: bigint,
): Promise<number> {
  const value = new TextEncoder().encode(candidate);
  // The key has the name of the lease, which nobody else has: what exists was written by an attempt before this one.
  const reply = await client.call(
    "txn",
    {
      compare: [{ result: 0, target: 1, key, createRevision: 0 }],
      success: [{ requestPut: { key, value, lease } }],
      failure: [{ requestRange: { key } }],
    },
    { repeatable: true },
  );
  if (reply.succeeded) return Number(reply.header?.revision ?? 0);
  const [existing] = reply.responses[0]?.responseRange?.kvs ?? [];
  return Number(existing?.createRevision ?? 0);
}

async function isFirst(
  client: EtcdClient,
  keys: Keys,
  prefix: string,
  revision: number,
): Promise<boolean> {
  const request = { ...keys.range(prefix), maxCreateRevision: revision - 1 };
  const { kvs } = await client.call(
    "range",
    { ...request, limit: 1, sortOrder: 2, sortTarget: 2, keysOnly: true },
    { repeatable: true },
  );
  return kvs.length === 0;
}

/** Calls `ended` when the lease was not renewed in time, although the server could not say so. */
function expireLocally(lease: EtcdLease, clock: Clock, ended: () => void): () => void {
  let disarm: () => void;
  const arm = () => {
    disarm = clock.alarm(Math.max(0, lease.validUntil - clock.now()), () => {
      if (lease.validUntil > clock.now()) return arm();
      lease.abandon();
      ended();
    });
  };
  arm();
  return () => disarm();
}
