// Trying policies in virtual time: a scenario is judged beside the policies, run, and its expectations are
// judged by what happened.

import type { CompiledPolicy } from "#policy/compiled.ts";
import type { Finding } from "#policy/finding.ts";
import { OwnMeasure } from "#promql/own.ts";
import { SampleStore } from "#promql/samples.ts";
import type { Note } from "./run/notes.ts";
import { type Named, prepare } from "./run/prepare.ts";
import { rowsOf, type WindowRow } from "./run/rows.ts";
import type { Line } from "./run/series.ts";
import { judgeExpectation, type Outcome, type RaisedAlert } from "./run/verdicts.ts";
import { World } from "./run/world.ts";
import type { Panel, Scenario, Window } from "./scenario.ts";

export interface SimulationInput {
  /** Of one set, compiled for queries of a Prometheus server: what the scenario answers is not asked here. */
  readonly policies: readonly CompiledPolicy[];
  readonly scenario: Scenario;
  /** Texts of `filesOf` the scenario. */
  readonly files: ReadonlyMap<string, string>;
}

/** Lines that are drawn over each other, as they were found. */
export interface DrawnPanel {
  readonly title: string;
  readonly lines: readonly Line[];
}

export interface Simulation {
  readonly policies: readonly { readonly name: string; readonly hash: string }[];
  readonly durationMs: number;
  readonly seed: number;
  readonly phases: readonly Window[];
  /** What became of requests: in each phase, of all and of each sort. */
  readonly rows: readonly WindowRow[];
  readonly outcomes: readonly Outcome[];
  readonly alerts: readonly RaisedAlert[];
  readonly notes: readonly Note[];
  /** A signal or model series by any of its names; undefined when there is none. */
  line(name: string): Line | undefined;
  /** All names that `line` knows. */
  readonly names: readonly string[];
  /** The scenario's panels, or the ones that every service has. */
  readonly panels: readonly DrawnPanel[];
}

export type Simulated =
  | { readonly ok: true; readonly simulation: Simulation }
  /** Places are those of the scenario. */
  | { readonly ok: false; readonly findings: readonly Finding[] };

/** Equal inputs give equal results. Throws INVALID_ARGUMENT when the scenario makes more requests than fit. */
export async function simulate(input: SimulationInput): Promise<Simulated> {
  const { policies, scenario, files } = input;
  const prepared = prepare(policies, scenario, files);
  if (prepared.findings.length > 0) return { ok: false, findings: prepared.findings };
  const samples = new SampleStore();
  samples.want(prepared.queries);
  const { scripts, names } = prepared;
  const measure = new OwnMeasure(samples);
  const world = new World({ policies, scenario, scripts, samples, measure });
  await world.run();
  if (samples.dropped > 0) {
    world.notes.add(`${samples.dropped} samples of meters were lost: too many series`, 0);
  }
  return { ok: true, simulation: told(input, world, names) };
}

function told({ policies, scenario }: SimulationInput, world: World, names: Named): Simulation {
  const { durationMs, seed, phases, services, expectations, plot } = scenario;
  const { ledger, series, notes } = world;
  const alerts = world.alerts.all;
  const fullName = (name: string) => names.get(name)?.[0] ?? name;
  const line = (name: string) => series.line(fullName(name));
  const evidence = { ledger, services, series, alerts, fullName };
  const outcomes = expectations.map(({ value }) => {
    const phase = phases.find(({ name }) => name === value.phase);
    const from = phase?.from ?? value.from ?? 0;
    const until = phase?.until ?? value.until ?? durationMs;
    return judgeExpectation(value, { from, until }, evidence);
  });
  return {
    ...{ durationMs, seed, phases, outcomes, alerts, line },
    names: [...names.keys()],
    policies: policies.map(({ name, hash }) => ({ name, hash })),
    rows: rowsOf(phases, services, ledger),
    notes: notes.all,
    panels: (plot.length > 0 ? plot : usualPanels(scenario)).map(({ title, series: wanted }) => ({
      title,
      lines: wanted.flatMap(({ value }) => {
        const found = line(value);
        return found === undefined ? [] : [{ ...found, name: value }];
      }),
    })),
  };
}

function usualPanels({ services }: Scenario): readonly Panel[] {
  return services.flatMap(({ name }) => [
    panel(`${name}: requests a second`, name, ["offered", "accepted", "goodput"]),
    panel(`${name}: latency, ms`, name, ["latency_p50", "latency_p95"]),
  ]);
}

function panel(title: string, service: string, series: readonly string[]): Panel {
  const at = { line: 1, column: 1 };
  return { title, series: series.map((one) => ({ value: `${service}.${one}`, at, path: [] })) };
}
