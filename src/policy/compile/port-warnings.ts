// Warnings about numbers at the ports of limiters that are allowed but rarely meant. They are known before
// anything runs where the port reads a constant, or a variable that dynamic configuration cannot override or does
// override. Also warnings about loops of signals that never have a value.

import { standInAtFirst, writersOf } from "#circuit/actuators.ts";
import type { Overrides } from "#circuit/component.ts";
import { ACTUATORS } from "#circuit/decision.ts";
import { type CircuitPlan, constantOf, type Leaf, type Wire } from "#circuit/plan.ts";

export interface PortWarning {
  /** Id of the component in the document: `root.3`. */
  readonly id: string;
  readonly port: string;
  readonly text: string;
  /** The key of the dynamic configuration that the number comes from. */
  readonly key?: string;
}

/** The warnings that need no dynamic configuration. */
export function portWarnings(plan: CircuitPlan): readonly PortWarning[] {
  const values = numberWarnings(plan, undefined);
  const stuck = loopsWithoutStart(plan.leaves).map(({ leaf, port }) => {
    const text =
      "a signal of a loop in which no component begins with a value, so it is never a valid number";
    return { id: leaf.id, port, text };
  });
  return [...values, ...stuck];
}

/** Warnings about the numbers that a dynamic configuration brings to ports. */
export function overrideWarnings(
  plan: CircuitPlan,
  overrides: Overrides,
): readonly (PortWarning & { readonly key: string })[] {
  return numberWarnings(plan, overrides).flatMap((warning) =>
    warning.key === undefined ? [] : [{ ...warning, key: warning.key }],
  );
}

function numberWarnings(
  plan: CircuitPlan,
  overrides: Overrides | undefined,
): readonly PortWarning[] {
  const writers = writersOf(plan.leaves);
  return plan.leaves.flatMap((leaf) =>
    (ACTUATORS[leaf.kind]?.needs ?? []).flatMap((port) => {
      const { value, key } = fixed(leaf.inputs[port]?.[0], writers, overrides) ?? {};
      const text = value === undefined ? "" : warningText(leaf, port, value);
      const id = "component_id" in leaf.config ? leaf.config.component_id : leaf.id;
      return text === "" ? [] : [{ id, port, text, ...(key === undefined ? {} : { key }) }];
    }),
  );
}

/** Components whose outputs are invalid while one of their inputs is, whatever the ticks before have shown. */
const STRICT: ReadonlySet<Leaf["kind"]> = new Set([
  "arithmetic_combinator",
  "unary_operator",
  "inverter",
  "max",
  "min",
  "nested_signal_ingress",
  "nested_signal_egress",
]);

/** The ports that read the tick before from a loop of strict components alone: nothing ever makes its first value. */
function loopsWithoutStart(
  leaves: readonly Leaf[],
): readonly { readonly leaf: Leaf; readonly port: string }[] {
  const signalsOf = (leaf: Leaf) =>
    Object.entries(leaf.inputs).flatMap(([port, wires]) =>
      wires.flatMap((wire) => (wire.kind === "signal" ? [{ port, ...wire }] : [])),
    );
  const strict = leaves.filter(({ kind }) => STRICT.has(kind));
  const writers = writersOf(strict);
  // A signal has a value some time if another component writes it, or a strict one whose inputs all have one.
  const waiting = new Map<Leaf, number>();
  const readers = new Map<number, Leaf[]>();
  const startable: Leaf[] = [];
  for (const leaf of strict) {
    const missing = signalsOf(leaf).filter(({ signal }) => writers.has(signal));
    for (const { signal } of missing) {
      const known = readers.get(signal);
      if (known === undefined) readers.set(signal, [leaf]);
      else known.push(leaf);
    }
    if (missing.length === 0) startable.push(leaf);
    else waiting.set(leaf, missing.length);
  }
  for (let leaf = startable.pop(); leaf !== undefined; leaf = startable.pop()) {
    for (const signal of Object.values(leaf.outputs)) {
      for (const reader of signal === undefined ? [] : (readers.get(signal) ?? [])) {
        const left = (waiting.get(reader) ?? 0) - 1;
        if (left > 0) waiting.set(reader, left);
        else {
          waiting.delete(reader);
          startable.push(reader);
        }
      }
    }
  }
  return [...waiting.keys()].flatMap((leaf) =>
    signalsOf(leaf).flatMap(({ port, signal, looped }) => {
      const writer = writers.get(signal);
      return looped && writer !== undefined && waiting.has(writer) ? [{ leaf, port }] : [];
    }),
  );
}

interface Fixed {
  readonly value: number;
  /** The key of the dynamic configuration that sets it, or that turns a switch off so that it is read. */
  readonly key?: string;
}

/** The value that a wire always reads; undefined when it is not known before the circuit runs. */
function fixed(
  wire: Wire | undefined,
  writers: ReadonlyMap<number, Leaf>,
  overrides: Overrides | undefined,
): Fixed | undefined {
  let at = wire;
  let switchedBy: Pick<Fixed, "key"> = {};
  // Follows the wire through ports of nested circuits and switches. The bound on steps ends cycles.
  for (let steps = 0; at !== undefined && steps <= writers.size; steps++) {
    if (at.kind === "constant") return { value: at.value, ...switchedBy };
    if (at.kind === "open") return { value: Number.NaN, ...switchedBy };
    const writer = writers.get(at.signal);
    if (writer?.kind === "variable") {
      const { config_key: key, constant_output } = writer.config;
      if (key === "") return { value: constantOf(constant_output), ...switchedBy };
      const value = overrides?.number(key);
      return value === undefined ? undefined : { value, key };
    }
    if (writer?.kind === "switcher") {
      // Whoever switches a number off, as a dry run does, need not be warned of what is read instead.
      const off = whereOff(writer.inputs["switch"]?.[0], writers, overrides);
      if (off === undefined) return undefined;
      switchedBy = { ...switchedBy, ...off };
      at = writer.inputs["off_signal"]?.[0] ?? { kind: "open" };
      continue;
    }
    const isPort =
      writer?.kind === "nested_signal_ingress" || writer?.kind === "nested_signal_egress";
    if (!isPort) return undefined;
    at = writer.inputs["signal"]?.[0] ?? { kind: "open" };
  }
  return undefined;
}

/** For a switch that is always off: the key of the dynamic configuration that turns it off, if one does. */
function whereOff(
  wire: Wire | undefined,
  writers: ReadonlyMap<number, Leaf>,
  overrides: Overrides | undefined,
): Pick<Fixed, "key"> | undefined {
  const writer = wire?.kind === "signal" ? writers.get(wire.signal) : undefined;
  if (writer?.kind !== "bool_variable") return undefined;
  const { config_key: key, constant_output } = writer.config;
  if (key === "") return constant_output ? undefined : {};
  if (overrides === undefined) return undefined;
  const overridden = overrides.boolean(key);
  if (overridden ?? constant_output) return undefined;
  return overridden === undefined ? {} : { key };
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
