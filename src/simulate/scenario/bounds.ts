// How large a run may be, judged from what is written and before anything runs: whoever slips by a factor of
// a thousand is told at once, instead of waiting for memory to end.

import type { Served } from "./served.ts";

/** Attempts, retries among them. Bounds memory at about two hundred megabytes. */
export const MOST_ATTEMPTS = 5_000_000;

/** `docs/scenarios.md` names them. */
export const MOST = {
  phases: 200,
  /** Each looks through all attempts. */
  rows: 1_000,
  expectations: 500,
  /** Readings of the models' series; one takes 16 bytes. */
  readings: 10_000_000,
  /** Moments at which a request might come: random arrivals roll for the highest rate all the time. */
  rolls: 50_000_000,
  /** What components compute and signals keep. */
  steps: 20_000_000,
} as const;

/** Slices in which a rate is summed up. */
const SLICES = 10_000;

interface Sized {
  readonly duration: number;
  readonly sample_every: number;
  readonly phases: readonly unknown[];
  readonly services: readonly Served[];
  readonly expect: readonly unknown[];
}

type Say = (inner: readonly (string | number)[], wanted: string, got: string) => void;

/** Says what of a scenario is too much; `series` is how many each service has. */
export function judgeSize(given: Sized, series: number, say: Say): void {
  const { duration, sample_every: every, phases, services, expect } = given;
  const most = (what: number, bound: number, path: string, words: string, how = "") => {
    if (what > bound) say([path], `at most ${bound} ${words}`, `${Math.ceil(what)}${how}`);
  };
  most(phases.length, MOST.phases, "phases", "phases");
  most(expect.length, MOST.expectations, "expect", "expectations");
  const kinds = services.reduce((sum, { mix }) => sum + 1 + mix.length, 0);
  const stretches = phases.length + 1;
  const rows = `: ${stretches} stretches of time × ${kinds} services and parts of their mix`;
  most(stretches * kinds, MOST.rows, "services", "rows of the result", rows);
  const samples = Math.ceil(duration / every);
  const kept = Math.max(1, series * services.length);
  const readings = `: ${samples} samples × ${kept} series`;
  most(samples * kept, MOST.readings, "sample_every", "readings of meters", readings);
  judgeRates(services, duration, say);
}

/** Retries come on top: how many is known only to who runs it. */
function judgeRates(services: readonly Served[], duration: number, say: Say): void {
  let [requests, rolls] = [0, 0];
  for (const [at, { arrivals, rate }] of services.entries()) {
    const before = [requests, rolls];
    requests += sumOf(rate, duration);
    if (arrivals === "poisson") rolls += (Math.max(0, rate.most) * duration) / 1_000;
    const path = ["services", at, "rate"];
    const ofAll = "of all services together";
    if (requests > MOST_ATTEMPTS && (before[0] ?? 0) <= MOST_ATTEMPTS) {
      const wanted = `at most ${MOST_ATTEMPTS} requests ${ofAll}: lower rates, or a shorter duration`;
      say(path, wanted, `about ${Math.round(requests)}`);
    } else if (rolls > MOST.rolls && (before[1] ?? 0) <= MOST.rolls) {
      const wanted = `highest rate × duration of at most ${MOST.rolls} ${ofAll}`;
      say(path, `a ${wanted}`, `${Math.round(rolls)}`);
    }
  }
}

/** First attempts within the duration, as near as slices of it tell. */
function sumOf(rate: Served["rate"], duration: number): number {
  const slice = duration / SLICES;
  let sum = 0;
  for (let at = 0; at < SLICES; at++) sum += Math.max(0, rate.at((at + 0.5) * slice));
  return (sum * slice) / 1_000;
}

export interface Ticking {
  readonly policyName: string;
  readonly intervalMs: number;
  readonly leaves: readonly unknown[];
  readonly signals: readonly unknown[];
}

/** What of the policies is too much for so long a time, in words; undefined when nothing is. */
export function oversized(
  plans: readonly Ticking[],
  durationMs: number,
): { readonly wanted: string; readonly got: string } | undefined {
  const parts = plans.map(({ policyName, intervalMs, leaves, signals }) => {
    const ticks = Math.ceil(durationMs / intervalMs);
    const size = Math.max(1, leaves.length + signals.length);
    return { policyName, ticks, size, steps: ticks * size };
  });
  const steps = parts.reduce((sum, part) => sum + part.steps, 0);
  if (steps <= MOST.steps) return undefined;
  const [worst] = parts.toSorted((left, right) => right.steps - left.steps);
  const of = worst && `: ${worst.policyName} has ${worst.ticks} ticks × ${worst.size}`;
  return {
    wanted: `at most ${MOST.steps} ticks × components and signals of all policies: a shorter duration, or a longer evaluation_interval`,
    got: `${steps}${of ?? ""}`,
  };
}
