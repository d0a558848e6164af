// Passes the replica counts that agents report to circuits. A report belongs to one version of a policy and is kept until that
// version runs. A deleted report stays valid for a grace time: several agents write the same key, and an agent that stops
// deletes it although the others continue.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Replicas } from "#circuit/component.ts";
import type { StoreUpdate } from "#store/store.ts";
import { type ReportedReplicas, readReplicas } from "#sync/follow/replicas.ts";
import { REPLICAS } from "#sync/keys.ts";
import type { PolicyLoop } from "./policy-loop.ts";

/** Milliseconds for which a deleted report stays valid. */
export const GRACE_MS = 60_000;

interface ReplicaReportsOptions {
  readonly clock: Pick<Clock, "alarm">;
  /** Policies in force, by name. */
  readonly loops: () => ReadonlyMap<string, PolicyLoop>;
  /** Called when a report cannot be read; the previous one stays. */
  readonly failed: (key: string, fault: Fault) => void;
}

export class ReplicaReports {
  readonly #options: ReplicaReportsOptions;
  /** By key of the store. */
  readonly #reports = new Map<string, ReportedReplicas>();
  /** Functions that cancel the grace times of deleted reports, by store key. */
  readonly #goingAway = new Map<string, () => void>();

  constructor(options: ReplicaReportsOptions) {
    this.#options = options;
  }

  /** Applies a batch of changes of the store. */
  apply({ puts, deletes }: StoreUpdate): void {
    for (const key of deletes) if (this.#reports.has(key)) this.#forgetLater(key);
    for (const { key, value } of puts) {
      if (!key.startsWith(REPLICAS)) continue;
      try {
        const report = readReplicas(value);
        this.#keep(key);
        this.#reports.set(key, report);
        this.#deliver(report, report);
      } catch (thrown) {
        this.#options.failed(key, Fault.from(thrown));
      }
    }
  }

  /** Passes all reports about a policy to its circuit, which has just been loaded. */
  deliverTo({ version }: PolicyLoop): void {
    for (const report of this.#reports.values()) {
      if (report.policyName === version.policy.name) this.#deliver(report, report);
    }
  }

  /** Cancels all grace times. */
  close(): void {
    for (const key of [...this.#goingAway.keys()]) this.#keep(key);
  }

  #forgetLater(key: string): void {
    this.#keep(key);
    const cancel = this.#options.clock.alarm(GRACE_MS, () => {
      this.#goingAway.delete(key);
      const report = this.#reports.get(key);
      this.#reports.delete(key);
      if (report !== undefined) this.#deliver(report, undefined);
    });
    this.#goingAway.set(key, cancel);
  }

  #keep(key: string): void {
    this.#goingAway.get(key)?.();
    this.#goingAway.delete(key);
  }

  #deliver({ policyName, policyHash, componentId }: ReportedReplicas, replicas?: Replicas): void {
    const loop = this.#options.loops().get(policyName);
    if (loop?.version.policy.hash === policyHash) loop.report(componentId, replicas);
  }
}
