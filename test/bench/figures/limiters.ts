// The cost of rate limiters: processor time when ten of them match a check, and memory when none of many does.

import { setTimeout as wait } from "node:timers/promises";
import { JSON_PATH } from "../load/paths.ts";
import { JSON_MESSAGE } from "../load/requests.ts";
import { kilobytes, megabytes, printAlone, printRow, times } from "../measure/report.ts";
import { type Contestant, ratio, runRounds } from "../measure/rounds.ts";
import type { Size } from "../measure/size.ts";
import { MATCHING } from "../servers/policies.ts";
import type { ServerPool } from "../servers/pool.ts";
import { fetchBody, freeTarget } from "../servers/processes.ts";
import { startPlainSluice } from "../servers/sluice.ts";

/** Checks that a server answers before its memory is read, and the time it then has to settle. */
const CHECKS = 200;
const SETTLE_MS = 10_000;

export async function matchingLimiters(pool: ServerPool, size: Size): Promise<void> {
  const contestants = [
    { name: "one", shape: "auth", server: await pool.sluice() },
    {
      name: "ten",
      shape: "auth with ten limiters",
      server: await pool.sluice("own", "tcp", "ten"),
    },
  ] as const satisfies readonly Contestant[];
  const found = await runRounds(contestants, size.rounds, size.turn);
  const cost = times(ratio(found.ten, found.one, "cost"));
  printRow(`cost of a check with ${MATCHING} matching rate limiters vs one`, "≤ 1.5", cost);
  for (const { name } of contestants) printAlone(`${name} matching`, found[name]);
}

/** Difference between two servers: one with policies that no check meets, and one without. */
export async function limiterMemory({ folders }: ServerPool, size: Size): Promise<void> {
  const [without, withRules] = [await memoryOf(folders.one), await memoryOf(folders.many)];
  const more = withRules.private - without.private;
  const resident = megabytes(withRules.resident - without.resident);
  const each = kilobytes(more / size.policies);
  printRow(
    `private memory of ${size.policies} limiters on other control points`,
    "≤ 20 MB",
    `${megabytes(more)}, ${each} a rule  (resident ${resident})`,
  );
}

async function memoryOf(policies: string) {
  const server = await startPlainSluice({ target: await freeTarget(), policies });
  for (let check = 0; check < CHECKS; check++)
    await fetchBody(server.target, JSON_PATH, JSON_MESSAGE);
  await wait(SETTLE_MS);
  const found = { private: server.private(), resident: server.resident() };
  await server.stop();
  return found;
}
