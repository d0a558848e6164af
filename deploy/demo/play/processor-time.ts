// Measures how long the processes of a demo waited for a processor while they had work. On a busy machine, latencies and
// lost requests are due to the machine and not to the policy.

import { readdirSync, readFileSync } from "node:fs";

/** Processor time of some processes since their start, ns. */
export interface ProcessorTime {
  readonly ran: number;
  /** Time in which they could have run while other work had the processors. */
  readonly waited: number;
}

/** Read from `/proc/PID/task/TID/schedstat`; undefined on other systems than Linux. */
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

/** From this share of waiting time on, results mean little. */
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

/** Undefined if a process or thread has ended meanwhile. */
function ifThere<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
