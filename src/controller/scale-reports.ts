// Passes the replica counts that agents report to the circuits concerned. A report belongs to one version of a
// policy; it is kept until that version runs.

import { Fault } from "#base/fault.ts";
import type { Replicas } from "#circuit/component.ts";
import type { Batch } from "#store/store.ts";
import { type ReportedReplicas, readReplicas } from "#sync/follow/replicas.ts";
import { REPLICAS } from "#sync/keys.ts";
import type { PolicyLoop } from "./loop/policy-loop.ts";

export interface ScaleReportsOptions {
  /** Policies in force, by name. */
  readonly loops: () => ReadonlyMap<string, PolicyLoop>;
  /** A report could not be read; the one before stays. */
  readonly failed: (key: string, fault: Fault) => void;
}

export class ScaleReports {
  readonly #options: ScaleReportsOptions;
  /** By key of the store. */
  readonly #reports = new Map<string, ReportedReplicas>();

  constructor(options: ScaleReportsOptions) {
    this.#options = options;
  }

  /** Applies a batch of changes of the store. */
  apply({ puts, deletes }: Batch): void {
    for (const key of deletes) {
      const report = this.#reports.get(key);
      this.#reports.delete(key);
      if (report !== undefined) this.#deliver(report, undefined);
    }
    for (const { key, value } of puts) {
      if (!key.startsWith(REPLICAS)) continue;
      try {
        const report = readReplicas(value);
        this.#reports.set(key, report);
        this.#deliver(report, report);
      } catch (thrown) {
        this.#options.failed(key, Fault.from(thrown));
      }
    }
  }

  /** Hands all reports about a policy to its circuit, which has just come into force. */
  deliverTo({ version }: PolicyLoop): void {
    for (const report of this.#reports.values()) {
      if (report.policyName === version.policy.name) this.#deliver(report, report);
    }
  }

  #deliver({ policyName, policyHash, componentId }: ReportedReplicas, replicas?: Replicas): void {
    const loop = this.#options.loops().get(policyName);
    if (loop?.version.policy.hash === policyHash) loop.report(componentId, replicas);
  }
}
