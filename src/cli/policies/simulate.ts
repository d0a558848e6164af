// `sluice simulate`: runs policies in virtual time against a scenario and prints the result. The exit code tells whether
// all expectations of the scenario hold.

import { writeFile } from "node:fs/promises";
import { dirname, extname, resolve } from "node:path";
import { Fault, systemErrorText } from "#base/fault.ts";
import { nearest } from "#base/text/spelling.ts";
import { MAX_BYTES } from "#controller/policy-directory.ts";
import { findingLine, warningLine } from "#policy/format.ts";
import type { CompiledSet } from "#policy/set.ts";
import { unmetNeeds } from "#policy/unmet-needs.ts";
import { EXIT } from "#runtime/life/run.ts";
import { readTextFileOrPipe } from "#runtime/life/text-file.ts";
import { plotSvg } from "#simulate/plot.ts";
import { holds, reportJson, reportLines } from "#simulate/report.ts";
import { filesOf, readScenario, type Scenario } from "#simulate/scenario.ts";
import { type Simulation, simulate } from "#simulate/simulate.ts";
import type { Command } from "../subcommands.ts";
import { type Paint, paintFor, printJson, type Terminal } from "../terminal.ts";
import { compileFiles } from "./files.ts";

const NO_POLICIES: CompiledSet = { policies: [], findings: [], warnings: [] };
/** Recordings are larger than documents that people write. */
const MAX_RECORDING_BYTES = 64 * 1024 * 1024;

export const simulateCommand: Command<"simulate"> = async ({ flags, operands }, terminal) => {
  const { scenario: file, seed, plot, series = [], json, "agent-group": agentGroup } = flags;
  const names = series.flatMap((each) => each.split(","));
  if (file === undefined) throw usage("--scenario FILE", "none");
  if (plot !== undefined && extname(plot).toLowerCase() !== ".svg") {
    throw usage("a file name that ends in .svg for --plot, which draws SVG", plot);
  }
  if (series.length > 0 && plot === undefined && json !== true) {
    throw usage(
      "--plot FILE.svg or --json together with --series, which selects what they show",
      "neither",
    );
  }
  // Without policies only the service is simulated. Queries that Sluice cannot evaluate itself may be answered by the
  // scenario, so the full dialect is accepted.
  const set =
    operands.length === 0
      ? NO_POLICIES
      : await compileFiles("simulate", operands, terminal, { agentGroup });
  const text = await readTextFileOrPipe(file, MAX_BYTES);
  const { scenario, findings } = readScenario(text, agentGroup, file);
  const refused = [...set.findings, ...findings].map(findingLine);
  if (scenario === undefined || refused.length > 0) return refuse(terminal, refused);
  const simulated = await simulate({
    policies: set.policies,
    scenario: seed === undefined ? scenario : { ...scenario, seed: seedOf(seed) },
    files: await recordings(file, scenario),
  });
  if (!simulated.ok) return refuse(terminal, simulated.findings.map(findingLine));
  const { simulation } = simulated;
  for (const name of names) known(simulation, name);
  for (const warning of [...set.warnings, ...withoutAgent(set, scenario)])
    terminal.err(`${warningLine(warning)} (warning)\n`);
  if (plot !== undefined) await draw(plot, simulation, series);
  if (json) printJson(terminal, reportJson(simulation, names));
  else {
    const paint = painted(paintFor(terminal, "out"));
    for (const text of reportLines(simulation)) terminal.out(`${paint(text)}\n`);
  }
  return holds(simulation) ? EXIT.clean : EXIT.refused;
};

/** Warnings of selectors whose group is not that of the simulated agent. */
function withoutAgent({ policies }: CompiledSet, { agentGroup }: Scenario) {
  const unmet = unmetNeeds(policies, { agentGroups: [agentGroup] });
  return policies.flatMap(({ source, name }) =>
    (unmet.get(name) ?? [])
      .filter(({ code }) => code === "unknown_agent_group")
      .map((warning) => ({ ...warning, source })),
  );
}

/** Colours the lines that say whether expectations hold. */
function painted(paint: Paint): (line: string) => string {
  return (line) => {
    if (line.startsWith("holds ")) return line.replace("holds", (word) => paint("good", word));
    if (line.startsWith("FAILS ")) return line.replace("FAILS", (word) => paint("bad", word));
    const [, kept, all] = /^(\d+) of (\d+) expectations hold$/.exec(line) ?? [];
    return kept === undefined ? line : paint(kept === all ? "good" : "bad", line);
  };
}

/** The files that a scenario names, by paths relative to the scenario or absolute. */
async function recordings(file: string, scenario: Scenario): Promise<ReadonlyMap<string, string>> {
  const names = filesOf(scenario);
  const read = names.map(async (name) => {
    return [
      name,
      await readTextFileOrPipe(resolve(dirname(file), name), MAX_RECORDING_BYTES),
    ] as const;
  });
  return new Map(await Promise.all(read));
}

/** Draws one panel for each `--series`, or the panels of the scenario if there is none. */
async function draw(
  file: string,
  simulation: Simulation,
  series: readonly string[],
): Promise<void> {
  const { durationMs, phases, policies: of } = simulation;
  const chosen = series.map((names) => ({
    title: "",
    lines: names.split(",").map((name) => ({ ...known(simulation, name), name })),
  }));
  const title = of.map(({ name }) => name).join(", ");
  const panels = chosen.length > 0 ? chosen : simulation.panels;
  try {
    await writeFile(file, plotSvg({ title, durationMs, phases, panels }));
  } catch (thrown) {
    throw usage(`a file for --plot that can be written`, `${file}: ${systemErrorText(thrown)}`);
  }
}

function known(simulation: Simulation, name: string) {
  const found = simulation.seriesOf(name);
  if (found !== undefined) return found;
  const near = nearest(name, simulation.names);
  const hint = near === undefined ? "" : `; did you mean ${near}?`;
  throw usage(`a signal or model series for --series${hint}`, name);
}

function seedOf(text: string): number {
  const seed = Number(text);
  if (/^\d+$/.test(text) && seed < 2 ** 32) return seed;
  throw usage("a whole number below 2^32 for --seed", text);
}

function refuse(terminal: Terminal, lines: readonly string[]): number {
  for (const each of lines) terminal.err(`${each}\n`);
  return EXIT.usage;
}

function usage(wanted: string, got: string): Fault {
  return new Fault("INVALID_ARGUMENT", `simulate: wanted ${wanted}, got ${got}`);
}
