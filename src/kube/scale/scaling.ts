// Scales Kubernetes objects for the policies in force. It reads pod scalers and decisions from the store and reports replicas
// there, as the agents of the reference do, so either side may be of the other kind. After a change of leaders the last
// decision stays in force.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { ScaledObject } from "#policy/compiled.ts";
import type { PolicyWarning } from "#policy/document/warning.ts";
import { LeasedKeys } from "#store/leased-keys.ts";
import type { Store, StoreUpdate } from "#store/store.ts";
import {
  readPodScaler,
  readScaleDecision,
  type StoredPodScaler,
  type StoredScaleDecision,
  writeReplicas,
} from "#sync/follow/replicas.ts";
import { configKey, decisionKey, REPLICAS } from "#sync/keys.ts";
import type { MetricSink, MetricSource } from "#telemetry/metrics/table.ts";
import type { KubeClient } from "../api/client.ts";
import type { RecordEvent } from "../api/events.ts";
import { objectText } from "./object.ts";
import { Scaler, type WantedScale } from "./scaler.ts";

export interface ScalingOptions {
  readonly client: KubeClient;
  readonly store: Pick<Store, "watch" | "lease" | "commit">;
  /** Called with a fault when objects cannot be scaled, and with undefined when they can. */
  readonly followed: (fault: Fault | undefined) => void;
  readonly record: RecordEvent;
  /** Called after `close`. */
  readonly closed: () => void;
  /** Called when warnings about policies may have changed. */
  readonly warned: () => void;
  /** Called when the store can no longer be followed. */
  readonly failed: (message: string, cause?: unknown) => void;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Log;
}

const SCALERS = configKey("pod_scaler", "");
const DECISIONS = decisionKey("pod_scaler", "");

export class Scaling implements MetricSource {
  readonly #options: ScalingOptions;
  readonly #scaler: Scaler;
  readonly #reports: LeasedKeys;
  readonly #stop = new AbortController();
  #ended: Promise<void> = Promise.resolve();
  /** Both by the last part of their store keys, which is the same. */
  readonly #scalers = new Map<string, StoredPodScaler>();
  readonly #decisions = new Map<string, StoredScaleDecision>();
  /** The reports that were written, by the same part. */
  readonly #reported = new Map<string, string>();
  #due = false;
  #warnings = "";

  constructor(options: ScalingOptions) {
    this.#options = options;
    const { store, clock, log } = options;
    this.#scaler = new Scaler({ ...options, changed: () => this.#changed() });
    this.#reports = new LeasedKeys({ store, clock, log, written: () => undefined });
  }

  /** Scales until `close`. */
  start(): void {
    const { store, failed } = this.#options;
    const { signal } = this.#stop;
    const follow = async () => {
      for await (const batch of store.watch([SCALERS, DECISIONS, REPLICAS], signal)) {
        this.#apply(batch);
      }
      if (!signal.aborted) failed("the store ended its watch");
    };
    this.#ended = follow().catch((thrown: unknown) => {
      if (!signal.aborted) failed("following pod scalers failed", thrown);
    });
  }

  warningsOf(object: ScaledObject): readonly Omit<PolicyWarning, "path">[] {
    const text = objectText(object);
    const fault = this.#scaler.faultOf(text);
    const others = this.#scaler.autoscalersOf(text);
    const same = `also scales ${text}, so that it and the policy undo each other's work`;
    return [
      ...(fault === undefined
        ? []
        : [
            {
              code: "not_scaled" as const,
              text: `the controller cannot scale ${text}`,
              why: fault.message,
            },
          ]),
      ...others.map((name) => ({
        code: "other_autoscaler" as const,
        text: `the HorizontalPodAutoscaler ${name} ${same}`,
      })),
    ];
  }

  collect(to: MetricSink): void {
    const { sizes, counts } = this.#scaler;
    to.number("sluice_scaled_objects", ["followed"], sizes.followed);
    to.number("sluice_scaled_objects", ["faulty"], sizes.faulty);
    for (const result of ["scaled", "conflict", "failed"] as const)
      to.number("sluice_scale_attempts_total", [result], counts[result]);
  }

  /** Stops at once. Replicas stay as they are, and the reports of this process end with its lease. */
  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all([this.#scaler.close(), this.#ended]);
    await this.#reports.close();
    this.#options.closed();
  }

  #apply({ puts, deletes }: StoreUpdate): void {
    for (const key of deletes) {
      if (key.startsWith(SCALERS)) this.#scalers.delete(key.slice(SCALERS.length));
      else if (key.startsWith(DECISIONS)) this.#decisions.delete(key.slice(DECISIONS.length));
      // An agent that ends deletes the report that it shares with others; it is written again.
      else if (key.startsWith(REPLICAS)) this.#reported.delete(key.slice(REPLICAS.length));
    }
    for (const { key, value } of puts) {
      if (key.startsWith(SCALERS)) {
        this.#read(this.#scalers, key, key.slice(SCALERS.length), () => readPodScaler(value));
      } else if (key.startsWith(DECISIONS)) {
        const name = key.slice(DECISIONS.length);
        this.#read(this.#decisions, key, name, () => readScaleDecision(value));
      }
    }
    this.#scaler.set(this.#wanted());
    this.#changed();
  }

  /** Values that cannot be read count as absent. */
  #read<T>(into: Map<string, T>, key: string, name: string, read: () => T): void {
    try {
      into.set(name, read());
    } catch (thrown) {
      into.delete(name);
      const { message } = Fault.from(thrown);
      this.#options.log.error({ key }, `an invalid value scales nothing: ${message}`);
    }
  }

  /** Of several decisions about one object the greatest counts. Decisions for other versions of the policy do not count. */
  #wanted(): ReadonlyMap<string, WantedScale> {
    const wanted = new Map<string, WantedScale>();
    for (const [name, { object, policyHash }] of this.#scalers) {
      const decision = this.#decisions.get(name);
      const own = decision?.policyHash === policyHash ? decision.replicas : undefined;
      const text = objectText(object);
      const other = wanted.get(text)?.replicas;
      const replicas =
        own === undefined || other === undefined ? (own ?? other) : Math.max(own, other);
      wanted.set(text, { object, replicas });
    }
    return wanted;
  }

  /** Reports once for all changes of one turn of the event loop. */
  #changed(): void {
    if (this.#due) return;
    this.#due = true;
    queueMicrotask(() => {
      this.#due = false;
      if (!this.#stop.signal.aborted) this.#report();
    });
  }

  #report(): void {
    for (const name of this.#reported.keys()) if (!this.#scalers.has(name)) this.#withdraw(name);
    const warnings: unknown[] = [];
    for (const [name, { object, ...identity }] of this.#scalers) {
      const replicas = this.#scaler.replicasOf(objectText(object));
      warnings.push(this.warningsOf(object));
      if (replicas === undefined) {
        if (this.#reported.has(name)) this.#withdraw(name);
        continue;
      }
      const text = JSON.stringify([identity, replicas]);
      if (this.#reported.get(name) === text) continue;
      this.#reported.set(name, text);
      this.#reports.put(REPLICAS + name, writeReplicas({ ...identity, ...replicas }));
    }
    this.#options.followed(this.#scaler.fault);
    const text = JSON.stringify(warnings);
    if (text === this.#warnings) return;
    this.#warnings = text;
    this.#options.warned();
  }

  #withdraw(name: string): void {
    this.#reported.delete(name);
    this.#reports.delete(REPLICAS + name);
  }
}
