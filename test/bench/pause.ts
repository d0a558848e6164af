// The longest that Sluice lets its callers wait at a steady high pace. What stopped the machine meanwhile is
// taken off: an idle process on the same core and the load itself note when they were stopped.

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
const CONTROL = join(import.meta.dirname, "control.ts");

export async function pauses(stage: Stage, size: Size): Promise<void> {
  const server = await stage.sluice();
  await warm({ name: "pauses", shape: "auth", server }, 1);
  const requests = PACE * size.watched;
  const decided = await server.decided();
  const load: Load = {
    ...{ open: authLanes, target: server.target, lanes: 8, perLane: 500 },
    ...{ requests, keys: KEYS },
  };
  const control = pinned([CONTROL]);
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
  say(
    `longest wait in ${size.watched} s at ${PACE}/s beyond the machine's pauses`,
    "≤ 10 ms",
    `${times(longest)} ms  (longest ${times(waits.longest())}, idle process ${times(idle)}, load ${times(ownPauses.longest())})`,
  );
}
