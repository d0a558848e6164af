// When requests come: at random with the rate of the moment, or as evenly as it allows.

import type { Chance } from "#base/chance.ts";
import type { Served } from "../scenario/served.ts";
import { exponential } from "./chances.ts";
import type { Timeline } from "./timeline.ts";

/** Step over a rate that changes, ms. */
const STEP_MS = 10;

interface Arrivals extends Pick<Served, "arrivals" | "rate"> {
  /** Milliseconds. Looked no further: a rate of 0 at the end must not spin. */
  readonly until: number;
}

/** Calls `arrive` for each request from now on. */
export function arrivals(
  of: Arrivals,
  timeline: Timeline,
  chance: Chance,
  arrive: () => void,
): void {
  if (of.rate.most <= 0) return;
  const next = of.arrivals === "poisson" ? thinned(of, chance) : spaced(of);
  const wait = (): void => {
    const at = next(timeline.now);
    if (at >= of.until) return;
    timeline.at(at, () => {
      wait();
      arrive();
    });
  };
  wait();
}

/**
 * A Poisson process whose rate changes: draws at its highest rate, and keeps each with the probability that
 * the rate of its moment has of it (Lewis and Shedler's thinning).
 */
function thinned({ rate, until }: Arrivals, chance: Chance): (now: number) => number {
  const mean = 1_000 / rate.most;
  return (now) => {
    let at = now;
    do at += exponential(chance, mean);
    while (chance() * rate.most >= rate.at(at) && at < until);
    return at;
  };
}

/** Whenever the integral of the rate has grown by one. */
function spaced({ rate, until }: Arrivals): (now: number) => number {
  let owed = 0;
  let reached = 0;
  return () => {
    while (reached < until) {
      const grows = Math.max(0, rate.at(reached)) / 1_000;
      if (owed + grows * STEP_MS >= 1) {
        reached += (1 - owed) / grows;
        owed = 0;
        return reached;
      }
      owed += grows * STEP_MS;
      reached += STEP_MS;
    }
    return reached;
  };
}
