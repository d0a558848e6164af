// The checkpoints of all policies. At the start, reads those that the previous leader left in the store; then writes changed
// states of circuits there at intervals. Nothing waits for these writes.

import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { listed } from "#base/text/listed.ts";
import type { Circuit } from "#circuit/circuit.ts";
import type { CircuitDecision } from "#circuit/decision.ts";
import type { CircuitPlan } from "#circuit/plan.ts";
import type { Restored } from "#circuit/runner.ts";
import { Slices } from "#runtime/life/slices.ts";
import type { Op, Store } from "#store/store.ts";
import { CHECKPOINTS } from "#sync/keys.ts";
import type { MetricSink, MetricSource } from "#telemetry/metrics/table.ts";
import { checkpointOf, readCheckpoint } from "./checkpoint.ts";

export interface CheckpointSettings {
  /** Milliseconds from one round of writes to the next. */
  readonly interval: number;
  /** Milliseconds after which a checkpoint is no longer used. */
  readonly max_age: number;
}

interface CheckpointsOptions {
  /** Refuses writes of a process that no longer leads. */
  readonly store: Pick<Store, "list" | "commit">;
  readonly settings: CheckpointSettings;
  readonly clock: Clock;
  readonly log: Pick<Log, "info" | "warn">;
}

interface CheckpointedPolicy {
  /** Undefined for a policy without a circuit. */
  readonly circuit: Circuit | undefined;
  readonly decisions: Iterable<CircuitDecision>;
}

/** The last checkpoint of a policy that is in the store. */
interface Written {
  readonly checksum: string;
  /** On the monotonic clock. */
  readonly at: number;
}

const RESULTS = ["written", "failed", "restored", "ignored"] as const;

/** Largest commit in bytes, unless a single checkpoint is larger. */
const COMMIT_BYTES = 1024 * 1024;
/** Milliseconds that `close` waits for the last writes. A hanging store must not keep the process from ending. */
const CLOSE_MS = 1_000;

export class CheckpointKeeper implements MetricSource {
  readonly #options: CheckpointsOptions;
  readonly #counts = { written: 0, failed: 0, restored: 0, ignored: 0 };
  /** Checkpoints of the previous leader, by policy. Each is removed when its policy is loaded. */
  readonly #found = new Map<string, Uint8Array>();
  readonly #written = new Map<string, Written>();
  /** Policies whose state was too large in the last round. */
  readonly #tooLarge = new Set<string>();
  /** The policies in force. */
  #policies: ReadonlyMap<string, CheckpointedPolicy> = new Map();
  #disarm: () => void = () => undefined;
  #round: Promise<void> | undefined;
  #failing = false;
  #state: "adopting" | "writing" = "adopting";

  constructor(options: CheckpointsOptions) {
    this.#options = options;
  }

  /** Reads the checkpoints in the store. Call it before the policies are loaded. */
  async adopt(): Promise<void> {
    const { entries } = await this.#options.store.list(CHECKPOINTS);
    for (const { key, value } of entries) this.#found.set(key.slice(CHECKPOINTS.length), value);
  }

  /** The state from which the circuit of a policy continues when it is first loaded; undefined starts afresh. */
  restore(name: string, plan: CircuitPlan | undefined): Restored | undefined {
    const bytes = this.#found.get(name);
    if (bytes === undefined || plan === undefined) return undefined;
    this.#found.delete(name);
    // The key exists even if its value is unusable, so the next round deletes it if the policy is gone.
    this.#written.set(name, { checksum: "", at: Number.NEGATIVE_INFINITY });
    const { clock, settings, log } = this.#options;
    try {
      const restored = readCheckpoint(bytes, plan);
      const age = Math.max(0, clock.wall() - restored.savedAt);
      if (!(age <= settings.max_age))
        throw new Fault("OUT_OF_RANGE", `it is ${Math.round(age / 1_000)} s old`);
      this.#counts.restored += 1;
      return restored;
    } catch (thrown) {
      this.#counts.ignored += 1;
      const { message } = Fault.from(thrown);
      log.warn(
        { policy: name },
        `the circuit of ${name} begins anew, its checkpoint is not used: ${message}`,
      );
      return undefined;
    }
  }

