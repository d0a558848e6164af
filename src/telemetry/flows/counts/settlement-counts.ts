// Counts of the settled estimates of one limiter, and the tokens by which they were wrong.

import { SETTLED, type Settled } from "#flow/observer.ts";
import type { MetricSink } from "../../metrics/table.ts";

export class SettlementCounts {
  readonly #results = new Map<Settled, number>();
  #charged = 0;
  #returned = 0;

  settled(how: Settled, difference: number): void {
    this.#results.set(how, (this.#results.get(how) ?? 0) + 1);
    if (difference > 0) this.#charged += difference;
    else this.#returned -= difference;
  }

  /** `component` has the labels of the component. */
  collect(to: MetricSink, component: readonly string[]): void {
    for (const how of SETTLED) {
      const count = this.#results.get(how);
      if (count !== undefined) to.number("sluice_settlements_total", [...component, how], count);
    }
    const tokens = "sluice_settled_tokens_total";
    if (this.#charged > 0) to.number(tokens, [...component, "charged"], this.#charged);
    if (this.#returned > 0) to.number(tokens, [...component, "returned"], this.#returned);
  }
}
