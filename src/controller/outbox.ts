// What a controller wants to stand in the store, on its way there. One commit at a time, in order; what
// comes meanwhile melts into the next one, the latest value of each key. Nobody ever waits for it.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Op, Store } from "#store/store.ts";

/** Values by key; undefined deletes. */
export type Entries = ReadonlyMap<string, Uint8Array | undefined>;

export interface OutboxOptions {
  readonly store: Pick<Store, "commit">;
  readonly clock: Clock;
  /** A commit went well; `again` says that the one before it had failed. */
  readonly committed: (again: boolean) => void;
  /** A commit failed and will be tried again. */
  readonly failed: (fault: Fault) => void;
}

const FIRST_REST_MS = 250;
/** A store that is back is used within this time. */
const LONGEST_REST_MS = 5_000;
/** A store that hangs must not keep the process from ending. */
const CLOSE_MS = 2_000;

export class Outbox {
  readonly #options: OutboxOptions;
  readonly #waiting = new Map<string, Uint8Array | undefined>();
  /** What this outbox put into the store. */
  readonly #standing = new Map<string, Uint8Array>();
  /** Keys of commits that failed: whether they were written is not known. */
  readonly #unsure = new Set<string>();
  #state: "idle" | "busy" | "resting" | "closed" = "idle";
  #failures = 0;
  #flight: Promise<void> = Promise.resolve();
  #disarm: () => void = () => undefined;
  #idle: (() => void)[] = [];

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /** Entries given together are committed together. */
  put(entries: Entries): void {
    for (const [key, value] of entries) this.#waiting.set(key, value);
    this.#work();
  }

  /** Resolves when everything given so far stands in the store, or the outbox is closed. */
  settled(): Promise<void> {
    if (this.#state === "idle" || this.#state === "closed") return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Gives a commit that is under way 2 s to end; what still waits is not written any more. */
  async close(): Promise<void> {
    this.#state = "closed";
    this.#disarm();
    this.#rest();
    const late = Promise.withResolvers<void>();
    const disarm = this.#options.clock.alarm(CLOSE_MS, late.resolve);
    await Promise.race([this.#flight, late.promise]);
    disarm();
  }

  #work(): void {
    if (this.#state !== "idle") return;
    const ops = this.#take();
    if (ops.length === 0) {
      this.#rest();
      return;
    }
    this.#state = "busy";
    this.#flight = this.#commit(ops);
  }

  #rest(): void {
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  }

  /** What would change nothing is left out. */
  #take(): readonly Op[] {
    const ops: Op[] = [];
    for (const [key, value] of this.#waiting) {
      const unsure = this.#unsure.has(key);
      const before = this.#standing.get(key);
      if (value !== undefined) {
        const same = before !== undefined && Buffer.compare(before, value) === 0;
        if (unsure || !same) ops.push({ kind: "put", key, value });
      } else if (unsure || before !== undefined) ops.push({ kind: "delete", key });
    }
    this.#waiting.clear();
    return ops;
  }

  async #commit(ops: readonly Op[]): Promise<void> {
    try {
      await this.#options.store.commit(ops);
      this.#written(ops);
    } catch (thrown) {
      this.#refused(ops, Fault.from(thrown));
    }
  }

  #written(ops: readonly Op[]): void {
    for (const op of ops) {
      this.#unsure.delete(op.key);
      if (op.kind === "put") this.#standing.set(op.key, op.value);
      else this.#standing.delete(op.key);
    }
    const again = this.#failures > 0;
    this.#failures = 0;
    this.#options.committed(again);
    if (this.#state === "closed") return;
    this.#state = "idle";
    this.#work();
  }

  #refused(ops: readonly Op[], fault: Fault): void {
    for (const op of ops) {
      this.#unsure.add(op.key);
      if (this.#waiting.has(op.key)) continue;
      this.#waiting.set(op.key, op.kind === "put" ? op.value : undefined);
    }
    const rest = Math.min(FIRST_REST_MS * 2 ** this.#failures, LONGEST_REST_MS);
    this.#failures += 1;
    this.#options.failed(fault);
    if (this.#state === "closed") return;
    this.#state = "resting";
    this.#disarm = this.#options.clock.alarm(rest, () => {
      this.#state = "idle";
      this.#work();
    });
  }
}
