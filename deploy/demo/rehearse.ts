// `make rehearse`: plays scenarios of `deploy/scenarios` in real time, one after the other, each with the policy of the same
// name, and prints the results beside those of `sluice simulate`. The exit code is 1 if an expectation fails in reality,
// or if goodput differs by more than a tenth. Latencies depend on the load of the machine, so they are only printed.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { reportJson, reportLines } from "#simulate/report.ts";
import type { Simulation, SimulationInput } from "#simulate/simulate.ts";
import { copyPolicy, inputOf, play, scenarioOf, serviceOf, simulated } from "./play/play.ts";
import { comparisonLines, shortened } from "./play/rehearsal.ts";
import { main, print, wholeNumber } from "./processes.ts";
import { SidecarDemo } from "./sidecar.ts";

const ALL = ["priorities", "quota", "adaptive-concurrency"];
/** Largest difference between simulation and reality. */
const TOLERANCE = 0.1;

interface Options {
  /** Longest part of each phase that is played. */
  readonly seconds: number;
  readonly shift: number;
  /** Print one line of JSON for each scenario instead of tables. */
  readonly json: boolean;
}

/** Returns whether reality is as expected; undefined when the user has stopped it. */
async function rehearse(
  name: string,
  { seconds, shift, json }: Options,
): Promise<boolean | undefined> {
  const input = inputOf(shortened(scenarioOf(name), seconds * 1_000), name);
  const processes = new SidecarDemo(shift);
  let kept: boolean | undefined;
  await processes.run(async () => {
    const policies = join(processes.folder, "policies");
    mkdirSync(policies);
    await processes.start({ policies, service: serviceOf(input), queues: true });
    copyPolicy(name, policies);
    print(`\n${name}, in real time:`);
    const real = await play(processes, input);
    const model = await simulated(input);
    kept = judge(input, model, real);
    if (json)
      print(JSON.stringify({ simulated: reportJson(model, []), real: reportJson(real, []) }));
    else
      print(
        `\n${[...reportLines(real, "real"), "", ...comparisonLines(model, real)].join("\n")}\n`,
      );
  });
  return kept;
}

function judge({ scenario }: SimulationInput, model: Simulation, real: Simulation): boolean {
  const counts = real.outcomes.filter(
    (_, at) => scenario.expectations[at]?.value.measure.kind !== "latency",
  );
  const difference = Math.abs(lastGoodput(real) / lastGoodput(model) - 1);
  return counts.every(({ holds }) => holds) && difference <= TOLERANCE;
}

/** Goodput of all requests in the last phase, per second. */
function lastGoodput({ rows }: Simulation): number {
  return rows.findLast(({ labels }) => labels === undefined)?.goodput ?? Number.NaN;
}

await main("rehearse", async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      seconds: { type: "string", default: "600" },
      shift: { type: "string", default: "0" },
      json: { type: "boolean", default: false },
    },
  });
  const options = {
    seconds: wholeNumber("seconds", values.seconds, 2, 600),
    shift: wholeNumber("shift", values.shift, 0, 50_000),
    json: values.json,
  };
  const failed: string[] = [];
  for (const name of positionals.length > 0 ? positionals : ALL) {
    const kept = await rehearse(name, options);
    if (kept === undefined) return;
    if (!kept) failed.push(name);
  }
  print(failed.length === 0 ? "All as expected." : `Not as expected: ${failed.join(", ")}`);
  if (failed.length > 0) process.exitCode = 1;
});
