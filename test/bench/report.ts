// One line per figure: what it is, its goal, what came out.

import type { Figures } from "./rounds.ts";
import { median, ratio } from "./rounds.ts";

export function say(what: string, goal: string, result: string): void {
  process.stdout.write(`${what.padEnd(66)} ${goal.padEnd(22)} ${result}\n`);
}

export const times = (value: number): string => value.toFixed(2);
export const kilobytes = (bytes: number): string => `${(bytes / 1_000).toFixed(1)} kB`;
export const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(0)} MB`;

/** How many times as many requests as theirs, by the clock and by the processor time that each costs. */
export function versus(mine: readonly Figures[], theirs: readonly Figures[]): string {
  const rate = times(ratio(mine, theirs, "rate"));
  return `${rate}  (by processor time ${times(1 / ratio(mine, theirs, "cost"))})`;
}

/** What a contestant did by itself: for the reader, no goal is set on it. */
export function tellAlone(name: string, found: readonly Figures[]): void {
  const of = (figure: keyof Figures) => median(found.map((one) => one[figure]));
  const micros = (figure: keyof Figures) => `${of(figure).toFixed(1)} µs`;
  const rate = `${(of("rate") / 1_000).toFixed(1)} k/s, ${micros("cost")} each`;
  const use = `server ${(100 * of("use")).toFixed(0)} % of its core`;
  say(`    ${name}`, "", `${rate}; ${use}, load ${micros("loadCost")} each`);
}
