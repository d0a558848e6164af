// The secret of a group: the first agent leaves it in the store, whose rules of access protect it. It never travels between
// agents; they prove to each other that they know it.

import { createHmac, randomBytes } from "node:crypto";
import { pause } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { PreSharedKey } from "#base/net/pre-shared-key.ts";
import type { Store } from "#store/store.ts";
import { groupSecretKey } from "#sync/keys.ts";

const BYTES = 32;
const MAX_BYTES = 1024;
/** Milliseconds before the store is asked again. */
const RETRY_MS = 1_000;

/** Keys for different uses, all derived from the secret. */
export class GroupSecret {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  /** For connections between agents. */
  get connections(): PreSharedKey {
    return { identity: "sluice", key: this.#derive("connections") };
  }

  /** For datagrams. */
  get probes(): Buffer {
    return this.#derive("probes");
  }

  /** Seed of the hash of keys. */
  get seed(): readonly [number, number] {
    const derived = this.#derive("keys");
    return [derived.readUInt32LE(0), derived.readUInt32LE(4)];
  }

  #derive(use: string): Buffer {
    return createHmac("sha256", this.bytes).update(`sluice ${use}`).digest();
  }
}

interface FollowSecretOptions {
  readonly store: Pick<Store, "commit" | "watch">;
  readonly group: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Called when the secret is known, and each time that it is another one. */
  readonly known: (secret: GroupSecret) => void;
}

/**
 * Follows the secret of a group until the signal aborts, and makes one where there is none. A secret that was deleted is
 * written again by whoever knows it, so that those who join later still meet those who are there. A value that cannot be
 * used is reported once, and the secret that was known before it stays in use.
 */
export async function followSecret(
  { store, group, clock, log, known }: FollowSecretOptions,
  signal: AbortSignal,
): Promise<void> {
  const key = groupSecretKey(group);
  let bytes: Uint8Array = randomBytes(BYTES);
  let used: Uint8Array | undefined;
  let warned = false;
  const leave = () =>
    store.commit([{ kind: "put", key, value: bytes }], { guards: [{ key, revision: 0 }] });
  while (!signal.aborted) {
    try {
      await leave();
      for await (const { puts, deletes } of store.watch([key], signal)) {
        if (deletes.includes(key)) await leave();
        const value = puts.find((entry) => entry.key === key)?.value;
        if (value === undefined) continue;
        if (value.length < BYTES || value.length > MAX_BYTES) {
          if (!warned) log.warn({}, unusable(key, value.length, used !== undefined));
          warned = true;
          continue;
        }
        warned = false;
        bytes = value;
        if (used !== undefined && Buffer.compare(used, value) === 0) continue;
        if (used !== undefined)
          log.warn({}, "the secret of the group has changed: counts start anew");
        used = value;
        known(new GroupSecret(value));
      }
    } catch (thrown) {
      if (!warned && !signal.aborted) {
        const { message } = Fault.from(thrown);
        log.warn({}, `cannot read or write the group's secret in etcd: ${message}`);
      }
      warned = true;
      await pause(RETRY_MS, clock, signal);
    }
  }
}

function unusable(key: string, length: number, isKnown: boolean): string {
  const wanted = `wanted ${BYTES} to ${MAX_BYTES} bytes, got ${length}`;
  const then = isKnown ? "the secret that was known stays in use" : "no secret is known yet";
  return `the value of ${key} in etcd cannot be used as the secret of the group: ${wanted}; ${then}`;
}
