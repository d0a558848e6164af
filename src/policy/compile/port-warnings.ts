// Warnings about numbers at the ports of limiters that are allowed but rarely meant. They are known before
// anything runs where the port reads a constant, or a variable that dynamic configuration cannot override.

import { standInAtFirst, writersOf } from "#circuit/actuators.ts";
import { ACTUATORS } from "#circuit/decision.ts";
import { type CircuitPlan, constantOf, type Leaf, type Wire } from "#circuit/plan.ts";

export interface PortWarning {
  /** Id of the component in the document: `root.3`. */
  readonly id: string;
  readonly port: string;
  readonly text: string;
}

export function portWarnings(plan: CircuitPlan): readonly PortWarning[] {
  const writers = writersOf(plan.leaves);
  return plan.leaves.flatMap((leaf) =>
    (ACTUATORS[leaf.kind]?.needs ?? []).flatMap((port) => {
      const value = fixed(leaf.inputs[port]?.[0], writers);
      const text = value === undefined ? "" : warningText(leaf, port, value);
      const id = "component_id" in leaf.config ? leaf.config.component_id : leaf.id;
      return text === "" ? [] : [{ id, port, text }];
    }),
  );
}

/** The value that a wire always reads; undefined when it is not known before the circuit runs. */
function fixed(wire: Wire | undefined, writers: ReadonlyMap<number, Leaf>): number | undefined {
  let at = wire;
  // Follows the wire through ports of nested circuits. The bound on steps ends cycles.
  for (let steps = 0; at !== undefined && steps <= writers.size; steps++) {
    if (at.kind === "constant") return at.value;
    if (at.kind === "open") return Number.NaN;
    const writer = writers.get(at.signal);
    if (writer?.kind === "variable" && writer.config.config_key === "") {
      return constantOf(writer.config.constant_output);
    }
    const isPort =
      writer?.kind === "nested_signal_ingress" || writer?.kind === "nested_signal_egress";
    if (!isPort) return undefined;
    at = writer.inputs["signal"]?.[0] ?? { kind: "open" };
  }
  return undefined;
}

/** Ports that say how much passes. */
const AMOUNTS: ReadonlySet<string> = new Set(["bucket_capacity", "fill_amount", "max_concurrency"]);

/** No traffic ever reaches it. */
const ENDLESS = 1e12;

function warningText(leaf: Leaf, port: string, value: number): string {
  const { max } = ACTUATORS[leaf.kind] ?? {};
  if (Number.isNaN(value)) {
    const effect = standInAtFirst(leaf) === "closed" ? "no flow passes" : "all flows pass";
    return `never a valid number, so ${effect}`;
  }
  if (value >= ENDLESS && AMOUNTS.has(port))
    return `${value}, which no traffic reaches: it limits nothing`;
  if (value < 0) return `${value}, which counts as 0`;
  return max !== undefined && value > max ? `${value}, which counts as ${max}` : "";
}

/** Document path of the component with this id: `root.3.4` is component 4 of the nested circuit at component 3. */
export function pathOf(id: string): readonly (string | number)[] {
  const [, ...steps] = id.split(".").map(Number);
  const inner = steps.flatMap((step, at) =>
    at === 0 ? ["components", step] : ["nested_circuit", "components", step],
  );
  return ["circuit", ...inner];
}
