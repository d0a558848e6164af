// How long the processes of a demo waited for a processor while they had work. On a machine that is busy with other programs,
// latencies and lost requests are those of the machine, not of the policy.

import { readdirSync, readFileSync } from "node:fs";

/** Of some processes since their start, in ns. */
export interface ProcessorTime {
  readonly ran: number;
  /** Time in which they could have run and other work had the processors. */
  readonly waited: number;
}

/** Undefined where nothing counts it: Linux does, in `/proc/PID/task/TID/schedstat`. */
export function processorTime(pids: readonly number[]): ProcessorTime | undefined {
  let ran = 0;
  let waited = 0;
  for (const pid of pids) {
    for (const task of ifThere(() => readdirSync(`/proc/${pid}/task`)) ?? []) {
      const counts = ifThere(() => readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8"));
      const [running = 0, waiting = 0] = counts?.split(" ").map(Number) ?? [];
      ran += running;
      waited += waiting;
    }
  }
  return ran === 0 ? undefined : { ran, waited };
}

/** From this share of waiting on, results say little. */
const BUSY = 1 / 2;

/** A sentence about the time between two measurements; undefined where nothing was measured. */
export function waitingLine(
  before: ProcessorTime | undefined,
  after: ProcessorTime | undefined,
): string | undefined {
  if (before === undefined || after === undefined) return undefined;
  const waited = after.waited - before.waited;
  const share = waited / (waited + after.ran - before.ran);
  if (Number.isNaN(share)) return undefined;
  const measured = `The processes waited for a processor in ${Math.round(100 * share)} % of the time in which they had work`;
  return share < BUSY
    ? `${measured}.`
    : `${measured}: this machine is too busy, which may be why requests are slow or lost.`;
}

/** Processes and threads may end while they are looked at. */
function ifThere<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
