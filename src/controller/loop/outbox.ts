// Writes to the store in the background, one commit at a time. Entries that arrive during a commit are merged into the next
// one, with the latest value of each key. Callers never wait.

import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Entry, Op, Store } from "#store/store.ts";

/** What a policy writes to the store: values by key; undefined deletes the key. */
export type StoreWrites = ReadonlyMap<string, Uint8Array | undefined>;

interface OutboxOptions {
  readonly store: Pick<Store, "commit" | "list">;
  readonly clock: Clock;
  /**
   * The operation that marks the published set as complete. Written after every removal; absent if nobody reads the mark.
   */
  readonly complete?: () => Op;
  /** Called after a successful commit with its last revision; `recovered` tells that the one before it failed. */
  readonly committed: (
    recovered: boolean,
    ops: readonly Op[],
    revision: number | undefined,
  ) => void;
  /** Called after a failed commit, which will be retried. */
  readonly failed: (fault: Fault) => void;
}

/** Pauses between attempts double from the first to the longest one. */
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;
/** Milliseconds that `close` waits for a commit. A hanging store must not keep the process from ending. */
const CLOSE_MS = 500;

export class Outbox {
  readonly #options: OutboxOptions;
  readonly #waiting = new Map<string, Uint8Array | undefined>();
  /** Values that this outbox has put into the store. */
  readonly #stored = new Map<string, Uint8Array>();
  /** Adopted keys that were not put yet. */
  readonly #adopted = new Set<string>();
  /** Keys of the commit under way. */
  #committing: ReadonlySet<string> = new Set();
  /** Keys of failed commits, which may or may not have been written. */
  readonly #unsure = new Set<string>();
  #state: "idle" | "busy" | "pausing" | "closed" = "idle";
  /** True if something was or is being removed and `complete` was not written since. */
  #unconfirmed = false;
  /** Revision of the last write of `complete`; undefined if unknown. */
  #completeRevision: number | undefined;
  #failures = 0;
  #commitUnderWay: Promise<void> = Promise.resolve();
  #disarm: () => void = () => undefined;
  #idle: (() => void)[] = [];

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /** Entries that are put together are committed together. */
  put(entries: StoreWrites): void {
    for (const [key, value] of entries) {
      this.#adopted.delete(key);
      this.#waiting.set(key, value);
    }
    this.#work();
  }

  /** Adopts entries of an earlier controller: equal values are not written again. */
  adopt(entries: readonly Entry[]): void {
    for (const { key, value } of entries) {
      this.#stored.set(key, value);
      this.#adopted.add(key);
    }
  }

  /** Keys below these prefixes that are in the store as far as this outbox knows. */
  storedKeys(prefixes: readonly string[]): readonly string[] {
    return [...this.#stored.keys()].filter((key) =>
      prefixes.some((prefix) => key.startsWith(prefix)),
    );
  }

  /**
   * Restores entries that somebody else deleted, and returns their number. The outbox's own deletes do not count.
   */
  putBack(deleted: readonly string[]): number {
    let count = 0;
    for (const key of deleted) {
      const value = this.#stored.get(key);
      if (value === undefined || this.#waiting.has(key) || this.#committing.has(key)) continue;
      this.#waiting.set(key, value);
      this.#unsure.add(key);
      count += 1;
    }
    this.#work();
    return count;
  }

  /** Deletes adopted entries that were not put since. Returns their number. */
  removeOrphans(): number {
    const orphans = [...this.#adopted];
    this.put(new Map(orphans.map((key) => [key, undefined])));
    return orphans.length;
  }

  /** Writes `complete` after everything that was put. */
  confirm(): void {
    this.#unconfirmed = true;
    this.#work();
  }

  /** Resolves when everything that was put so far is in the store, or the outbox is closed. */
  settled(): Promise<void> {
    if (this.#state === "idle" || this.#state === "closed") return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Waits up to 500 ms for a commit under way; entries that still wait are dropped. */
  async close(): Promise<void> {
    this.#state = "closed";
    this.#disarm();
    this.#notifyIdle();
    await within(CLOSE_MS, this.#options.clock, this.#commitUnderWay);
  }

  #work(): void {
    if (this.#state !== "idle") return;
    const ops = this.#take();
    if (ops.length === 0 && !this.#unconfirmed) {
      this.#notifyIdle();
      return;
    }
    this.#state = "busy";
    this.#committing = new Set(ops.map(({ key }) => key));
    this.#commitUnderWay = this.#commit(ops);
  }

  #notifyIdle(): void {
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  }

  /** The waiting entries as operations, without no-ops. */
  #take(): readonly Op[] {
    const ops: Op[] = [];
    for (const [key, value] of this.#waiting) {
      const unsure = this.#unsure.has(key);
      const before = this.#stored.get(key);
      if (value !== undefined) {
        const same = before !== undefined && Buffer.compare(before, value) === 0;
        if (unsure || !same) ops.push({ kind: "put", key, value });
      } else if (unsure || before !== undefined) ops.push({ kind: "delete", key });
    }
    this.#waiting.clear();
    return ops;
  }

  async #commit(ops: readonly Op[]): Promise<void> {
    const { store } = this.#options;
    try {
      const revision = ops.length > 0 ? await store.commit(ops) : undefined;
      this.#unconfirmed ||= ops.some(({ kind }) => kind === "delete");
      // A separate commit, because a store may split a large one and write the deletes last.
      if (this.#unconfirmed) await this.#complete();
      this.#unconfirmed = false;
      this.#succeeded(ops, revision);
    } catch (thrown) {
      this.#failed(ops, Fault.from(thrown));
    }
  }

  /**
   * Writes `complete`, unless somebody removed it: then the store may have lost more than is known here, and agents would take
   * missing entries for removed ones.
   */
  async #complete(): Promise<void> {
    const { store, complete } = this.#options;
    if (complete === undefined) return;
    const op = complete();
    const { key } = op;
    const known = this.#completeRevision;
    // After a failed write it is unknown whether the store has the value.
    this.#completeRevision = undefined;
    const guards = known === undefined ? [] : [{ key, revision: known }];
    const revision = await store.commit([op], { guards });
    if (revision === undefined) {
      const { entries } = await store.list(key);
      const found = entries.find((entry) => entry.key === key);
      this.#completeRevision = found?.revision ?? known;
      const what = found === undefined ? "was removed" : "was written";
      throw new Fault("ABORTED", `${key} ${what} by somebody else`);
    }
    this.#completeRevision = revision;
  }

  #succeeded(ops: readonly Op[], revision: number | undefined): void {
    this.#committing = new Set();
    for (const op of ops) {
      this.#unsure.delete(op.key);
      if (op.kind === "put") this.#stored.set(op.key, op.value);
      else this.#stored.delete(op.key);
    }
    const recovered = this.#failures > 0;
    this.#failures = 0;
    this.#options.committed(recovered, ops, revision);
    if (this.#state === "closed") return;
    this.#state = "idle";
    this.#work();
  }

  #failed(ops: readonly Op[], fault: Fault): void {
    this.#committing = new Set();
    for (const op of ops) {
      this.#unsure.add(op.key);
      if (this.#waiting.has(op.key)) continue;
      this.#waiting.set(op.key, op.kind === "put" ? op.value : undefined);
    }
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** this.#failures, LONGEST_PAUSE_MS);
    if (this.#state === "closed") return;
    this.#failures += 1;
    this.#options.failed(fault);
    this.#state = "pausing";
    this.#disarm = this.#options.clock.alarm(pause, () => {
      this.#state = "idle";
      this.#work();
    });
  }
}
