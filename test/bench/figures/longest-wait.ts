// The longest time that a caller waits for Sluice at a steady high pace. Pauses of the machine are subtracted: an
// idle process on the servers' core and the load itself note when they were not scheduled. A busy process waits for
// its core where an idle one does not, so the server also reports how long it computed without a break.

import { once } from "node:events";
import { join } from "node:path";
import { type Load, openLoop } from "../load/loops.ts";
import { authConnections, judgeAuthReply } from "../load/requests.ts";
import { printRow, times } from "../measure/report.ts";
import { KEYS, prove, warm } from "../measure/rounds.ts";
import type { Size } from "../measure/size.ts";
import { monotonic, type Window, Windows } from "../measure/windows.ts";
import type { ServerPool } from "../servers/pool.ts";
import { spawnPinned } from "../servers/processes.ts";

const PACE = 20_000;
const WARMINGS = 3;
const IDLE_PROCESS = join(import.meta.dirname, "../servers/idle-process.ts");

export async function longestWait(pool: ServerPool, size: Size): Promise<void> {
  const server = await pool.sluice();
  // Until the hot code has been compiled: compiler threads share the core.
  for (let times = 0; times < WARMINGS; times++)
    await warm({ name: "longest wait", shape: "auth", server }, 1);
  const requests = PACE * size.watched;
  const decided = await server.decided();
  const load: Load = {
    open: authConnections,
    target: server.target,
    connections: 8,
    callsEach: 500,
    requests,
    keys: KEYS,
  };
  const idleProcess = spawnPinned([IDLE_PROCESS]);
  // Its start takes the servers' core for as long as a pause that is looked for.
  await once(idleProcess, "message");
  await server.probe("watch");
  // `performance.now()` counts from the start of this process.
  const ahead = monotonic() - performance.now();
  const waits = new Windows();
  const ownPauses = new Windows();
  let looked = performance.now();
  const found = await openLoop(load, {
    rate: PACE,
    seen: (due, now) => waits.note(due + ahead, now - due),
    looked(now) {
      ownPauses.note(looked + ahead, now - looked);
      looked = now;
    },
  });
  const stretch = Number(await server.probe("watched"));
  idleProcess.send("report");
  const [pauses]: readonly Window[][] = await once(idleProcess, "message");
  await prove(server, decided, found, judgeAuthReply);
  const machine = new Map(pauses);
  let longest = 0;
  for (const [window, wait] of waits.all()) {
    const stopped = Math.max(machine.get(window) ?? 0, ownPauses.at(window));
    longest = Math.max(longest, wait - stopped);
  }
  const idle = Math.max(0, ...machine.values());
  const wait = waits.longest();
  printRow(
    `longest wait in ${size.watched} s at ${PACE}/s less an idle process's longest pause`,
    "≤ 10 ms",
    `${times(wait - idle)} ms  (${times(wait)} and ${times(idle)}, the load's own ${times(ownPauses.longest())})`,
  );
  printRow(
    "    less the machine's pauses in the same tenth of a second",
    "",
    `${times(longest)} ms`,
  );
  printRow("    longest that the server computed at a stretch", "", `${times(stretch)} ms`);
}
