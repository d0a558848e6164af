// Arrival times of requests: a Poisson process with the current rate, or evenly spaced.

import type { Chance } from "#base/chance.ts";
import type { ServiceSpec } from "../scenario/service.ts";
import { exponential } from "./distributions.ts";
import type { Timeline } from "./timeline.ts";

/** Integration step of a changing rate, ms. */
const STEP_MS = 10;

interface Arrivals extends Pick<ServiceSpec, "arrivals" | "rate"> {
  /** End of the arrivals, ms. Bounds the search for the next one while the rate is 0. */
  readonly until: number;
}

/** Calls `arrive` for each request from now on. */
export function arrivals(
  of: Arrivals,
  timeline: Timeline,
  chance: Chance,
  arrive: () => void,
): void {
  if (of.rate.max <= 0) return;
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
 * An inhomogeneous Poisson process: draws arrivals at the maximum rate and keeps each with the probability of
 * current rate / maximum rate (thinning by Lewis and Shedler).
 */
function thinned({ rate, until }: Arrivals, chance: Chance): (now: number) => number {
  const mean = 1_000 / rate.max;
  return (now) => {
    let at = now;
    do at += exponential(chance, mean);
    while (chance() * rate.max >= rate.at(at) && at < until);
    return at;
  };
}

/** Evenly spaced: one arrival whenever the integral of the rate has grown by one. */
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
