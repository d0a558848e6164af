// The longest that Sluice lets its callers wait at a steady high pace. What stopped the machine meanwhile is
// taken off: an idle process on the same core and the load itself note when they were stopped. A busy process waits
// for its core where an idle one does not, so the server also tells how long it computed at a stretch itself.

import { once } from "node:events";
import { join } from "node:path";
import { type Load, openLoop } from "./load.ts";
import { say, times } from "./report.ts";
import { authLanes, judgeAuthReply } from "./requests.ts";
import { KEYS, prove, warm } from "./rounds.ts";
import { pinned } from "./servers.ts";
import type { Size } from "./size.ts";
import type { Stage } from "./stage.ts";
import { monotonic, type Window, Windows } from "./windows.ts";

const PACE = 20_000;
const WARMINGS = 3;
const CONTROL = join(import.meta.dirname, "control.ts");

export async function pauses(stage: Stage, size: Size): Promise<void> {
  const server = await stage.sluice();
  // Long enough that its code has been compiled: compilers are threads on the same core.
  for (let times = 0; times < WARMINGS; times++)
    await warm({ name: "pauses", shape: "auth", server }, 1);
  const requests = PACE * size.watched;
  const decided = await server.decided();
  const load: Load = {
    ...{ open: authLanes, target: server.target, lanes: 8, perLane: 500 },
    ...{ requests, keys: KEYS },
  };
  const control = pinned([CONTROL]);
  // Its start takes the server's core for as long as a pause that is looked for.
  await once(control, "message");
  await server.ask("look");
  // This process counts from its own start.
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
  const stretch = Number(await server.ask("looked"));
  control.send("tell");
  const [told]: readonly Window[][] = await once(control, "message");
  await prove(server, decided, found, judgeAuthReply);
  const machine = new Map(told);
  let longest = 0;
  for (const [window, wait] of waits.all()) {
    const stopped = Math.max(machine.get(window) ?? 0, ownPauses.at(window));
    longest = Math.max(longest, wait - stopped);
  }
  const idle = Math.max(0, ...machine.values());
  const wait = waits.longest();
  say(
    `longest wait in ${size.watched} s at ${PACE}/s less an idle process's longest pause`,
    "≤ 10 ms",
    `${times(wait - idle)} ms  (${times(wait)} and ${times(idle)}, the load's own ${times(ownPauses.longest())})`,
  );
  say("    less the machine's pauses in the same tenth of a second", "", `${times(longest)} ms`);
  say("    longest that the server computed at a stretch", "", `${times(stretch)} ms`);
}
