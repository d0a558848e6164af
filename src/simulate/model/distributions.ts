// Random draws: service times and request classes.

import { type Chance, seededChance } from "#base/chance.ts";
import type { RequestClass, ServiceTime } from "../scenario/service.ts";

/**
 * The random generator of one part of a run, by its number: 0 is the agent, and services follow. Each part has its own, so
 * that a change of one service does not affect the others.
 */
export function chanceOf(seed: number, part: number): Chance {
  return seededChance(Math.imul(seed + 1, 0x9e3779b1) + part);
}

export function exponential(chance: Chance, mean: number): number {
  return -mean * Math.log(1 - chance());
}

/** Standard normal distribution (Box-Muller). */
function normal(chance: Chance): number {
  return Math.sqrt(-2 * Math.log(1 - chance())) * Math.cos(2 * Math.PI * chance());
}

/** The standard normal's 95th percentile. */
const Z95 = 1.6448536269514722;

/** Milliseconds. */
export function serviceTime(time: ServiceTime, chance: Chance): number {
  if (time.kind === "constant") return time.value;
  if (time.kind === "exponential") return exponential(chance, time.value);
  const { median, p95 } = time.value;
  return median * Math.exp((Math.log(p95 / median) / Z95) * normal(chance));
}

/** Draws the index of a request class with the probability of its share. */
export function drawClass(mix: readonly RequestClass[], chance: Chance): number {
  const whole = mix.reduce((sum, { share }) => sum + share, 0);
  let left = chance() * whole;
  for (const [at, { share }] of mix.entries()) {
    left -= share;
    if (left < 0) return at;
  }
  return mix.length - 1;
}
