// Flux meters: histograms that policies define, fed by what a flow's record says when it is over. Circuits
// read them as their measurements.

import type { FluxMeterRule } from "#flow/rules.ts";
import { boundsOf } from "./flux-meter-buckets.ts";
import type { Sink, Source } from "./metrics-table.ts";

/** One flow that is over. */
export interface MeasuredFlow {
  readonly accepted: boolean;
  /** Empty when unknown. */
  readonly statusCode: string;
  /** `OK`, `Error`, or what the caller says. */
  readonly status: string;
  /** A number by the name of the attribute; undefined where there is none. */
  number(attribute: string): number | undefined;
}

/** Records come over the network: what they say does not decide how much memory is used. */
const MOST_SERIES = 500;
const LONGEST_LABEL = 64;
const OTHER = "_other";

interface Series {
  /** Values of `decision_type`, `http_status_code` and `flow_status`. */
  readonly labels: readonly string[];
  readonly counts: Float64Array;
  sum: number;
  /** Flows without a number. */
  invalid: number;
}

interface Meter {
  readonly rule: Pick<FluxMeterRule, "name" | "policyName" | "attributeKey">;
  readonly bounds: readonly number[];
  readonly series: Map<string, Series>;
}

export class FluxMeters implements Source {
  #meters: ReadonlyMap<string, Meter> = new Map();
  #byName: ReadonlyMap<string, Meter> = new Map();

  /**
   * Call in the turn in which new rules come into force. A meter that counts the same into the same buckets
   * goes on counting, whatever its selectors are; all others are removed. Names are global: of two rules
   * with one name the first counts.
   */
  keep(rules: Iterable<FluxMeterRule>): void {
    const meters = new Map<string, Meter>();
    const byName = new Map<string, Meter>();
    for (const rule of rules) {
      if (byName.has(rule.name)) continue;
      const { name, policyName, attributeKey, buckets } = rule;
      const key = JSON.stringify([name, policyName, attributeKey, buckets]);
      const meter = this.#meters.get(key) ?? { rule, bounds: boundsOf(buckets), series: new Map() };
      meters.set(key, meter);
      byName.set(name, meter);
    }
    this.#meters = meters;
    this.#byName = byName;
  }

  /** Counts a flow in the meters that its check matched. One that is gone counts nothing. */
  observe(names: Iterable<string>, flow: MeasuredFlow): void {
    for (const name of names) {
      const meter = this.#byName.get(name);
      if (meter === undefined) continue;
      const series = seriesOf(meter, flow);
      const value = flow.number(meter.rule.attributeKey);
      if (value === undefined) series.invalid++;
      else {
        const at = bucketOf(meter.bounds, value);
        series.counts[at] = (series.counts[at] ?? 0) + 1;
        series.sum += value;
      }
    }
  }

  collect(to: Sink): void {
    for (const { rule, bounds, series } of this.#byName.values()) {
      for (const { labels, counts, sum, invalid } of series.values()) {
        const all = [rule.name, rule.policyName, ...labels];
        if (counts.some((count) => count > 0)) {
          to.buckets("flux_meter", all, { bounds, counts, sum });
        }
        if (invalid > 0) to.number("invalid_flux_meter_total", all, invalid);
      }
    }
  }
}

function seriesOf({ bounds, series }: Meter, flow: MeasuredFlow): Series {
  const decision = flow.accepted ? "DECISION_TYPE_ACCEPTED" : "DECISION_TYPE_REJECTED";
  let labels = [decision, bounded(flow.statusCode), bounded(flow.status)];
  let key = JSON.stringify(labels);
  if (!series.has(key) && series.size >= MOST_SERIES) {
    labels = [decision, OTHER, OTHER];
    key = JSON.stringify(labels);
  }
  const known = series.get(key);
  if (known !== undefined) return known;
  const made = { labels, counts: new Float64Array(bounds.length + 1), sum: 0, invalid: 0 };
  series.set(key, made);
  return made;
}

function bounded(text: string): string {
  return text.length > LONGEST_LABEL ? OTHER : text.toWellFormed();
}

/** Index of the first bound that is not below the value. */
function bucketOf(bounds: readonly number[], value: number): number {
  let low = 0;
  let high = bounds.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (value <= (bounds[middle] ?? 0)) high = middle;
    else low = middle + 1;
  }
  return low;
}
