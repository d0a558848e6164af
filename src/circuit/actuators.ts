// The actuators of a plan, which are the components whose decisions agents act on: their last decisions, and what
// stands in for one whose signals are invalid.

import { type FailureMode, type StandIn, standInOf } from "#base/failure-mode.ts";
import type { Circuit } from "./circuit.ts";
import { ACTUATORS, type CircuitDecision, type DecisionKind } from "./decision.ts";
import type { CircuitPlan, Leaf } from "./plan.ts";

/** One component of a plan that makes decisions. */
export interface Actuator {
  readonly kind: DecisionKind;
  readonly componentId: string;
  readonly agentGroups: readonly string[];
  /** Identifies its decisions within the policy: see `decisionId`. */
  readonly key: string;
  readonly leaf: Leaf;
}

/** The last decisions of a circuit, by `decisionId`. */
export type Decisions = ReadonlyMap<string, CircuitDecision>;

/** `<kind>/<component id>`. */
export function decisionId({
  kind,
  componentId,
}: Pick<CircuitDecision, "kind" | "componentId">): string {
  return `${kind}/${componentId}`;
}

export function actuatorsOf(plan: CircuitPlan | undefined): readonly Actuator[] {
  const actuators = (plan?.leaves ?? []).flatMap((leaf) => {
    const kind = ACTUATORS[leaf.kind]?.decision;
    if (kind === undefined) return [];
    const { component_id: componentId, agent_groups: agentGroups } = leaf.config as {
      readonly component_id: string;
      readonly agent_groups: readonly string[];
    };
    return [{ kind, componentId, agentGroups, key: decisionId({ kind, componentId }), leaf }];
  });
  // Without the spare room of an array that grew: every policy keeps one.
  return actuators.slice();
}

/** The signals that a decision or an alert depends on, however indirectly. Others have no effect outside the circuit. */
export function signalsWithEffect({ leaves }: CircuitPlan): ReadonlySet<number> {
  const writers = writersOf(leaves);
  const found = new Set<number>();
  const open = leaves.filter(({ kind }) => ACTUATORS[kind] !== undefined || kind === "alerter");
  for (let leaf = open.pop(); leaf !== undefined; leaf = open.pop()) {
    for (const wire of Object.values(leaf.inputs).flat()) {
      if (wire.kind !== "signal" || found.has(wire.signal)) continue;
      found.add(wire.signal);
      const writer = writers.get(wire.signal);
      if (writer !== undefined) open.push(writer);
    }
  }
  return found;
}

/** The component that writes each signal. */
export function writersOf(leaves: readonly Leaf[]): ReadonlyMap<number, Leaf> {
  const writers = new Map<number, Leaf>();
  for (const leaf of leaves) {
    for (const signal of Object.values(leaf.outputs)) {
      if (signal !== undefined) writers.set(signal, leaf);
    }
  }
  return writers;
}

/**
 * Decisions that stay in force after a plan was replaced, until their components make new ones: those of the
 * component with the same identity, or else of the component of the same kind with the same id.
 */
export function carryOver(
  decisions: Decisions,
  from: readonly Actuator[],
  to: readonly Actuator[],
): Map<string, CircuitDecision> {
  const carried = new Map<string, CircuitDecision>();
  if (decisions.size === 0) return carried;
  const keys = new Map(from.map(({ leaf, key }) => [leaf.identity, key]));
  for (const { leaf, key, componentId, agentGroups } of to) {
    const decision = decisions.get(keys.get(leaf.identity) ?? key);
    if (decision !== undefined) carried.set(key, { ...decision, componentId, agentGroups });
  }
  return carried;
}

/** The behaviour of a component while a signal that it needs has never been valid. */
export function standInAtFirst(leaf: Leaf): StandIn {
  const byDefault = ACTUATORS[leaf.kind]?.byDefault?.(leaf) ?? "open";
  return standInOf(failureModeOf(leaf), byDefault, false);
}

/**
 * The failure mode by which a component decides because a signal that it needs is invalid: its last decision names it.
 * Undefined while its signals are valid.
 */
export function standInNow({ leaf, key }: Actuator, decisions: Decisions): StandIn | undefined {
  const last = decisions.get(key);
  if (last === undefined) return undefined;
  if (ACTUATORS[leaf.kind]?.failsOpen?.(last)) return "open";
  return "failure" in last ? last.failure : undefined;
}

/** The failure mode that the policy names; undefined where it names none. */
export function failureModeOf({ config }: Leaf): FailureMode | undefined {
  return "on_failure" in config ? config.on_failure : undefined;
}

/** Kind, id and invalid ports, such as `pod_scaler root.1 (invalid: replicas)`. */
export function describeActuator(actuator: Actuator, circuit: Circuit): string {
  const { kind, componentId, leaf } = actuator;
  const invalid = invalidPorts(leaf, circuit);
  const ports = invalid.length === 0 ? "" : ` (invalid: ${invalid.join(", ")})`;
  return `${kind} ${componentId}${ports}`;
}

/** The needed in-ports that read an invalid signal. */
function invalidPorts({ kind, inputs }: Leaf, circuit: Circuit): readonly string[] {
  return (ACTUATORS[kind]?.needs ?? []).filter((port) =>
    inputs[port]?.some(
      (wire) => wire.kind === "signal" && Number.isNaN(circuit.reading(wire.signal)),
    ),
  );
}
