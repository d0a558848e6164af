// Many schedules of agents that count for each other, each of a seed of its own.

import { runPeersSchedule } from "./peers-schedule.ts";

/** Faults that are reported before the run ends. */
const ENOUGH = 5;

/** Runs the schedules of so many seeds from one on. Returns a summary, and the faults with the commands that show them. */
export async function runPeersSchedules(
  first: number,
  count: number,
): Promise<{ readonly lines: readonly string[]; readonly faults: readonly string[] }> {
  const faults: string[] = [];
  const sum = { schedules: 0, asked: 0, local: 0, admitted: 0, losses: 0 };
  for (let seed = first; seed < first + count && faults.length < ENOUGH; seed++) {
    const { asked, local, admitted, losses, fault } = await runPeersSchedule(seed);
    sum.schedules++;
    sum.asked += asked;
    sum.local += local;
    sum.admitted += admitted;
    sum.losses += losses;
    if (fault === "") continue;
    const command = `npm run -s test:model -- --owner peers --seed ${seed} --schedules 1`;
    faults.push(`${command}: ${fault}`);
  }
  const local = Math.round((100 * sum.local) / sum.asked);
  const lines = [
    `peers: ${sum.schedules} schedules, ${sum.asked} flows, ${local} % decided without asking, ${sum.admitted} tokens admitted, ${sum.losses} losses`,
  ];
  return { lines, faults };
}
