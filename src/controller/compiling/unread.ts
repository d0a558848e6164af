// Removes the part of a plan that only computes unconnected outputs. For example, each limiter has an output for the share of
// accepted flows, and without a reader it needs no query.

import { ACTUATORS } from "#circuit/decision.ts";
import type { CircuitPlan, Leaf, Wire } from "#circuit/plan.ts";

/**
 * The plan without the unconnected outputs of nested circuits, the components that only feed them, and the signals between
 * them. Other signals without a reader stay, because their author may want to watch them.
 */
export function withoutUnread(plan: CircuitPlan): CircuitPlan {
  const unread = unreadLeaves(plan);
  if (unread.size === 0) return plan;
  const gone = new Set([...unread].flatMap(outputsOf));
  const places = new Map<number, number>();
  for (const at of plan.signals.keys()) if (!gone.has(at)) places.set(at, places.size);
  const leaves = new Map<number, Leaf>();
  for (const [at, leaf] of plan.leaves.entries())
    if (!unread.has(leaf)) leaves.set(at, moved(leaf, places));
  const positions = new Map([...leaves.keys()].map((before, now) => [before, now]));
  return {
    ...plan,
    signals: plan.signals.filter((_, at) => !gone.has(at)),
    leaves: [...leaves.values()],
    order: plan.order.flatMap((at) => positions.get(at) ?? []),
  };
}

function unreadLeaves({ leaves }: CircuitPlan): ReadonlySet<Leaf> {
  const readers = new Map<number, Leaf[]>();
  for (const leaf of leaves) {
    for (const signal of inputsOf(leaf)) {
      const known = readers.get(signal) ?? [];
      readers.set(signal, known);
      known.push(leaf);
    }
  }
  const unread = new Set(
    leaves.filter((leaf) => leaf.kind === "nested_signal_egress" && outputsOf(leaf).length === 0),
  );
  const isUnread = (signal: number) => {
    const all = readers.get(signal) ?? [];
    return all.length > 0 && all.every((reader) => unread.has(reader));
  };
  const writesNothingElse = (leaf: Leaf) => {
    const outputs = outputsOf(leaf);
    const acts = ACTUATORS[leaf.kind] !== undefined || leaf.kind === "alerter";
    return !acts && outputs.length > 0 && outputs.every(isUnread);
  };
  // A component that was just found may be the last reader of another one.
  for (let before = -1; before !== unread.size; ) {
    before = unread.size;
    for (const leaf of leaves) if (writesNothingElse(leaf)) unread.add(leaf);
  }
  return unread;
}

function inputsOf({ inputs }: Leaf): readonly number[] {
  const wires = Object.values(inputs).flat();
  return wires.flatMap((wire) => (wire.kind === "signal" ? [wire.signal] : []));
}

function outputsOf({ outputs }: Leaf): readonly number[] {
  return Object.values(outputs).filter((signal) => signal !== undefined);
}

/** The component with renumbered signals. */
function moved(leaf: Leaf, places: ReadonlyMap<number, number>): Leaf {
  const wire = (each: Wire): Wire =>
    each.kind === "signal" ? { ...each, signal: places.get(each.signal) ?? each.signal } : each;
  const inputs = Object.entries(leaf.inputs).map(([port, wires]) => [port, wires.map(wire)]);
  const outputs = Object.entries(leaf.outputs).map(([port, signal]) => [
    port,
    signal === undefined ? undefined : places.get(signal),
  ]);
  return {
    ...leaf,
    inputs: Object.fromEntries(inputs),
    outputs: Object.fromEntries(outputs),
  } as Leaf;
}
