// Numbers that are allowed at a limiter's ports and seldom meant: known before anything runs, because they are
// constants or variables that nothing overrides.

import type { CircuitPlan, Kind, Leaf, Wire } from "#circuit/plan.ts";
import { constantOf } from "#circuit/plan.ts";

export interface Doubt {
  /** Of the component as the document has it: `root.3`. */
  readonly id: string;
  readonly port: string;
  readonly text: string;
}

const PORTS: Readonly<Partial<Record<Kind, readonly string[]>>> = {
  rate_limiter: ["bucket_capacity", "fill_amount"],
  quota_scheduler: ["bucket_capacity", "fill_amount"],
  concurrency_limiter: ["max_concurrency"],
  concurrency_scheduler: ["max_concurrency"],
  sampler: ["accept_percentage"],
};

export function doubtsOf(plan: CircuitPlan): readonly Doubt[] {
  const makers = new Map<number, Leaf>();
  for (const leaf of plan.leaves) {
    for (const signal of Object.values(leaf.outputs))
      if (signal !== undefined) makers.set(signal, leaf);
  }
  return plan.leaves.flatMap((leaf) =>
    (PORTS[leaf.kind] ?? []).flatMap((port) => {
      const value = fixed(leaf.inputs[port]?.[0], makers);
      const text = value === undefined ? "" : doubt(leaf, port, value);
      const id = "component_id" in leaf.config ? leaf.config.component_id : leaf.id;
      return text === "" ? [] : [{ id, port, text }];
    }),
  );
}

/** What a wire always reads; undefined where that is not known before the circuit runs. */
function fixed(wire: Wire | undefined, makers: ReadonlyMap<number, Leaf>): number | undefined {
  let at = wire;
  // Through the ports of nested circuits, which may lead round in a circle.
  for (let steps = 0; at !== undefined && steps <= makers.size; steps++) {
    if (at.kind === "constant") return at.value;
    if (at.kind === "open") return Number.NaN;
    const maker = makers.get(at.signal);
    if (maker?.kind === "variable" && maker.config.config_key === "") {
      return constantOf(maker.config.constant_output);
    }
    const door = maker?.kind === "nested_signal_ingress" || maker?.kind === "nested_signal_egress";
    if (!door) return undefined;
    at = maker.inputs["signal"]?.[0] ?? { kind: "open" };
  }
  return undefined;
}

function doubt(leaf: Leaf, port: string, value: number): string {
  if (Number.isNaN(value)) {
    const nothing = leaf.kind === "sampler" && leaf.config.ramp_mode;
    return `no valid number: lets ${nothing ? "nothing" : "everything"} pass`;
  }
  if (value < 0) return `${value}: counts as 0`;
  return port === "accept_percentage" && value > 100 ? `${value}: counts as 100` : "";
}

/** Where the component with this id stands: `root.3.4` is component 4 of the nested circuit that is component 3. */
export function placeOf(id: string): readonly (string | number)[] {
  const [, ...steps] = id.split(".").map(Number);
  const inner = steps.flatMap((step, at) =>
    at === 0 ? ["components", step] : ["nested_circuit", "components", step],
  );
  return ["circuit", ...inner];
}
