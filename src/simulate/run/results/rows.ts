// Request figures of each phase: per service, and per request class where a service has several.

import { type AttemptCounts, type Ledger, percentile } from "../../model/ledger.ts";
import type { RequestClass, ServiceSpec } from "../../scenario/service.ts";
import type { TimeWindow } from "../../scenario.ts";
import { REASONS } from "./outcomes.ts";

export interface WindowRow {
  readonly phase: string;
  /** Milliseconds; `until` is excluded. */
  readonly from: number;
  readonly until: number;
  readonly service: string;
  /** Undefined: all requests of the service. */
  readonly labels: Readonly<Record<string, string>> | undefined;
  /** Per second. */
  readonly offered: number;
  readonly accepted: number;
  readonly goodput: number;
  readonly failed: number;
  readonly refused: number;
  /** Number of refusals by reason, without zeros. */
  readonly refusals: Readonly<Record<string, number>>;
  /** Milliseconds; NaN when nothing ended. */
  readonly p50: number;
  readonly p95: number;
}

export function rowsOf(
  phases: readonly TimeWindow[],
  services: readonly ServiceSpec[],
  ledger: Ledger,
): readonly WindowRow[] {
  return phases.flatMap((phase) => {
    let place = 0;
    return services.flatMap(({ name, mix }) => {
      const classes = mix.map((requestClass) => ({ requestClass, place: place++ }));
      const row = (labels: RequestClass["labels"] | undefined, places: readonly number[]) => {
        const { from, until } = phase;
        const tally = ledger.tally({ from, until, classes: new Set(places) });
        return { phase: phase.name, from, until, service: name, labels, ...figures(tally, phase) };
      };
      const all = row(
        undefined,
        classes.map((one) => one.place),
      );
      if (classes.length === 1) return [all];
      return [all, ...classes.map((one) => row(one.requestClass.labels, [one.place]))];
    });
  });
}

function figures(tally: AttemptCounts, { from, until }: TimeWindow) {
  const perSecond = (count: number) => (count * 1_000) / (until - from);
  const refusals = Object.entries(REASONS).flatMap(([name, reason]) => {
    const count = tally.refused.get(reason) ?? 0;
    return count === 0 ? [] : [[name, count] as const];
  });
  return {
    offered: perSecond(tally.offered),
    accepted: perSecond(tally.accepted),
    goodput: perSecond(tally.answered),
    failed: perSecond(tally.failed),
    refused: perSecond(tally.offered - tally.accepted),
    refusals: Object.fromEntries(refusals),
    p50: percentile(tally.latencies, 50),
    p95: percentile(tally.latencies, 95),
  };
}
