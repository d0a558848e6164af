// Runs many random schedules against the home in process: node test/fleet/model/run.ts --schedules 100000 --seed 1

import { parseArgs } from "node:util";
import { runSchedules } from "./schedules.ts";

const { values } = parseArgs({
  options: {
    schedules: { type: "string", default: "1000" },
    seed: { type: "string", default: "1" },
  },
});
const { lines, faults } = await runSchedules(Number(values.seed), Number(values.schedules));
for (const line of [...lines, ...faults]) process.stdout.write(`${line}\n`);
process.exitCode = faults.length > 0 ? 1 : 0;
