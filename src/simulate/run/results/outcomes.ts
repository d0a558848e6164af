// Evaluates expectations: whether each holds, and what was measured.

import { RejectReason } from "#flow/flow.ts";
import { type AttemptCounts, type Ledger, percentile } from "../../model/ledger.ts";
import {
  type Bounds,
  describeMeasure,
  type Expectation,
  type Measure,
  type Refusal,
  type RequestFilter,
} from "../../scenario/expectation.ts";
import type { ServiceSpec } from "../../scenario/service.ts";
import { type RunSeries, reversals, within } from "./series.ts";

/** An alert with the times when it was first and last raised, ms. */
export interface RaisedAlert {
  readonly name: string;
  readonly severity: string;
  readonly from: number;
  readonly until: number;
}

export interface ExpectationOutcome {
  /** The name given by the author, or a description. */
  readonly name: string;
  /** Milliseconds; `until` is excluded. */
  readonly from: number;
  readonly until: number;
  /** The expectation in words. */
  readonly wanted: string;
  readonly holds: boolean;
  /** The smallest and greatest of several readings; the same number twice for a single measurement. */
  readonly least: number;
  readonly greatest: number;
  /** The measurement in words, with its unit. */
  readonly measured: string;
}

/** Results of a run that expectations are evaluated against. */
export interface RunResults {
  readonly ledger: Ledger;
  readonly series: RunSeries;
  readonly services: readonly ServiceSpec[];
  readonly alerts: readonly RaisedAlert[];
  /** The full name of a signal or series, by any of its names. */
  fullName(name: string): string;
}

export function evaluateExpectation(
  expectation: Expectation,
  window: { readonly from: number; readonly until: number },
  evidence: RunResults,
): ExpectationOutcome {
  const { measure, bounds, name } = expectation;
  const { from, until } = window;
  const wanted = describeMeasure(expectation);
  const { least, greatest, note } = measured(measure, window, evidence);
  const unit = measure.kind === "latency" ? " ms" : "";
  const range = least === greatest ? round(least) : `${round(least)} to ${round(greatest)}`;
  return {
    name: name ?? wanted,
    from,
    until,
    wanted,
    least,
    greatest,
    holds: holds(bounds, least, greatest),
    measured: note ?? `${range}${unit}`,
  };
}

/** False when there was nothing to measure (NaN). */
function holds(bounds: Bounds, least: number, greatest: number): boolean {
  if (Number.isNaN(least) || Number.isNaN(greatest)) return false;
  const { above, below, at_least, at_most } = bounds;
  return (
    (above === undefined || least > above) &&
    (at_least === undefined || least >= at_least) &&
    (below === undefined || greatest < below) &&
    (at_most === undefined || greatest <= at_most)
  );
}

interface Measured {
  readonly least: number;
  readonly greatest: number;
  readonly note: string | undefined;
}

function measured(
  measure: Measure,
  { from, until }: { readonly from: number; readonly until: number },
  evidence: RunResults,
): Measured {
  if (measure.kind === "alerts") {
    const raised = evidence.alerts.filter(
      (alert) =>
        alert.until >= from &&
        alert.from < until &&
        (measure.name === undefined || measure.name === alert.name),
    );
    return one(raised.length, undefined);
  }
  if ("which" in measure) {
    const classes = classesOf(measure.which, evidence.services);
    const value = ofTally(measure, evidence.ledger.tally({ from, until, classes }), until - from);
    return one(value, Number.isNaN(value) ? "no such requests" : undefined);
  }
  const line = evidence.series.get(evidence.fullName(measure.name));
  return ofReadings(measure, line === undefined ? [] : within(line, from, until));
}

function ofReadings(
  measure: Measure & { readonly name: string | undefined },
  all: readonly number[],
): Measured {
  const valid = all.filter((value) => !Number.isNaN(value));
  if (measure.kind === "valid_share") {
    return one(valid.length / all.length, all.length === 0 ? "no readings" : undefined);
  }
  if (valid.length === 0) return one(Number.NaN, "no valid reading");
  if (measure.kind === "reversals") return one(reversals(valid, measure.amplitude), undefined);
  const least = valid.reduce((a, b) => Math.min(a, b));
  const greatest = valid.reduce((a, b) => Math.max(a, b));
  if (measure.kind === "spread") return one(greatest - least, undefined);
  return { least, greatest, note: undefined };
}

function one(value: number, note: string | undefined): Measured {
  return { least: value, greatest: value, note };
}

type RequestMeasure = Extract<Measure, { readonly which: RequestFilter }>;

function ofTally(measure: RequestMeasure, tally: AttemptCounts, spanMs: number): number {
  const perSecond = (count: number) => (count * 1_000) / spanMs;
  switch (measure.kind) {
    case "latency":
      return percentile(tally.latencies, measure.percentile);
    case "offered":
      return perSecond(tally.offered);
    case "accepted":
      return perSecond(tally.accepted);
    case "goodput":
      return perSecond(tally.answered);
    case "accept_share":
      return tally.accepted / tally.offered;
    case "failed_share":
      return tally.failed / (tally.failed + tally.answered);
    case "refused_share": {
      const { reason } = measure;
      const counts = [...tally.refused].filter(
        ([refused]) => reason === undefined || refused === REASONS[reason],
      );
      return counts.reduce((sum, [, count]) => sum + count, 0) / tally.offered;
    }
  }
}

export const REASONS: Readonly<Record<Refusal, RejectReason>> = {
  rate_limited: RejectReason.rateLimited,
  no_tokens: RejectReason.noTokens,
  not_sampled: RejectReason.notSampled,
  no_matching_ramp: RejectReason.noMatchingRamp,
};

/** Indexes of request classes in the ledger, in the order in which services and their mixes are written. */
export function classesOf(
  { service, labels }: RequestFilter,
  services: readonly ServiceSpec[],
): ReadonlySet<number> {
  const found = new Set<number>();
  let place = 0;
  for (const { name, mix } of services) {
    for (const requestClass of mix) {
      const fits = Object.entries(labels).every(
        ([key, value]) => requestClass.labels[key] === value,
      );
      if (fits && (service === undefined || service === name)) found.add(place);
      place++;
    }
  }
  return found;
}

/** Formats a number with about three significant digits. */
export function round(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 3;
  return String(Number(value.toFixed(digits)));
}
