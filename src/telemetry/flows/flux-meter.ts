// Flux meters: histograms that policies define, filled from the records of flows that have ended. Circuits read
// them as measurements.

import type { FluxMeterRule } from "#flow/rules.ts";
import type { MetricSink, MetricSource } from "../metrics/table.ts";
import { boundsOf } from "./flux-meter-buckets.ts";

/** One flow that has ended. */
export interface MeasuredFlow {
  readonly accepted: boolean;
  /** Empty when unknown. */
  readonly statusCode: string;
  /** `OK`, `Error`, or a status that the caller reports. */
  readonly status: string;
  /** The number in an attribute; undefined where there is none. */
  number(attribute: string): number | undefined;
}

/** Records come over the network: their content must not decide how much memory is used. */
const MAX_SERIES = 500;
/** For all series of one meter together: readers have a bound for all meters. */
const MAX_SAMPLES = 10_000;
const LONGEST_LABEL = 64;
const OTHER = "_other";
/** Empty, 0 (the proxy's value for a flow without a response), or a status code. */
const STATUS_CODE = /^(?:0|[1-9]\d\d)?$/;
/** No duration and no length exceeds it, and it keeps sums finite and exact. */
const MAX_VALUE = 1e15;

interface Series {
  /** Values of `decision_type`, `http_status_code` and `flow_status`. */
  readonly labels: readonly string[];
  readonly counts: Float64Array;
  sum: number;
  /** Number of flows whose attribute was missing or no number. */
  invalid: number;
}

interface Meter {
  readonly rule: Pick<FluxMeterRule, "name" | "policyName" | "attributeKey">;
  readonly bounds: readonly number[];
  readonly series: Map<string, Series>;
  /** Number of series with labels of their own; those of `_other` come on top. */
  readonly mostSeries: number;
}

export class FluxMeters implements MetricSource {
  #meters: ReadonlyMap<string, Meter> = new Map();
  #byName: ReadonlyMap<string, Meter> = new Map();

  /**
   * Call in the turn in which new rules come into force. A meter that counts the same attribute into the same buckets
   * continues, whatever its selectors are; all others are removed. Names are global: of two rules with one name the
   * first counts.
   */
  keep(rules: Iterable<FluxMeterRule>): void {
    const meters = new Map<string, Meter>();
    const byName = new Map<string, Meter>();
    for (const rule of rules) {
      if (byName.has(rule.name)) continue;
      const { name, policyName, attributeKey, buckets } = rule;
      const key = JSON.stringify([name, policyName, attributeKey, buckets]);
      const meter = this.#meters.get(key) ?? meterOf(rule);
      meters.set(key, meter);
      byName.set(name, meter);
    }
    this.#meters = meters;
    this.#byName = byName;
  }

  /** Counts a flow in the meters that its check matched. Meters that no longer exist are skipped. */
  observe(names: Iterable<string>, flow: MeasuredFlow): void {
    for (const name of names) {
      const meter = this.#byName.get(name);
      if (meter === undefined) continue;
      const series = seriesOf(meter, flow);
      const value = flow.number(meter.rule.attributeKey);
      if (value === undefined || !(Math.abs(value) <= MAX_VALUE)) series.invalid++;
      else {
        const at = bucketOf(meter.bounds, value);
        series.counts[at] = (series.counts[at] ?? 0) + 1;
        series.sum += value;
      }
    }
  }

  collect(to: MetricSink): void {
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

function meterOf(rule: FluxMeterRule): Meter {
  const bounds = boundsOf(rule.buckets);
  // Buckets, +Inf, sum, count, and the flows without a number.
  const samples = bounds.length + 4;
  // Accepted and rejected flows each have an `_other`.
  const mostSeries = Math.min(MAX_SERIES, Math.floor(MAX_SAMPLES / samples)) - 2;
  return { rule, bounds, series: new Map(), mostSeries };
}

function seriesOf({ bounds, series, mostSeries }: Meter, flow: MeasuredFlow): Series {
  const decision = flow.accepted ? "DECISION_TYPE_ACCEPTED" : "DECISION_TYPE_REJECTED";
  const statusCode = STATUS_CODE.test(flow.statusCode) ? flow.statusCode : OTHER;
  let labels = [decision, statusCode, bounded(flow.status)];
  let key = JSON.stringify(labels);
  if (!series.has(key) && series.size >= mostSeries) {
    labels = [decision, OTHER, OTHER];
    key = JSON.stringify(labels);
  }
  const known = series.get(key);
  if (known !== undefined) return known;
  const added = { labels, counts: new Float64Array(bounds.length + 1), sum: 0, invalid: 0 };
  series.set(key, added);
  return added;
}

function bounded(text: string): string {
  return text.length > LONGEST_LABEL ? OTHER : text.toWellFormed();
}

/** Index of the first bound that is at least the value; the number of bounds when there is none. */
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
