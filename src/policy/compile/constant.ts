// What a port reads when nothing has to run to know it: constants, variables, and both through the ports of
// nested circuits. NaN is an invalid reading, as of a port that is not connected.

import { judge } from "../judge.ts";
import { constantSignal, type InPort, reading } from "../language/ports.ts";
import { formatPath, member, type Tree } from "../tree.ts";
import type { Placed, Scope } from "./scope.ts";

export type Source =
  | { readonly kind: "constant"; readonly value: number }
  | { readonly kind: "runtime"; readonly signal: string; readonly by: Placed };

/** Values that override those of variables, by the names that policies choose for them. */
export interface Overrides {
  at(key: string): Tree | undefined;
  /** An override of the wrong form is set aside; `wanted` says what would have been right. */
  setAside(key: string, wanted: string): void;
}

const INVALID: Readonly<Source> = { kind: "constant", value: Number.NaN };

export function sourceOf(
  scope: Scope,
  port: InPort | undefined,
  overrides: Overrides,
  seen: ReadonlySet<string> = new Set(),
): Source {
  if (port?.constant_signal !== undefined) {
    return { kind: "constant", value: reading(port.constant_signal) };
  }
  const name = port?.signal_name;
  const producer = name === undefined ? undefined : scope.producers.get(name);
  // A signal that nobody writes was refused already.
  if (name === undefined || producer === undefined) return INVALID;
  const { by, path } = producer;
  const key = `${scope.id}/${name}`;
  // Wires that lead back to themselves hold whatever the last tick left there.
  if (seen.has(key)) return { kind: "runtime", signal: name, by };
  const known = new Set([...seen, key]);
  const { component, inner } = by;
  if (component.variable !== undefined) {
    return { kind: "constant", value: variableValue(component.variable, overrides) };
  }
  if (component.bool_variable !== undefined) {
    return { kind: "constant", value: boolValue(component.bool_variable, overrides) ? 1 : 0 };
  }
  if (component.nested_signal_ingress !== undefined) {
    const { parent } = scope;
    if (parent === undefined) return INVALID;
    const outer = parent.nested.in_ports_map.get(component.nested_signal_ingress.port_name);
    return sourceOf(parent.scope, outer, overrides, known);
  }
  if (inner !== undefined) {
    const egress = inner.egresses.get(String(path.at(-1)))?.component.nested_signal_egress;
    return sourceOf(inner, egress?.in_ports?.signal, overrides, known);
  }
  return { kind: "runtime", signal: name, by };
}

type Variable = NonNullable<Placed["component"]["variable"]>;
type BoolVariable = NonNullable<Placed["component"]["bool_variable"]>;

function variableValue({ config_key: key, constant_output }: Variable, overrides: Overrides) {
  const override = overrides.at(key);
  if (override === undefined) return reading(constant_output);
  const { value } = judge(constantSignal, override, []);
  if (value !== undefined) return reading(value);
  overrides.setAside(key, "{value: number} or {special_value: NaN, +Inf or -Inf}");
  return reading(constant_output);
}

const TRUE: ReadonlySet<string> = new Set(["1", "t", "T", "true", "TRUE", "True"]);
const FALSE: ReadonlySet<string> = new Set(["0", "f", "F", "false", "FALSE", "False"]);

function boolValue({ config_key: key, constant_output }: BoolVariable, overrides: Overrides) {
  const override = overrides.at(key);
  if (override === undefined) return constant_output;
  if (override.kind === "boolean") return override.value;
  if (override.kind === "number") return override.value !== 0;
  if (override.kind === "text" && TRUE.has(override.value)) return true;
  if (override.kind === "text" && FALSE.has(override.value)) return false;
  overrides.setAside(key, "true or false");
  return constant_output;
}

/** A list of texts, or undefined when the key has no such override. */
export function textsOf(key: string, overrides: Overrides): readonly string[] | undefined {
  const override = overrides.at(key);
  if (override === undefined) return undefined;
  const texts: string[] = [];
  for (const item of override.kind === "list" ? override.items : []) {
    if (item.kind === "text") texts.push(item.value);
  }
  if (override.kind === "list" && texts.length === override.items.length) return texts;
  overrides.setAside(key, "a list of texts");
  return undefined;
}

/** The key as written, or else its parts between dots, each inside the one before. An empty key is none. */
export function overrideAt(config: Tree | undefined, key: string): Tree | undefined {
  if (key === "") return undefined;
  const whole = member(config, key);
  if (whole !== undefined) return whole;
  return key.split(".").reduce<Tree | undefined>((inside, step) => member(inside, step), config);
}

/** `signal CAP from query.promql at circuit.components[0]`. */
export function describeSource(source: Source & { readonly kind: "runtime" }): string {
  return `signal ${source.signal} from ${source.by.kind} at ${formatPath(source.by.path)}`;
}
