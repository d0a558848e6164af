// Prints one line per figure: what it is, its goal, the result.

import type { Figures } from "./rounds.ts";
import { median, ratio } from "./rounds.ts";

export function printRow(what: string, goal: string, result: string): void {
  process.stdout.write(`${what.padEnd(66)} ${goal.padEnd(22)} ${result}\n`);
}

export const times = (value: number): string => value.toFixed(2);
export const kilobytes = (bytes: number): string => `${(bytes / 1_000).toFixed(1)} kB`;
export const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(0)} MB`;

/** Requests per second as a multiple of the other's, and in parentheses the same ratio by processor time per request. */
export function versus(mine: readonly Figures[], theirs: readonly Figures[]): string {
  const rate = times(ratio(mine, theirs, "rate"));
  return `${rate}  (by processor time ${times(1 / ratio(mine, theirs, "cost"))})`;
}

/** Prints the figures of one contestant by itself. No goal is set on them. */
export function printAlone(name: string, found: readonly Figures[]): void {
  const of = (figure: keyof Figures) => median(found.map((one) => one[figure]));
  const micros = (figure: keyof Figures) => `${of(figure).toFixed(1)} µs`;
  const rate = `${(of("rate") / 1_000).toFixed(1)} k/s, ${micros("cost")} each`;
  const use = `server ${(100 * of("use")).toFixed(0)} % of its core`;
  printRow(`    ${name}`, "", `${rate}; ${use}, load ${micros("loadCost")} each`);
}
