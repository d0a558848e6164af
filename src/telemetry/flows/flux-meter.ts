// Flux meters: histograms that policies define, filled from the records of flows that have ended. Circuits read
// them as measurements.

import type { FluxMeterRule } from "#flow/rules.ts";
import { STATUS_CODES as HTTP_STATUS_CODES } from "#runtime/life/node-http.ts";
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

/**
 * Samples of all meters together, divided among them in equal parts. Records come over the network: invented
 * ones must not use up the store that queries are answered from, which has room for twice as many.
 */
const MAX_SAMPLES = 10_000;
/** Stands for all values that are not known. */
const OTHER = "other";
/** The values of `flow_status` besides `other`. */
const STATUSES: ReadonlySet<string> = new Set(["OK", "Error"]);
/**
 * The values of `http_status_code` besides `other`: none, 0 (the proxy's value for a flow without a response), the
 * codes of IANA's registry, and 499, which proxies log for a client that closed its connection.
 */
const STATUS_CODES: ReadonlySet<string> = new Set([
  "",
  "0",
  "499",
  ...Object.keys(HTTP_STATUS_CODES),
]);
/** Series for known codes that a meter can always have, however many meters there are. */
const MIN_SERIES = 4;
/** Series of a meter for `other` codes: one for each decision and status. They are never refused. */
const OTHER_SERIES = 2 * (STATUSES.size + 1);
/** No duration and no length exceeds it, and it keeps sums finite and exact. */
const MAX_VALUE = 1e15;

interface Series {
  /** Values of `decision_type`, `http_status_code` and `flow_status`. */
  readonly labels: readonly string[];
  readonly counts: Float64Array;
  sum: number;
  /** Number of flows whose attribute was missing or no number. */
  invalid: number;
  /** A flow was counted since the last sweep. */
  used: boolean;
}

interface Meter {
  readonly rule: Pick<FluxMeterRule, "name" | "policyName" | "attributeKey">;
  readonly bounds: readonly number[];
  readonly series: Map<string, Series>;
}

export class FluxMeters implements MetricSource {
  #meters: ReadonlyMap<string, Meter> = new Map();
  #byName: ReadonlyMap<string, Meter> = new Map();
  /** Samples that each meter may have. */
  #share = MAX_SAMPLES;

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
    this.#share = Math.floor(MAX_SAMPLES / Math.max(1, byName.size));
  }

  /**
   * Removes the series without a flow since the sweep before, unless it is the last one of its meter with this
   * decision and status: a query for those then still sees that nothing happens.
   */
  sweep(): void {
    for (const { series } of this.#byName.values()) {
      const used = [...series.values()].filter((each) => each.used);
      for (const [key, { labels, used: kept }] of series) {
        const sister = used.some((each) => sameOutcome(each.labels, labels));
        if (!kept && sister) series.delete(key);
      }
      for (const each of series.values()) each.used = false;
    }
  }

  /** Counts a flow in the meters that its check matched. Meters that no longer exist are skipped. */
  observe(names: Iterable<string>, flow: MeasuredFlow): void {
    for (const name of names) {
      const meter = this.#byName.get(name);
      if (meter === undefined) continue;
      const series = seriesOf(meter, flow, this.#share);
      series.used = true;
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
  return { rule, bounds: boundsOf(rule.buckets), series: new Map() };
}

/** `share`: the number of samples that the meter may have. */
function seriesOf(meter: Meter, flow: MeasuredFlow, share: number): Series {
  const decision = flow.accepted ? "DECISION_TYPE_ACCEPTED" : "DECISION_TYPE_REJECTED";
  const status = STATUSES.has(flow.status) ? flow.status : OTHER;
  const statusCode = STATUS_CODES.has(flow.statusCode) ? flow.statusCode : OTHER;
  const key = `${decision} ${statusCode} ${status}`;
  const known = meter.series.get(key);
  if (known !== undefined) return known;
  if (statusCode !== OTHER && meter.series.size >= mostSeries(meter, share)) {
    return seriesOf(meter, { ...flow, statusCode: OTHER }, share);
  }
  const counts = new Float64Array(meter.bounds.length + 1);
  const labels = [decision, statusCode, status];
  const added = { labels, counts, sum: 0, invalid: 0, used: false };
  meter.series.set(key, added);
  return added;
}

/** Number of series for known codes. */
function mostSeries({ bounds }: Meter, share: number): number {
  // Buckets, +Inf, sum, count, and the flows without a number.
  const samples = bounds.length + 4;
  return Math.max(MIN_SERIES, Math.floor(share / samples) - OTHER_SERIES);
}

/** Same decision and status, which are the first and last label. */
function sameOutcome(one: readonly string[], other: readonly string[]): boolean {
  return one[0] === other[0] && one[2] === other[2];
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
