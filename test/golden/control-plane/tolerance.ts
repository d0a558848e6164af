// Tolerances of readings: they must be exact, unless a function that machines round differently is upstream.

import type { CircuitPlan, Leaf } from "#circuit/plan.ts";

const TRANSCENDENTAL = 1e-12;
const SPECIAL = 1e-9;

const EXACT: ReadonlySet<string> = new Set(
  "abs ceil floor round roundtoeven sqrt trunc".split(" "),
);
const OWN: ReadonlySet<string> = new Set(
  "erf erfc erfcinv erfinv gamma j0 j1 lgamma y0 y1".split(" "),
);

/** Relative tolerance of each signal of the plan. */
export function tolerances(plan: CircuitPlan): readonly number[] {
  const found = plan.signals.map(() => 0);
  for (let changed = true; changed; ) {
    changed = false;
    for (const leaf of plan.leaves) {
      const wires = Object.values(leaf.inputs).flat();
      const read = wires.map((wire) => (wire.kind === "signal" ? (found[wire.signal] ?? 0) : 0));
      const tolerance = Math.max(ownTolerance(leaf), ...read);
      for (const signal of Object.values(leaf.outputs)) {
        if (signal === undefined || (found[signal] ?? 0) >= tolerance) continue;
        found[signal] = tolerance;
        changed = true;
      }
    }
  }
  return found;
}

/** Relative tolerance of all decisions of the plan. */
export function decisionTolerance(plan: CircuitPlan): number {
  return Math.max(0, ...plan.leaves.map(ownTolerance));
}

export function equal(wanted: number, got: number, tolerance: number): boolean {
  if (wanted === got || (Number.isNaN(wanted) && Number.isNaN(got))) return true;
  return Math.abs(wanted - got) <= tolerance * Math.abs(wanted);
}

function ownTolerance({ kind, config }: Leaf): number {
  if (kind === "unary_operator") {
    if (OWN.has(config.operator)) return SPECIAL;
    return EXACT.has(config.operator) ? 0 : TRANSCENDENTAL;
  }
  const exact =
    (kind !== "gradient_controller" || Math.abs(config.parameters.slope) === 1) &&
    (kind !== "polynomial_range_function" || Number.isInteger(config.parameters.degree));
  return exact ? 0 : TRANSCENDENTAL;
}
