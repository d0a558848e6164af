// Delay of a check while the policies of a directory are loaded again: one of a thousand edited, and all of them.

import { readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { JSON_PATH } from "../load/paths.ts";
import { JSON_MESSAGE } from "../load/requests.ts";
import { printRow, times } from "../measure/report.ts";
import type { Size } from "../measure/size.ts";
import type { ServerPool } from "../servers/pool.ts";
import { fetchBody } from "../servers/processes.ts";
import type { Sluice } from "../servers/sluice.ts";

/** Time for the start's own work to end, and time in which an edit is found and in force, ms. */
const SETTLE_MS = 3_000;
const IN_FORCE_MS = 6_000;

export async function reloads(pool: ServerPool, size: Size): Promise<void> {
  const server = await pool.sluice("own", "tcp", "many");
  await wait(SETTLE_MS);
  const { many } = pool.folders;
  const files = readdirSync(many).filter((name) => name.endsWith(".yaml"));
  const [first = ""] = files;
  const idle = await longestWaitDuring(server, () => undefined);
  const edits = [
    { what: `one of ${size.policies} policies edited`, edited: [first] },
    { what: `all ${size.policies} edited`, edited: files },
  ];
  for (const { what, edited } of edits) {
    const found = await longestWaitDuring(server, () => {
      for (const name of edited) edit(join(many, name));
    });
    printRow(
      `longest wait of a check during a reload, ${what}`,
      "≤ 20 ms",
      `${times(found.wait)} ms  (without a reload ${times(idle.wait)}), computed at a stretch ${times(found.stretch)} ms`,
    );
  }
}

/** Replaces the file, as editors do: a file that is half written would be refused and read again. */
function edit(path: string): void {
  const text = readFileSync(path, "utf8").replace(
    /bucket_capacity: .*value: (\d+)/,
    (line, value: string) => line.replace(value, String(Number(value) + 1)),
  );
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
}

/** Sends checks one after the other; also returns the longest that the server's thread computed without a break. */
async function longestWaitDuring(server: Sluice, act: () => void) {
  await server.probe("watch");
  const end = performance.now() + IN_FORCE_MS;
  let longest = 0;
  act();
  while (performance.now() < end) {
    const sent = performance.now();
    await fetchBody(server.target, JSON_PATH, JSON_MESSAGE);
    longest = Math.max(longest, performance.now() - sent);
    await wait(1);
  }
  return { wait: longest, stretch: Number(await server.probe("watched")) };
}
