// An idle process on the servers' core: it asks to be woken every millisecond and notes how late it is woken,
// which is the machine's doing alone. It sends "awake" once it runs; any message makes it send what it noted and
// exit.

import type { Window } from "../measure/windows.ts";
import { monotonic, Windows } from "../measure/windows.ts";

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
  const windows: readonly Window[] = late.all();
  process.send?.(windows, () => process.exit());
});
sleep();
