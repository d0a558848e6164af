// Measures how long a simulation takes: the scenarios that ship, and ten minutes at about 200 requests a second. The
// goal for ten minutes is less than two seconds.
// `node test/bench/rooms/simulate.ts`

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../../simulate/scenarios.ts";

const FOLDER = join(import.meta.dirname, "../../../deploy/scenarios");
const TIMES = 5;

const read = (...path: readonly string[]) => readFileSync(join(FOLDER, ...path), "utf8");

const CASES = [
  { policy: "adaptive-rate", scenario: read("overload.yaml"), name: "overload" },
  { policy: "adaptive-rate", scenario: read("oscillation.yaml"), name: "oscillation" },
  { policy: "careful-ramp", scenario: read("rollback.yaml"), name: "rollback" },
  {
    policy: "adaptive-rate",
    scenario: read("oscillation.yaml")
      .replace("duration: 300s", "duration: 600s")
      .replace("until: 300s", "until: 600s")
      .replace("rate: 400", "rate: 200"),
    name: "600s at 200/s",
  },
] as const;

for (const { policy, scenario, name } of CASES) {
  const policies = { [policy]: read("policies", `${policy}.yaml`) };
  const times: number[] = [];
  let requests = 0;
  let virtual = 0;
  for (let at = 0; at < TIMES; at++) {
    const start = process.cpuUsage();
    const { rows, durationMs } = await run(scenario, { policies });
    const { user, system } = process.cpuUsage(start);
    times.push((user + system) / 1_000);
    virtual = durationMs / 1_000;
    requests = rows
      .filter(({ labels }) => labels === undefined)
      .reduce((sum, { offered, from, until }) => sum + (offered * (until - from)) / 1_000, 0);
  }
  const ms = times.sort((a, b) => a - b)[Math.floor(TIMES / 2)] ?? Number.NaN;
  const figures = [
    `${virtual} s virtual`,
    `${Math.round(requests)} requests`,
    `${Math.round(ms)} ms of CPU (median of ${TIMES})`,
    `${Math.round(requests / ms)} requests/ms`,
  ];
  process.stdout.write(`${name.padEnd(14)} ${figures.join(", ")}\n`);
}
