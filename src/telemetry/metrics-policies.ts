// What whoever loads policies tells: how many are in force, how many were turned down, how reloads went.

import type { Sink, Source } from "./metrics-table.ts";

type ReloadResult = "success" | "failure";

export class PolicyMetrics implements Source {
  #loaded = 0;
  #refused = 0;
  readonly #reloads = new Map<ReloadResult, number>();

  /** How many documents stand now. */
  standing(counts: { readonly loaded: number; readonly refused: number }): void {
    this.#loaded = counts.loaded;
    this.#refused = counts.refused;
  }

  reloaded(result: ReloadResult): void {
    this.#reloads.set(result, (this.#reloads.get(result) ?? 0) + 1);
  }

  collect(to: Sink): void {
    to.number("sluice_policies", ["loaded"], this.#loaded);
    to.number("sluice_policies", ["refused"], this.#refused);
    for (const result of ["success", "failure"] as const)
      to.number("sluice_policy_reload_total", [result], this.#reloads.get(result) ?? 0);
  }
}
