// What became of requests, phase by phase: of each service, and of each sort where it has several.

import { type Ledger, percentile, type Tally } from "../model/ledger.ts";
import type { Served, Sort } from "../scenario/served.ts";
import type { Window } from "../scenario.ts";
import { REASONS } from "./verdicts.ts";

export interface WindowRow {
  readonly phase: string;
  /** Milliseconds; `until` is not part of it. */
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
  /** Counts by reason; those without any are left out. */
  readonly refusals: Readonly<Record<string, number>>;
  /** Milliseconds; NaN when nothing ended. */
  readonly p50: number;
  readonly p95: number;
}

export function rowsOf(
  phases: readonly Window[],
  services: readonly Served[],
  ledger: Ledger,
): readonly WindowRow[] {
  return phases.flatMap((phase) => {
    let place = 0;
    return services.flatMap(({ name, mix }) => {
      const sorts = mix.map((sort) => ({ sort, place: place++ }));
      const row = (labels: Sort["labels"] | undefined, places: readonly number[]) => {
        const { from, until } = phase;
        const tally = ledger.tally({ from, until, sorts: new Set(places) });
        return { phase: phase.name, from, until, service: name, labels, ...figures(tally, phase) };
      };
      const all = row(
        undefined,
        sorts.map((one) => one.place),
      );
      if (sorts.length === 1) return [all];
      return [all, ...sorts.map((one) => row(one.sort.labels, [one.place]))];
    });
  });
}

function figures(tally: Tally, { from, until }: Window) {
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
