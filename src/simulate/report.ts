// Reports of a run: text tables for people, JSON for programs. In JSON, numbers that are not finite are null.

import type { ExpectationOutcome } from "./run/results/outcomes.ts";
import { round } from "./run/results/outcomes.ts";
import type { WindowRow } from "./run/results/rows.ts";
import { shortLabel } from "./scenario/expectation.ts";
import type { Simulation } from "./simulate.ts";

export function holds({ outcomes }: Simulation): boolean {
  return outcomes.every((outcome) => outcome.holds);
}

/** Lines of text. `time` is the time in which the run took place. */
export function reportLines(
  simulation: Simulation,
  time: "virtual" | "real" = "virtual",
): readonly string[] {
  const { policies, durationMs, seed, rows, outcomes, alerts, notes } = simulation;
  const names = policies.map(({ name, hash }) => `${name} (${hash})`).join(", ") || "no policy";
  const head = `${names}: ${seconds(durationMs)} of ${time} time, seed ${seed}`;
  const kept = outcomes.filter((outcome) => outcome.holds).length;
  const sections = [
    [head],
    rows.length === 0 ? [] : requestLines(rows),
    outcomes.length === 0 ? [] : outcomeLines(outcomes),
    alerts.map(
      ({ name, severity, from, until }) =>
        `alert ${name} (${severity}): ${seconds(from)}–${seconds(until)}`,
    ),
    notes.map(({ text, times, first }) => {
      const often = times === 1 ? "" : `, ${times} times`;
      return `note: ${text} (from ${seconds(first)}${often})`;
    }),
    outcomes.length === 0 ? [] : [`${kept} of ${outcomes.length} expectations hold`],
  ];
  return sections
    .filter((lines) => lines.length > 0)
    .flatMap((lines, at) => (at === 0 ? lines : ["", ...lines]));
}

const HEADS: readonly string[] = [
  "phase",
  "requests",
  "offered/s",
  "accepted/s",
  "goodput/s",
  "p50 ms",
  "p95 ms",
  "refused/s",
  "failed/s",
];

function requestLines(rows: readonly WindowRow[]): readonly string[] {
  return table(
    HEADS,
    rows.map((row) => {
      const { offered, accepted, goodput, p50, p95, refused, failed } = row;
      return [
        ...placeOf(row),
        ...[offered, accepted, goodput, p50, p95, refused, failed].map(cell),
      ];
    }),
    2,
  );
}

/** Phase and requests of a row. */
export function placeOf(row: WindowRow): readonly string[] {
  const whole = row.labels === undefined;
  return [
    whole ? `${row.phase} ${seconds(row.from)}–${seconds(row.until)}` : "",
    whole ? row.service : `  ${labelText(row.labels)}`,
  ];
}

function labelText(labels: Readonly<Record<string, string>> = {}): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${shortLabel(name)}=${value}`);
  return pairs.join(" ") || "no labels";
}

function outcomeLines(outcomes: readonly ExpectationOutcome[]): readonly string[] {
  return table(
    ["", "expectation", "wanted", "measured", "when"],
    outcomes.map(({ holds: kept, name, wanted, measured, from, until }) => [
      kept ? "holds" : "FAILS",
      name,
      name === wanted ? "" : wanted,
      measured,
      `${seconds(from)}–${seconds(until)}`,
    ]),
    5,
  );
}

export function cell(value: number): string {
  return Number.isFinite(value) ? value.toFixed(1) : "-";
}

/** Columns from index `numbers` on are aligned to the right. Empty columns are left out. */
export function table(
  heads: readonly string[],
  rows: readonly (readonly string[])[],
  numbers: number,
): readonly string[] {
  const kept = heads.flatMap((_, at) => (rows.some((row) => (row[at] ?? "") !== "") ? [at] : []));
  const all = [heads, ...rows];
  const widths = kept.map((at) => Math.max(...all.map((row) => (row[at] ?? "").length)));
  return all.map((row) =>
    kept
      .map((at, place) => {
        const text = row[at] ?? "";
        const width = widths[place] ?? 0;
        return at >= numbers ? text.padStart(width) : text.padEnd(width);
      })
      .join("  ")
      .trimEnd(),
  );
}

function seconds(ms: number): string {
  return `${round(ms / 1_000)}s`;
}

/** The report as one JSON value, with all readings of the named `series`. */
export function reportJson(simulation: Simulation, series: readonly string[]): unknown {
  const { policies, durationMs, seed, phases, rows, outcomes, alerts, notes } = simulation;
  const pick = (from: number, until: number) => ({ from_s: from / 1_000, until_s: until / 1_000 });
  return {
    holds: holds(simulation),
    policies,
    duration_s: durationMs / 1_000,
    seed,
    phases: phases.map(({ name, from, until }) => ({ name, ...pick(from, until) })),
    requests: rows.map(({ from, until, labels, p50, p95, ...row }) => ({
      ...row,
      ...pick(from, until),
      labels: labels ?? null,
      p50_ms: plain(p50),
      p95_ms: plain(p95),
    })),
    expectations: outcomes.map(({ from, until, least, greatest, ...outcome }) => ({
      ...outcome,
      ...pick(from, until),
      least: plain(least),
      greatest: plain(greatest),
    })),
    alerts: alerts.map(({ from, until, ...alert }) => ({ ...alert, ...pick(from, until) })),
    notes: notes.map(({ text, times, first }) => ({ text, times, first_s: first / 1_000 })),
    series: Object.fromEntries(
      series.map((name) => {
        const { times = [], values = [] } = simulation.seriesOf(name) ?? {};
        return [name, times.map((at, place) => [at / 1_000, plain(values[place] ?? Number.NaN)])];
      }),
    ),
  };
}

function plain(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}
