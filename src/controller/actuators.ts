// The components of a circuit whose numbers agents go by: what they last said, over a change too, and which of
// them let everything pass because they have no number to say.

import type { Circuit } from "#circuit/circuit.ts";
import type { Decision } from "#circuit/component.ts";
import type { CircuitPlan, Kind, Leaf } from "#circuit/plan.ts";

export interface Actuator {
  readonly kind: Decision["kind"];
  readonly componentId: string;
  readonly agentGroups: readonly string[];
  /** Names its decisions within the policy. */
  readonly key: string;
  readonly leaf: Leaf;
}

/** By `keyOf`. */
export type Decisions = ReadonlyMap<string, Decision>;

/** Which leaves speak for which kind of decision. */
const DECIDED: Readonly<Partial<Record<Kind, Decision["kind"]>>> = {
  load_actuator: "load_scheduler",
  rate_limiter: "rate_limiter",
  quota_scheduler: "quota_scheduler",
  concurrency_limiter: "concurrency_limiter",
  concurrency_scheduler: "concurrency_scheduler",
  sampler: "sampler",
  pod_scale_actuator: "pod_scaler",
};

/** Ports without whose numbers everything passes. */
const NEEDED: Readonly<Partial<Record<Kind, readonly string[]>>> = {
  load_actuator: ["load_multiplier"],
  rate_limiter: ["bucket_capacity", "fill_amount"],
  quota_scheduler: ["bucket_capacity", "fill_amount"],
  concurrency_limiter: ["max_concurrency"],
  concurrency_scheduler: ["max_concurrency"],
  sampler: ["accept_percentage"],
};

export function actuatorsOf(plan: CircuitPlan | undefined): readonly Actuator[] {
  return (plan?.leaves ?? []).flatMap((leaf) => {
    const kind = DECIDED[leaf.kind];
    if (kind === undefined) return [];
    const { component_id: componentId, agent_groups: agentGroups } = leaf.config as {
      readonly component_id: string;
      readonly agent_groups: readonly string[];
    };
    return [{ kind, componentId, agentGroups, key: keyOf({ kind, componentId }), leaf }];
  });
}

export function keyOf({ kind, componentId }: Pick<Decision, "kind" | "componentId">): string {
  return `${kind}/${componentId}`;
}

/**
 * Decisions that stay in force over a change until their components make new ones: those of the same
 * component, wherever it stands now, or else of one of the same kind in the same place.
 */
export function carried(
  decisions: Decisions,
  from: readonly Actuator[],
  to: readonly Actuator[],
): Map<string, Decision> {
  const kept = new Map<string, Decision>();
  if (decisions.size === 0) return kept;
  const former = new Map(from.map(({ leaf, key }) => [leaf.identity, key]));
  for (const { leaf, key, componentId, agentGroups } of to) {
    const decision = decisions.get(former.get(leaf.identity) ?? key);
    if (decision !== undefined) kept.set(key, { ...decision, componentId, agentGroups });
  }
  return kept;
}

/** Does it let everything pass because a signal that it needs is invalid? */
export function isStarved(actuator: Actuator, circuit: Circuit, decisions: Decisions): boolean {
  const { leaf, key } = actuator;
  if (leaf.kind === "load_actuator") {
    // It speaks every ten seconds only: what it said last is what holds.
    const said = decisions.get(key);
    return said?.kind === "load_scheduler" && said.passThrough;
  }
  // In ramp mode nothing passes without a number.
  if (leaf.kind === "sampler" && leaf.config.ramp_mode) return false;
  return invalidPorts(leaf, circuit).length > 0;
}

/** `rate_limiter root.1 (invalid: bucket_capacity)`. */
export function describeActuator(actuator: Actuator, circuit: Circuit): string {
  const { kind, componentId, leaf } = actuator;
  const invalid = invalidPorts(leaf, circuit);
  const ports = invalid.length === 0 ? "" : ` (invalid: ${invalid.join(", ")})`;
  return `${kind} ${componentId}${ports}`;
}

/** Of the ports that it needs, those that read an invalid signal. */
function invalidPorts({ kind, inputs }: Leaf, circuit: Circuit): readonly string[] {
  return (NEEDED[kind] ?? []).filter((port) =>
    inputs[port]?.some(
      (wire) => wire.kind === "signal" && Number.isNaN(circuit.reading(wire.signal)),
    ),
  );
}
