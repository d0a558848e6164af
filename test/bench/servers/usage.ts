// Processor time and memory of another process, read from Linux's /proc.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";

/** CPU seconds of all threads that are alive. */
export function cpuSeconds(pid: number): number {
  let sum = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const [spent = ""] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ");
    sum += Number(spent);
  }
  return sum / 1e9;
}

export function residentBytes(pid: number): number {
  return bytesOf("VmRSS", `/proc/${pid}/status`);
}

/** Peak of resident memory since the process started, or since `resetPeakResident`. */
export function peakResidentBytes(pid: number): number {
  return bytesOf("VmHWM", `/proc/${pid}/status`);
}

export function resetPeakResident(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}

/** Resident memory that only this process maps: without the pages of Node's own binary and of shared libraries. */
export function privateBytes(pid: number): number {
  const rollup = `/proc/${pid}/smaps_rollup`;
  return bytesOf("Private_Clean", rollup) + bytesOf("Private_Dirty", rollup);
}

function bytesOf(field: string, file: string): number {
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(file, "utf8"))?.[1]) * 1_024;
}
