// Limits on the size of a run. They are checked before it starts, so that a mistake by a factor of a thousand is reported
// at once instead of exhausting memory.

import type { Refuse } from "./schema.ts";
import type { ServiceSpec } from "./service.ts";

/** Maximum number of attempts, including retries. Bounds memory to about 200 MB. */
export const MAX_ATTEMPTS = 5_000_000;

/** Other limits; `docs/scenarios.md` lists them. */
export const LIMITS = {
  phases: 200,
  /** Each row scans all attempts. */
  rows: 1_000,
  expectations: 500,
  /** Readings of the model series, 16 bytes each. */
  readings: 10_000_000,
  /** Draws of random arrivals, which are made at the maximum rate all the time. */
  draws: 50_000_000,
  /** Component evaluations and signal readings. */
  steps: 20_000_000,
} as const;

/** Number of slices for integrating a rate. */
const SLICES = 10_000;

interface Sized {
  readonly duration: number;
  readonly sample_every: number;
  readonly phases: readonly unknown[];
  readonly services: readonly ServiceSpec[];
  readonly expect: readonly unknown[];
}

/** Reports what exceeds the limits; `series` is the number of model series per service. */
export function checkSize(given: Sized, series: number, say: Refuse): void {
  const { duration, sample_every: every, phases, services, expect } = given;
  const limit = (size: number, max: number, path: string, unit: string, how = "") => {
    if (size > max) say([path], `at most ${max} ${unit}`, `${Math.ceil(size)}${how}`);
  };
  limit(phases.length, LIMITS.phases, "phases", "phases");
  limit(expect.length, LIMITS.expectations, "expect", "expectations");
  const kinds = services.reduce((sum, { mix }) => sum + 1 + mix.length, 0);
  const stretches = phases.length + 1;
  const rows = `: ${stretches} time windows × ${kinds} services and parts of their mix`;
  limit(stretches * kinds, LIMITS.rows, "services", "rows of the result", rows);
  const samples = Math.ceil(duration / every);
  const kept = Math.max(1, series * services.length);
  const readings = `: ${samples} samples × ${kept} series`;
  limit(samples * kept, LIMITS.readings, "sample_every", "readings of meters", readings);
  checkRates(services, duration, say);
}

/** Checks first attempts only; the number of retries is known only in the run. */
function checkRates(services: readonly ServiceSpec[], duration: number, say: Refuse): void {
  let [requests, draws] = [0, 0];
  for (const [at, { arrivals, rate }] of services.entries()) {
    const before = [requests, draws];
    requests += sumOf(rate, duration);
    if (arrivals === "poisson") draws += (Math.max(0, rate.max) * duration) / 1_000;
    const path = ["services", at, "rate"];
    const ofAll = "of all services together";
    if (requests > MAX_ATTEMPTS && (before[0] ?? 0) <= MAX_ATTEMPTS) {
      const wanted = `at most ${MAX_ATTEMPTS} requests ${ofAll}: lower rates, or a shorter duration`;
      say(path, wanted, `about ${Math.round(requests)}`);
    } else if (draws > LIMITS.draws && (before[1] ?? 0) <= LIMITS.draws) {
      const wanted = `highest rate × duration of at most ${LIMITS.draws} ${ofAll}`;
      say(path, `a ${wanted}`, `${Math.round(draws)}`);
    }
  }
}

/** Number of first attempts, integrated numerically. */
function sumOf(rate: ServiceSpec["rate"], duration: number): number {
  const slice = duration / SLICES;
  let sum = 0;
  for (let at = 0; at < SLICES; at++) sum += Math.max(0, rate.at((at + 0.5) * slice));
  return (sum * slice) / 1_000;
}

interface CircuitSize {
  readonly policyName: string;
  readonly intervalMs: number;
  readonly leaves: readonly unknown[];
  readonly signals: readonly unknown[];
}

/** Describes how the policies exceed the limit of ticks for this duration; undefined when they do not. */
export function oversized(
  plans: readonly CircuitSize[],
  durationMs: number,
): { readonly wanted: string; readonly got: string } | undefined {
  const parts = plans.map(({ policyName, intervalMs, leaves, signals }) => {
    const ticks = Math.ceil(durationMs / intervalMs);
    const size = Math.max(1, leaves.length + signals.length);
    return { policyName, ticks, size, steps: ticks * size };
  });
  const steps = parts.reduce((sum, part) => sum + part.steps, 0);
  if (steps <= LIMITS.steps) return undefined;
  const [worst] = parts.toSorted((left, right) => right.steps - left.steps);
  const of = worst && `: ${worst.policyName} has ${worst.ticks} ticks × ${worst.size}`;
  return {
    wanted: `at most ${LIMITS.steps} ticks × components and signals of all policies: a shorter duration, or a longer evaluation_interval`,
    got: `${steps}${of ?? ""}`,
  };
}
