// Keeps the rules that an agent saw last in a file (`etcd.snapshot_path`). An agent that starts while the store is away judges
// by them until the store answers.

import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { StoreUpdate } from "#store/store.ts";
import type { MetricSink, MetricSource } from "#telemetry/metrics/table.ts";
import { readSnapshot, type Snapshot, type SnapshotOwner, writeSnapshot } from "./snapshot-file.ts";

interface RuleSnapshotOptions {
  readonly path: string;
  readonly owner: SnapshotOwner;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn" | "error" | "info">;
  /** Called with the time of the snapshot, Unix ms, when the agent begins to judge by it, and with undefined when it ends. */
  readonly inUse: (savedAt: number | undefined) => void;
}

/** Time that the store has for its first answer before the snapshot is used, ms. */
export const STORE_TIMEOUT_MS = 1_000;
/** Time from a change to its write, and the shortest time between two writes, ms. */
export const QUIET_MS = 5_000;
/** The pause after a write is so many times as long as the write, which therefore takes a twentieth of the time at most. */
const PAUSE_RATIO = 20;

export class RuleSnapshot implements MetricSource {
  readonly #options: RuleSnapshotOptions;
  /** Rules and numbers in force, by key. */
  readonly #entries = new Map<string, Uint8Array>();
  #revision = 0;
  #state: "following" | "in use" | "closed" = "following";
  #isChanged = false;
  #disarm: (() => void) | undefined;
  #writing: Promise<void> = Promise.resolve();
  #failing = false;
  readonly #writes = { success: 0, failure: 0 };

  constructor(options: RuleSnapshotOptions) {
    this.#options = options;
  }

  /**
   * The batches of the store. If the first one is late, the snapshot precedes it, and the first one then holds the
   * difference, like that of a store that lost its history.
   */
  async *prepend(batches: AsyncIterable<StoreUpdate>): AsyncIterable<StoreUpdate> {
    const source = batches[Symbol.asyncIterator]();
    try {
      const first = source.next();
      const snapshot = (await this.#isLate(first)) ? await this.#read() : undefined;
      if (snapshot !== undefined) {
        this.#state = "in use";
        this.#options.inUse(snapshot.savedAt);
        yield batchOf(snapshot);
      }
      for (let next = await first; next.done !== true; next = await source.next()) {
        if (this.#state !== "in use") yield next.value;
        else {
          const keys = new Set(next.value.puts.map(({ key }) => key));
          const deletes = [...this.#entries.keys()].filter((key) => !keys.has(key));
          this.#state = "following";
          yield { ...next.value, deletes, reset: true };
          this.#options.inUse(undefined);
        }
      }
    } finally {
      await source.return?.();
    }
  }

  /** Call with each batch that has come into force. */
  record({ revision, puts, deletes }: StoreUpdate): void {
    for (const key of deletes) this.#entries.delete(key);
    for (const { key, value } of puts) this.#entries.set(key, value);
    this.#revision = revision;
    // The rules of the file need not be written again.
    if (this.#state !== "following") return;
    this.#isChanged = true;
    this.#arm(QUIET_MS);
  }

  /** Writes the last changes, and ends. */
  async close(): Promise<void> {
    this.#state = "closed";
    this.#disarm?.();
    await this.#writing;
    await this.#write();
  }

  collect(to: MetricSink): void {
    to.number("sluice_rules_from_snapshot", [], this.#state === "in use" ? 1 : 0);
    for (const result of ["success", "failure"] as const)
      to.number("sluice_rule_snapshots_total", [result], this.#writes[result]);
  }

  async #isLate(first: Promise<unknown>): Promise<boolean> {
    const came = first.then(
      () => false,
      () => false,
    );
    return within(STORE_TIMEOUT_MS, this.#options.clock, came, () => true);
  }

  async #read(): Promise<Snapshot | undefined> {
    const { path, owner, log } = this.#options;
    try {
      const snapshot = await readSnapshot(path, owner);
      const at = new Date(snapshot.savedAt).toISOString();
      log.warn(
        { path, saved_at: at },
        `the store does not answer: judging by the rules of ${at} in ${path}`,
      );
      return snapshot;
    } catch (thrown) {
      const { message } = Fault.from(thrown);
      log.error(
        { path },
        `the store does not answer, and there is no snapshot to judge by: ${message}`,
      );
      return undefined;
    }
  }

  #arm(ms: number): void {
    if (this.#state === "closed") return;
    this.#disarm ??= this.#options.clock.alarm(ms, () => {
      this.#writing = this.#write();
    });
  }

  async #write(): Promise<void> {
    if (!this.#isChanged) return;
    this.#isChanged = false;
    const { path, owner, clock, log } = this.#options;
    const began = clock.now();
    try {
      const snapshot = {
        savedAt: clock.wall(),
        revision: this.#revision,
        entries: this.#entries,
      };
      await writeSnapshot(path, owner, snapshot, clock);
      this.#writes.success += 1;
      if (this.#failing) log.info({ path }, "the snapshot of the rules is written again");
      this.#failing = false;
    } catch (thrown) {
      this.#writes.failure += 1;
      this.#isChanged = true;
      const { message } = Fault.from(thrown);
      if (!this.#failing)
        log.error({ path }, `the snapshot of the rules in ${path} is not written: ${message}`);
      this.#failing = true;
    }
    this.#disarm = undefined;
    if (this.#isChanged) this.#arm(Math.max(QUIET_MS, PAUSE_RATIO * (clock.now() - began)));
  }
}

function batchOf({ revision, entries }: Snapshot): StoreUpdate {
  const written = { revision, created: revision, leased: false };
  const puts = [...entries].map(([key, value]) => ({ key, value, ...written }));
  return { revision, puts, deletes: [] };
}
