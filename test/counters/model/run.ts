// Runs many random schedules against the owner in process, or of agents that count for each other:
// node test/counters/model/run.ts --schedules 100000 --seed 1 --owner peers

import { parseArgs } from "node:util";
import { runPeersSchedules } from "./peers-schedules.ts";
import { runSchedules } from "./schedules.ts";

const { values } = parseArgs({
  options: {
    owner: { type: "string", default: "process" },
    schedules: { type: "string", default: "1000" },
    seed: { type: "string", default: "1" },
  },
});
const run = values.owner === "peers" ? runPeersSchedules : runSchedules;
const { lines, faults } = await run(Number(values.seed), Number(values.schedules));
for (const line of [...lines, ...faults]) process.stdout.write(`${line}\n`);
process.exitCode = faults.length > 0 ? 1 : 0;
