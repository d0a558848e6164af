// Keys that describe this process to others and end with it. They are written under one lease, in the background, with
// retries until the store takes them.

import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { LeaseOnDemand } from "./lease-on-demand.ts";
import type { Op, Store } from "./store.ts";

interface LeasedKeysOptions {
  readonly store: Pick<Store, "lease" | "commit">;
  readonly clock: Clock;
  readonly log: Log;
  /** Called with the reason when the store does not take the keys, and with undefined when it has taken them. */
  readonly written: (fault: Fault | undefined) => void;
}

/** Milliseconds that `close` waits for the store. */
const CLOSE_MS = 500;
/** Milliseconds before an attempt that follows a failed one. */
const RETRY_MS = 1_000;

export class LeasedKeys {
  readonly #options: LeasedKeysOptions;
  readonly #lease: LeaseOnDemand;
  /** Writes that the store does not have yet. Of several writes of one key only the last is kept. */
  readonly #unwritten = new Map<string, Op>();
  #writing: Promise<void> | undefined;
  #disarm: (() => void) | undefined;
  #closed = false;
  #failing = false;

  constructor(options: LeasedKeysOptions) {
    this.#options = options;
    this.#lease = new LeaseOnDemand(options.store);
  }

  put(key: string, value: Uint8Array): void {
    this.#write({ kind: "put", key, value });
  }

  delete(key: string): void {
    this.#write({ kind: "delete", key });
  }

  /** Leaves a key to another owner, as it is. */
  release(key: string): void {
    this.#unwritten.delete(key);
    void this.#lease.release(key);
  }

  /** Deletes all keys. Where the store is away, they end with the lease. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#unwritten.clear();
    this.#disarm?.();
    // A store that does not answer must not keep the process from ending.
    await within(CLOSE_MS, this.#options.clock, this.#revoke());
  }

  async #revoke(): Promise<void> {
    await this.#writing;
    await this.#lease.revoke();
  }

  #write(op: Op): void {
    if (this.#closed) return;
    this.#unwritten.set(op.key, op);
    if (this.#disarm === undefined) this.#writing ??= this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    const { clock } = this.#options;
    // All writes of the same turn of the event loop go into one commit.
    await undefined;
    while (this.#unwritten.size > 0) {
      const ops = [...this.#unwritten.values()];
      this.#unwritten.clear();
      try {
        await this.#lease.commit(ops);
        this.#report(undefined);
      } catch (thrown) {
        if (this.#closed) break;
        for (const op of ops) {
          if (!this.#unwritten.has(op.key)) this.#unwritten.set(op.key, op);
        }
        this.#report(Fault.from(thrown));
        this.#disarm = clock.alarm(RETRY_MS, () => {
          this.#disarm = undefined;
          this.#writing ??= this.#writeAll();
        });
        break;
      }
    }
    this.#writing = undefined;
  }

  #report(fault: Fault | undefined): void {
    const { log, written } = this.#options;
    if (fault !== undefined && !this.#failing)
      log.warn({}, `the keys of this process cannot be written yet: ${fault.message}`);
    this.#failing = fault !== undefined;
    written(fault);
  }
}
