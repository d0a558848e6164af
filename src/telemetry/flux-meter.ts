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
/** Of one meter, all its series together: what reads them has a bound for all meters. */
const MOST_SAMPLES = 10_000;
const LONGEST_LABEL = 64;
const OTHER = "_other";
/** Absent, the proxy's mark for a flow without a response, or a code. */
const STATUS_CODE = /^(?:0|[1-9]\d\d)?$/;
/** No duration and no length is beyond it, and it keeps sums finite and exact. */
const MOST_VALUE = 1e15;

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
  /** Series with labels of their own; beside them there are those of `_other`. */
  readonly mostSeries: number;
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
      const meter = this.#meters.get(key) ?? meterOf(rule);
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
      if (value === undefined || !(Math.abs(value) <= MOST_VALUE)) series.invalid++;
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

function meterOf(rule: FluxMeterRule): Meter {
  const bounds = boundsOf(rule.buckets);
  // Buckets with +Inf, sum, count, and the flows without a number.
  const samples = bounds.length + 4;
  // Each of the two decisions has an `_other`.
  const mostSeries = Math.min(MOST_SERIES, Math.floor(MOST_SAMPLES / samples)) - 2;
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
