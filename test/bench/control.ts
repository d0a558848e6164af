// The idle process on the servers' core: asks to be woken every millisecond and notes how late it is, which is
// the machine's doing and nobody else's. `control.ts` says when it is awake; any message makes it tell and end.

import type { Window } from "./windows.ts";
import { monotonic, Windows } from "./windows.ts";

const SLEEP_MS = 1;

const never = new Int32Array(new SharedArrayBuffer(4));
const late = new Windows();

function sleep(): void {
  const due = monotonic() + SLEEP_MS;
  Atomics.wait(never, 0, 0, SLEEP_MS);
  const now = monotonic();
  late.note(due, now - due);
  setImmediate(sleep);
}

process.send?.("awake");
process.on("message", () => {
  const told: readonly Window[] = late.all();
  process.send?.(told, () => process.exit());
});
sleep();
