// The secret of a group: the first agent writes it to the store, whose access rules protect it. It is never sent between
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
/** Milliseconds before the store is tried again. */
const RETRY_MS = 1_000;
/** Milliseconds that agents which know the secret have to replace an unusable value before other agents do. */
const OTHERS_MS = 5_000;

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
  /** Called when the secret becomes known, and each time that it changes. */
  readonly known: (secret: GroupSecret) => void;
  /** Called with the reason when the value in the store cannot be used. */
  readonly unusable: (why: string) => void;
}

/**
 * Follows the secret of a group until the signal aborts, and creates one if there is none. Agents that know a deleted
 * secret write it again, so that later members share counts with earlier ones. An unusable value is reported once, and
 * replaced: an agent that knows the secret writes it at once, and others write a new one after some seconds. Otherwise
 * agents that start later would never learn a secret.
 */
export async function followSecret(
  { store, group, clock, log, known, unusable }: FollowSecretOptions,
  signal: AbortSignal,
): Promise<void> {
  const key = groupSecretKey(group);
  let bytes: Uint8Array = randomBytes(BYTES);
  let used: Uint8Array | undefined;
  let warned = false;
  let endRepair: () => void = () => undefined;
  const failed = (thrown: unknown) => {
    if (!warned && !signal.aborted) {
      const { message } = Fault.from(thrown);
      log.warn({}, `cannot read or write the group's secret in etcd: ${message}`);
    }
    warned = true;
  };
  /** Writes the secret if the value still has this revision; 0: if there is no value. */
  const putSecret = (revision = 0) =>
    store.commit([{ kind: "put", key, value: bytes }], { guards: [{ key, revision }] });
  const repair = (revision: number, delayMs: number): void => {
    endRepair = clock.alarm(delayMs, () => {
      putSecret(revision).catch((thrown: unknown) => {
        failed(thrown);
        if (!signal.aborted) repair(revision, OTHERS_MS);
      });
    });
  };
  while (!signal.aborted) {
    try {
      await putSecret();
      for await (const { puts, deletes } of store.watch([key], signal)) {
        if (deletes.includes(key)) await putSecret();
        const entry = puts.find((each) => each.key === key);
        if (entry === undefined) continue;
        endRepair();
        const { value, revision } = entry;
        if (value.length < BYTES || value.length > MAX_BYTES) {
          const why = unusableText(key, value.length);
          unusable(why);
          const seconds = OTHERS_MS / 1_000;
          const then =
            used === undefined
              ? `a new one replaces it in ${seconds} s`
              : "the known one replaces it";
          if (!warned) log.warn({}, `${why}; ${then}`);
          warned = true;
          repair(revision, used === undefined ? OTHERS_MS : 0);
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
      failed(thrown);
      await pause(RETRY_MS, clock, signal);
    }
  }
  endRepair();
}

function unusableText(key: string, length: number): string {
  const wanted = `wanted ${BYTES} to ${MAX_BYTES} bytes, got ${length}`;
  return `the value of ${key} in etcd cannot be used as the secret of the group: ${wanted}`;
}
