// Counts policy documents: how many are in force, how many were refused, and how reloads ended.

import type { MetricSink, MetricSource } from "./table.ts";

type ReloadResult = "success" | "failure";

export class PolicyMetrics implements MetricSource {
  #loaded = 0;
  #refused = 0;
  readonly #reloads = new Map<ReloadResult, number>();

  /** Sets the current numbers of documents. */
  setDocuments(counts: { readonly loaded: number; readonly refused: number }): void {
    this.#loaded = counts.loaded;
    this.#refused = counts.refused;
  }

  reloaded(result: ReloadResult): void {
    this.#reloads.set(result, (this.#reloads.get(result) ?? 0) + 1);
  }

  collect(to: MetricSink): void {
    to.number("sluice_policies", ["loaded"], this.#loaded);
    to.number("sluice_policies", ["refused"], this.#refused);
    for (const result of ["success", "failure"] as const)
      to.number("sluice_policy_reload_total", [result], this.#reloads.get(result) ?? 0);
  }
}