  /** Begins to write. The first round deletes the checkpoints of policies that are not in force. */
  start(policies: ReadonlyMap<string, CheckpointedPolicy>): void {
    this.#policies = policies;
    const { restored } = this.#counts;
    if (restored > 0)
      this.#options.log.info({ policies: restored }, "circuits go on from their checkpoints");
    for (const name of this.#found.keys())
      this.#written.set(name, { checksum: "", at: Number.NEGATIVE_INFINITY });
    this.#found.clear();
    this.#state = "writing";
    this.#arm();
  }

  /** Writes the changes since the last round, and waits for that up to 1 s. */
  async close(): Promise<void> {
    this.#disarm();
    // The previous leader's checkpoints must stay until all policies are loaded.
    if (this.#state === "adopting") return;
    const last = (async () => {
      await this.#round;
      await this.#writeAll();
    })();
    await within(CLOSE_MS, this.#options.clock, last);
  }

  collect(to: MetricSink): void {
    for (const result of RESULTS)
      to.number("sluice_policy_checkpoints_total", [result], this.#counts[result]);
  }

  #arm(): void {
    const { clock, settings } = this.#options;
    this.#disarm = clock.alarm(settings.interval, () => {
      this.#arm();
      // No round starts while a slow store holds up another one.
      this.#round ??= this.#writeAll().finally(() => {
        this.#round = undefined;
      });
    });
  }

  /** Never rejects: a failed round is logged, and the next one retries. */
  async #writeAll(): Promise<void> {
    try {
      await this.#write();
    } catch (thrown) {
      this.#failed(thrown, 1);
    }
  }

  async #write(): Promise<void> {
    const { clock, settings } = this.#options;
    const policies = this.#policies;
    const slices = new Slices(clock);
    let ops: Op[] = [];
    let written = new Map<string, Written | undefined>();
    let bytes = 0;
    const commit = async () => {
      if (ops.length > 0) await this.#commit(ops, written);
      [ops, written, bytes] = [[], new Map(), 0];
    };
    for (const name of [...this.#written.keys()]) {
      if (policies.has(name)) continue;
      ops.push({ kind: "delete", key: CHECKPOINTS + name });
      written.set(name, undefined);
      this.#tooLarge.delete(name);
    }
    for (const [name, { circuit, decisions }] of [...policies]) {
      if (circuit === undefined) continue;
      const checkpoint = checkpointOf(circuit, decisions);
      this.#report(name, checkpoint.omitted);
      const { checksum } = checkpoint;
      const before = this.#written.get(name);
      // An unchanged checkpoint is rewritten before it becomes too old.
      const isYoung = before !== undefined && clock.now() - before.at < settings.max_age / 2;
      if (before?.checksum !== checksum || !isYoung) {
        const value = checkpoint.bytes(clock.wall());
        if (bytes + value.length > COMMIT_BYTES) await commit();
        ops.push({ kind: "put", key: CHECKPOINTS + name, value });
        written.set(name, { checksum, at: clock.now() });
        bytes += value.length;
      }
      await slices.pause();
    }
    await commit();
  }

  async #commit(ops: readonly Op[], written: ReadonlyMap<string, Written | undefined>) {
    const { store, log } = this.#options;
    try {
      await store.commit(ops);
    } catch (thrown) {
      this.#failed(thrown, ops.length);
      return;
    }
    if (this.#failing) log.info({}, "checkpoints of circuits are written again");
    this.#failing = false;
    this.#counts.written += ops.length;
    for (const [name, now] of written) {
      if (now === undefined) this.#written.delete(name);
      else this.#written.set(name, now);
    }
  }

  #failed(thrown: unknown, checkpoints: number): void {
    this.#counts.failed += checkpoints;
    const fault = Fault.from(thrown);
    if (!this.#failing) {
      const message = `checkpoints of circuits are not written: ${fault.message}`;
      this.#options.log.warn({ error: fault }, message);
    }
    this.#failing = true;
  }

  #report(name: string, omitted: readonly string[]): void {
    if (omitted.length === 0) {
      this.#tooLarge.delete(name);
      return;
    }
    if (this.#tooLarge.has(name)) return;
    this.#tooLarge.add(name);
    const which = listed(omitted, (id) => id);
    this.#options.log.warn(
      { policy: name },
      `the state of ${name} is too large for a checkpoint, these components begin anew with another leader: ${which}`,
    );
  }
}
