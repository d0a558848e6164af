// Commits as transactions of etcd, which takes 128 operations and 1.5 MiB in one. Larger commits become several
// transactions, puts before deletes, so that a reader may find too many keys for a moment but never too few.

import { Fault } from "#base/fault.ts";
import type { Guard, Op } from "../store.ts";
import type { EtcdClient, Request } from "./client.ts";
import type { Keys } from "./keys.ts";

/** etcd counts guards and operations separately. */
const MAX_OPERATIONS = 128;
/** Leaves room for guards, framing and what etcd itself adds to the 1.5 MiB that it takes. */
const MAX_BYTES = 1_400_000;

/** Groups of operations for one transaction each, the last operation of each key only. */
export function groupsOf(ops: readonly Op[], keys: Keys): readonly (readonly Op[])[] {
  const last = [...new Map(ops.map((op) => [op.key, op])).values()];
  const puts = last.filter(({ kind }) => kind === "put");
  const deletes = last.filter(({ kind }) => kind === "delete");
  const groups: Op[][] = [];
  let bytes = 0;
  for (const op of [...puts, ...deletes]) {
    const size = sizeOf(op, keys);
    if (size > MAX_BYTES) {
      const wanted = `${op.key}: wanted a value of at most ${MAX_BYTES} bytes, which etcd takes`;
      throw new Fault("RESOURCE_EXHAUSTED", `${wanted}, got ${size}`);
    }
    const group = groups.at(-1);
    if (group === undefined || group.length === MAX_OPERATIONS || bytes + size > MAX_BYTES) {
      groups.push([op]);
      bytes = size;
    } else {
      group.push(op);
      bytes += size;
    }
  }
  return groups;
}

function sizeOf(op: Op, keys: Keys): number {
  // Tags and lengths of the messages around a key and a value take less than 32 bytes.
  return keys.bytes(op.key).length + (op.kind === "put" ? op.value.length : 0) + 32;
}

interface CommitContext {
  readonly client: EtcdClient;
  readonly keys: Keys;
  readonly guards: readonly Guard[];
  /** Lease of the puts; 0n for none. */
  readonly lease: bigint;
  /** Milliseconds for each transaction; the client's own by default. */
  readonly timeoutMs?: number | undefined;
}

/**
 * Writes the operations and resolves with the revision of the last transaction, or with undefined, with nothing written,
 * when a guard did not hold.
 * @throws Fault ABORTED when a guard ceased to hold between the transactions of a large commit
 */
export async function commit(
  ops: readonly Op[],
  context: CommitContext,
): Promise<number | undefined> {
  const { client, keys, timeoutMs } = context;
  let { guards } = context;
  if (guards.length > MAX_OPERATIONS) {
    const wanted = `wanted at most ${MAX_OPERATIONS} guards, got ${guards.length}`;
    throw new Fault("INVALID_ARGUMENT", wanted);
  }
  const groups = groupsOf(ops, keys);
  let revision: number | undefined;
  for (const [at, group] of (groups.length === 0 ? [[]] : groups).entries()) {
    const request = transaction(group, { ...context, guards });
    // Without a guard, writing the same values twice has the same effect as writing them once.
    const repeatable = guards.length === 0;
    const reply = await client.call("txn", request, { repeatable, timeoutMs });
    if (!reply.succeeded) {
      if (at === 0) return undefined;
      const wanted = "a condition of the commit ceased to hold while it was written";
      throw new Fault("ABORTED", `${wanted}: ${at} of ${groups.length} parts are in the store`);
    }
    revision = Number(reply.header?.revision ?? 0);
    guards = guards.map((guard) => afterwards(guard, group, revision ?? 0));
  }
  return revision;
}

/** The guard for the next transaction: this one may have written its key. */
function afterwards(guard: Guard, group: readonly Op[], revision: number): Guard {
  const written = group.find(({ key }) => key === guard.key);
  if (written === undefined) return guard;
  return { key: guard.key, revision: written.kind === "put" ? revision : 0 };
}

function transaction(
  ops: readonly Op[],
  { keys, guards, lease }: Omit<CommitContext, "client">,
): Request<"txn"> {
  return {
    compare: guards.map(({ key, revision }) => ({
      result: 0,
      target: 2,
      key: keys.bytes(key),
      modRevision: revision,
    })),
    success: ops.map((op) =>
      op.kind === "put"
        ? { requestPut: { key: keys.bytes(op.key), value: op.value, lease } }
        : { requestDeleteRange: { key: keys.bytes(op.key) } },
    ),
  };
}
