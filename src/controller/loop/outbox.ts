// Writes to the store in the background: one commit at a time, in order. Entries that arrive meanwhile are merged
// into the next commit, with the latest value of each key. Callers never wait.

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
   * The operation which states that the store has everything that was put. Written after every removal; absent where nobody
   * asks for it.
   */
  readonly complete?: () => Op;
  /** A commit succeeded, at the last of its revisions; `recovered` says that the one before it had failed. */
  readonly committed: (
    recovered: boolean,
    ops: readonly Op[],
    revision: number | undefined,
  ) => void;
  /** A commit failed and will be tried again. */
  readonly failed: (fault: Fault) => void;
}

/** Pauses between attempts double from the first to the longest one. */
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;
/** Milliseconds that `close` waits for a commit: a store that hangs must not keep the process from ending. */
const CLOSE_MS = 500;

export class Outbox {
  readonly #options: OutboxOptions;
  readonly #waiting = new Map<string, Uint8Array | undefined>();
  /** Values that this outbox has put into the store. */
  readonly #stored = new Map<string, Uint8Array>();
  /** Keys that were in the store before, and that nobody here has put yet. */
  readonly #adopted = new Set<string>();
  /** Keys of the commit under way. */
  #committing: ReadonlySet<string> = new Set();
  /** Keys of failed commits, which may have been written or not. */
  readonly #unsure = new Set<string>();
  #state: "idle" | "busy" | "pausing" | "closed" = "idle";
  /** Something was removed, or is about to be, and `complete` has not been written since. */
  #unconfirmed = false;
  /** Revision at which `complete` was written last; undefined where that is not known. */
  #completeRevision: number | undefined;
  #failures = 0;
  #commitUnderWay: Promise<void> = Promise.resolve();
  #disarm: () => void = () => undefined;
  #idle: (() => void)[] = [];

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /** Entries given together are committed together. */
  put(entries: StoreWrites): void {
    for (const [key, value] of entries) {
      this.#adopted.delete(key);
      this.#waiting.set(key, value);
    }
    this.#work();
  }

  /** Takes over what an earlier controller left in the store: equal values are not written again. */
  adopt(entries: readonly Entry[]): void {
    for (const { key, value } of entries) {
      this.#stored.set(key, value);
      this.#adopted.add(key);
    }
  }

  /**
   * Writes again what somebody else deleted. Returns the number of those keys; deletes of this outbox's own do not count.
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

  /** Deletes what was adopted and is not wanted by anyone here. Returns the number of keys. */
  removeOrphans(): number {
    const orphans = [...this.#adopted];
    this.put(new Map(orphans.map((key) => [key, undefined])));
    return orphans.length;
  }

  /** Writes `complete` as soon as everything that was put is in the store. */
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

  /** The waiting entries as operations, without those that would change nothing. */
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
      // A commit of its own, because a store may write a large one in parts, the deletes last.
      if (this.#unconfirmed) await this.#complete();
      this.#unconfirmed = false;
      this.#succeeded(ops, revision);
    } catch (thrown) {
      this.#failed(ops, Fault.from(thrown));
    }
  }

  /**
   * Writes `complete`, unless somebody removed it: the store may have lost more than is known here yet, and agents would take
   * what is missing for removed.
   */
  async #complete(): Promise<void> {
    const { store, complete } = this.#options;
    if (complete === undefined) return;
    const op = complete();
    const { key } = op;
    const known = this.#completeRevision;
    // Where a write fails, it is not known whether the store has it.
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
