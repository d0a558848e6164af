// Simulates policies in virtual time: checks a scenario against the policies, runs it, and evaluates its
// expectations.

import type { CompiledPolicy } from "#policy/compiled.ts";
import type { Finding } from "#policy/document/finding.ts";
import { LocalQueryEngine } from "#promql/local-engine.ts";
import { SampleStore } from "#promql/samples.ts";
import type { Ledger } from "./model/ledger.ts";
import { prepare, type SeriesNames } from "./run/prepare.ts";
import type { AlertHistory } from "./run/results/alerts.ts";
import type { Note, Notes } from "./run/results/notes.ts";
import {
  type ExpectationOutcome,
  evaluateExpectation,
  type RaisedAlert,
} from "./run/results/outcomes.ts";
import { rowsOf, type WindowRow } from "./run/results/rows.ts";
import type { RunSeries, TimeSeries } from "./run/results/series.ts";
import { SimulationRun } from "./run/simulation-run.ts";
import type { Panel, Scenario, TimeWindow } from "./scenario.ts";

export interface SimulationInput {
  /** Policies of one set, compiled for queries to a Prometheus server: the scenario may script any answers. */
  readonly policies: readonly CompiledPolicy[];
  readonly scenario: Scenario;
  /** Texts by file name, for all of `filesOf(scenario)`. */
  readonly files: ReadonlyMap<string, string>;
}

/** A panel with the series that it draws. */
export interface DrawnPanel {
  readonly title: string;
  readonly lines: readonly TimeSeries[];
}

export interface Simulation {
  readonly policies: readonly { readonly name: string; readonly hash: string }[];
  readonly durationMs: number;
  readonly seed: number;
  readonly phases: readonly TimeWindow[];
  /** Request figures of each phase, by service and request class. */
  readonly rows: readonly WindowRow[];
  readonly outcomes: readonly ExpectationOutcome[];
  readonly alerts: readonly RaisedAlert[];
  readonly notes: readonly Note[];
  /** A signal or model series by any of its names; undefined when unknown. */
  seriesOf(name: string): TimeSeries | undefined;
  /** All names that `seriesOf` accepts. */
  readonly names: readonly string[];
  /** The scenario's panels, or the default ones of each service. */
  readonly panels: readonly DrawnPanel[];
}

export type Simulated =
  | { readonly ok: true; readonly simulation: Simulation }
  /** Positions are in the scenario. */
  | { readonly ok: false; readonly findings: readonly Finding[] };

/** Checks and runs a scenario; equal inputs give equal results. Throws INVALID_ARGUMENT when retries raise the requests above the limit. */
export async function simulate(input: SimulationInput): Promise<Simulated> {
  const { policies, scenario, files } = input;
  const prepared = prepare(policies, scenario, files);
  if (prepared.findings.length > 0) return { ok: false, findings: prepared.findings };
  const samples = new SampleStore();
  samples.setQueries(prepared.queries);
  const { scripts, names } = prepared;
  const measure = new LocalQueryEngine(samples);
  const run = new SimulationRun({ policies, scenario, scripts, samples, measure });
  await run.run();
  if (samples.dropped > 0) {
    run.notes.add(`${samples.dropped} samples of meters were lost: too many series`, 0);
  }
  return { ok: true, simulation: judged(input, run, names) };
}

/** The record of a run. */
interface RunRecord {
  readonly ledger: Ledger;
  readonly series: RunSeries;
  readonly notes: Notes;
  readonly alerts: AlertHistory;
}

/** Evaluates the record of a run. */
export function judged(
  { policies, scenario }: SimulationInput,
  { ledger, series, notes, alerts: { all: alerts } }: RunRecord,
  names: SeriesNames,
): Simulation {
  const { durationMs, seed, phases, services, expectations, plot } = scenario;
  const fullName = (name: string) => names.get(name)?.[0] ?? name;
  const seriesOf = (name: string) => series.get(fullName(name));
  const evidence = { ledger, services, series, alerts, fullName };
  const outcomes = expectations.map(({ value }) => {
    const phase = phases.find(({ name }) => name === value.phase);
    const from = phase?.from ?? value.from ?? 0;
    const until = phase?.until ?? value.until ?? durationMs;
    return evaluateExpectation(value, { from, until }, evidence);
  });
  return {
    durationMs,
    seed,
    phases,
    outcomes,
    alerts,
    seriesOf,
    names: [...names.keys()],
    policies: policies.map(({ name, hash }) => ({ name, hash })),
    rows: rowsOf(phases, services, ledger),
    notes: notes.all,
    panels: (plot.length > 0 ? plot : defaultPanels(scenario)).map(({ title, series: wanted }) => ({
      title,
      lines: wanted.flatMap(({ value }) => {
        const found = seriesOf(value);
        return found === undefined ? [] : [{ ...found, name: value }];
      }),
    })),
  };
}

function defaultPanels({ services }: Scenario): readonly Panel[] {
  return services.flatMap(({ name }) => [
    panel(`${name}: requests a second`, name, ["offered", "accepted", "goodput"]),
    panel(`${name}: latency, ms`, name, ["latency_p50", "latency_p95"]),
  ]);
}

function panel(title: string, service: string, series: readonly string[]): Panel {
  const at = { line: 1, column: 1 };
  return { title, series: series.map((one) => ({ value: `${service}.${one}`, at, path: [] })) };
}
