// `make demo-loop`: a shop under three times the load that it can serve, behind a real Envoy and Sluice. The overload comes
// twice: without a policy, and with one that keeps the shop busy and lets important customers go first. The results are
// printed beside those of `sluice simulate`. The demo stops every process that it starts.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { reportLines } from "#simulate/report.ts";
import type { Simulation, SimulationInput } from "#simulate/simulate.ts";
import { copyPolicy, inputOf, play, scenarioOf, serviceOf, simulated } from "./play/play.ts";
import { comparisonLines, Rehearsal, shortened } from "./play/rehearsal.ts";
import { main, print, wholeNumber } from "./processes.ts";
import { SidecarDemo } from "./sidecar.ts";

/** Without a policy nothing adapts, so a short part of each phase is enough. */
const UNLIMITED_SECONDS = 10;

interface Choice {
  /** Name of a scenario of `deploy/scenarios`, which is also that of its policy. */
  readonly name: string;
  /** Longest part of each phase that is played. */
  readonly seconds: number;
}

const LEGEND = `In the tables, per second: requests that callers send (offered), that reach the service (accepted), that it answers
(goodput), that the policy refuses with 429 (refused), and that reach the service in vain (failed). p50 and p95 are the
median and the 95th percentile of the time until an answer.`;

async function demo(processes: SidecarDemo, { name, seconds }: Choice): Promise<void> {
  const scenario = shortened(scenarioOf(name), seconds * 1_000);
  const short = Math.min(seconds, UNLIMITED_SECONDS);
  const unlimited = inputOf(shortened(scenario, short * 1_000), undefined);
  const input = inputOf(scenario, name);
  const policies = join(processes.folder, "policies");
  mkdirSync(policies);
  print("Starting a service, Sluice and Envoy.");
  await processes.start({ policies, service: serviceOf(input), queues: true });
  print(`\n${capacityLine(input)}\n${LEGEND}`);

  print(`\nWithout a policy, ${short} seconds of each phase:`);
  show(await play(processes, unlimited));

  copyPolicy(name, policies);
  print(`\nWith the policy ${name}, ${Math.round(scenario.durationMs / 1_000)} seconds:`);
  const real = await play(processes, input);
  show(real);
  print("\nWhat `sluice simulate` says of the same, and what has really happened:\n");
  print(`${comparisonLines(await simulated(input), real).join("\n")}\n`);
}

function capacityLine(input: SimulationInput): string {
  const { servers, serviceMs, queue } = new Rehearsal(input).service;
  const capacity = Math.round((servers * 1_000) / serviceMs);
  return `The service works on ${servers} requests at once, ${serviceMs} ms each: it can answer ${capacity} a second. ${queue} more may wait there.`;
}

function show(run: Simulation): void {
  const [, ...lines] = reportLines(run, "real");
  print(lines.join("\n"));
}

await main("demo-loop", async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      seconds: { type: "string", default: "600" },
      shift: { type: "string", default: "0" },
    },
  });
  const { seconds, shift } = values;
  const processes = new SidecarDemo(wholeNumber("shift", shift, 0, 50_000));
  const choice = {
    name: positionals[0] ?? "priorities",
    seconds: wholeNumber("seconds", seconds, 2, 600),
  };
  await processes.run(() => demo(processes, choice));
});
