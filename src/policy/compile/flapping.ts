// Finds decisions that flip for ever: a decider measures flows with a flux meter, and its decision changes at once how
// many flows pass. As soon as the decision has had its effect, the measurement no longer justifies it.

import { writersOf } from "#circuit/actuators.ts";
import { ACTUATORS } from "#circuit/decision.ts";
import type { CircuitPlan, Kind, Leaf } from "#circuit/plan.ts";
import { queryOf } from "#circuit/queries.ts";
import { leavesInCycles } from "./flatten/loops.ts";

/** Components whose output follows their input slowly, or keeps it. */
const SLOW: ReadonlySet<Kind> = new Set([
  "ema",
  "gradient_controller",
  "holder",
  "integrator",
  "pid_controller",
  "sma",
]);

/**
 * The ids of deciders that nothing holds on the way from a query to a limiter. `measuresFlows`: the query reads flows
 * that the policy acts upon.
 */
export function flappingDeciders(
  { leaves, intervalMs }: CircuitPlan,
  measuresFlows: (query: string) => boolean,
): readonly string[] {
  // A hold of one tick does not help: the measurement may already show the effect of the decision.
  const holds = (leaf: Leaf) =>
    leaf.kind === "decider" && Math.max(leaf.config.true_for, leaf.config.false_for) > intervalMs;
  const free = leaves.filter((leaf) => leaf.kind === "decider" && !holds(leaf));
  if (free.length === 0) return [];
  const [writers, readers] = [writersOf(leaves), readersOf(leaves)];
  const looped = inLoops(leaves, writers);
  const measures = (leaf: Leaf) => measuresFlows(queryOf(leaf));
  // Another decider on the way is reported by itself.
  const before = (leaf: Leaf) =>
    leaf.kind === "decider" ? [] : signalsRead(leaf).flatMap((each) => writers.get(each) ?? []);
  const after = (leaf: Leaf) =>
    SLOW.has(leaf.kind) || looped.has(leaf) || holds(leaf)
      ? []
      : Object.values(leaf.outputs).flatMap((each) => readers.get(each ?? -1) ?? []);
  const acts = ({ kind }: Leaf) => ACTUATORS[kind] !== undefined;
  return free
    .filter((decider) => {
      const inputs = signalsRead(decider).flatMap((each) => writers.get(each) ?? []);
      return reaches(inputs, before, measures) && reaches([decider], after, acts);
    })
    .map(({ id }) => id);
}

function reaches(
  from: readonly Leaf[],
  next: (leaf: Leaf) => readonly Leaf[],
  isFound: (leaf: Leaf) => boolean,
): boolean {
  const seen = new Set(from);
  // A set yields what is added to it meanwhile.
  for (const leaf of seen) {
    if (isFound(leaf)) return true;
    for (const each of next(leaf)) seen.add(each);
  }
  return false;
}

function signalsRead(leaf: Leaf, ports = Object.keys(leaf.inputs)): readonly number[] {
  const wires = ports.flatMap((port) => leaf.inputs[port] ?? []);
  return wires.flatMap((wire) => (wire.kind === "signal" ? [wire.signal] : []));
}

/** The components that follow each signal at once. A signal generator moves slowly, except back to its start. */
function readersOf(leaves: readonly Leaf[]): ReadonlyMap<number, readonly Leaf[]> {
  const readers = new Map<number, Leaf[]>();
  for (const leaf of leaves) {
    const ports = leaf.kind === "signal_generator" ? ["reset"] : undefined;
    for (const signal of signalsRead(leaf, ports)) {
      const known = readers.get(signal);
      if (known === undefined) readers.set(signal, [leaf]);
      else known.push(leaf);
    }
  }
  return readers;
}

/** Components in loops of signals: a loop keeps a decision, or makes it act in small steps. */
function inLoops(leaves: readonly Leaf[], writers: ReadonlyMap<number, Leaf>): ReadonlySet<Leaf> {
  const indexes = new Map(leaves.map((leaf, at) => [leaf, at]));
  const edges = leaves.flatMap((leaf, to) =>
    signalsRead(leaf).flatMap((signal) => {
      const writer = writers.get(signal);
      const from = writer === undefined ? undefined : indexes.get(writer);
      return from === undefined ? [] : [{ from, to }];
    }),
  );
  const found = leavesInCycles(leaves.length, edges);
  return new Set(leaves.filter((_, at) => found.has(at)));
}
