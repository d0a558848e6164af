// The compiled circuit as JSON: every component that runs, in document order, with the signals that it reads
// and writes. `policy expand` prints it.

import { formatSeconds } from "#base/duration.ts";
import type { CircuitPlan, Leaf, Wire } from "#circuit/plan.ts";
import type { CompiledPolicy, JsonObject, JsonValue } from "../compiled.ts";
import type { Message } from "../language/field.ts";
import { policy } from "../language/policy.ts";

/** Durations are text in seconds with the suffix `s`, as in documents. */
export function expanded({ name, hash, circuit }: CompiledPolicy): JsonObject {
  if (circuit === undefined) return { policy: name, hash, components: [] };
  return {
    policy: name,
    hash,
    evaluation_interval: formatSeconds(circuit.intervalMs),
    components: circuit.leaves.map((leaf) => component(leaf, circuit)),
  };
}

function component(leaf: Leaf, plan: CircuitPlan): JsonObject {
  const inputs = Object.entries(leaf.inputs).map(
    ([port, wires]) => [port, single(wires.map((wire) => read(wire, plan)))] as const,
  );
  const outputs = Object.entries(leaf.outputs).flatMap(([port, signal]) =>
    signal === undefined ? [] : [[port, nameOf(signal, plan)] as const],
  );
  return {
    id: leaf.id,
    kind: leaf.kind,
    ...filled("in", Object.fromEntries(inputs)),
    ...filled("out", Object.fromEntries(outputs)),
    ...filled("config", plain(leaf.config) as JsonObject),
  };
}

function filled(key: string, members: JsonObject): JsonObject {
  return Object.keys(members).length === 0 ? {} : { [key]: members };
}

function single(values: readonly JsonValue[]): JsonValue {
  const [only, ...more] = values;
  return only !== undefined && more.length === 0 ? only : values;
}

function read(wire: Wire, plan: CircuitPlan): JsonValue {
  if (wire.kind === "open") return null;
  if (wire.kind === "constant") return finite(wire.value);
  const name = nameOf(wire.signal, plan);
  return wire.looped ? { looped: name } : name;
}

function nameOf(signal: number, { signals }: CircuitPlan): string {
  const found = signals[signal];
  return found === undefined ? "" : `${found.circuit}/${found.name}`;
}

function finite(value: number): JsonValue {
  return Number.isFinite(value) ? value : String(value);
}

/** Names of fields that hold milliseconds here and text in seconds in documents. No other field has such a name. */
const DURATIONS: ReadonlySet<string> = new Set(durationFields(policy, new Set()));

function durationFields(message: Message, seen: Set<Message>): string[] {
  if (seen.has(message)) return [];
  seen.add(message);
  return Object.entries(message.fields).flatMap(([name, { type }]) => {
    const inner = type.kind === "list" || type.kind === "map" ? type.of.type : type;
    if (inner.kind === "message") return durationFields(inner.of(), seen);
    return inner.kind === "duration" ? [name] : [];
  });
}

function member(key: string, value: unknown): JsonValue {
  return DURATIONS.has(key) && typeof value === "number" ? formatSeconds(value) : plain(value);
}

/** Maps become objects; absent members are left out. */
function plain(value: unknown): JsonValue {
  if (typeof value === "number") return finite(value);
  if (value === null || value === undefined) return null;
  if (typeof value !== "object")
    return typeof value === "bigint" ? String(value) : (value as JsonValue);
  if (Array.isArray(value)) return value.map(plain);
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return Object.fromEntries(
    entries.flatMap(([key, inner]) =>
      inner === undefined ? [] : [[String(key), member(String(key), inner)]],
    ),
  );
}
