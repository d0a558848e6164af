// Circuits: order, loops, faults, dynamic configuration, and one version of a policy after another.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Circuit } from "#circuit/circuit.ts";
import type { QueryRequest } from "#circuit/component.ts";
import type { CircuitDecision } from "#circuit/decision.ts";
import type { DynamicConfig } from "#circuit/overrides.ts";
import type { CircuitPlan, Configs, Kind, Leaf, Wire } from "#circuit/plan.ts";

/** Reads a signal by name, the signal of the previous tick (`~name`), or a constant. */
type Source = string | number;

interface Piece {
  readonly kind: Kind;
  readonly config: Configs[Kind];
  readonly in?: Readonly<Record<string, Source | readonly Source[]>>;
  readonly out?: Readonly<Record<string, string>>;
  readonly id?: string;
}

function piece<K extends Kind>(
  kind: K,
  config: Configs[K],
  inputs: Piece["in"] = {},
  output?: string,
): Piece {
  return { kind, config, in: inputs, out: output === undefined ? {} : { output } };
}

function planOf(pieces: readonly Piece[], settings: Partial<CircuitPlan> = {}): CircuitPlan {
  const names = [...new Set(pieces.flatMap(({ out = {} }) => Object.values(out)))];
  const wire = (source: Source): Wire => {
    if (typeof source === "number") return { kind: "constant", value: source };
    const looped = source.startsWith("~");
    return { kind: "signal", signal: names.indexOf(looped ? source.slice(1) : source), looped };
  };
  const leaves = pieces.map(({ kind, config, in: inputs = {}, out = {}, id }, at) => ({
    id: id ?? `root.${at}`,
    kind,
    config,
    inputs: Object.fromEntries(
      Object.entries(inputs).map(([port, from]) => [
        port,
        (Array.isArray(from) ? from : [from]).map(wire),
      ]),
    ),
    outputs: Object.fromEntries(
      Object.entries(out).map(([port, name]) => [port, names.indexOf(name)]),
    ),
    identity: JSON.stringify([kind, config, inputs, out]),
  }));
  return {
    policyName: "p",
    policyHash: "h",
    intervalMs: 1_000,
    signals: names.map((name) => ({ circuit: "root", name })),
    leaves: leaves as readonly Leaf[],
    order: leaves.map((_, at) => at),
    ...settings,
  };
}

class World {
  readonly asks: QueryRequest[] = [];
  readonly decisions: CircuitDecision[] = [];
  readonly faults: string[] = [];
  readonly setAside: string[] = [];
  readonly circuit: Circuit;
  #now = 1_700_000_000_000;

  constructor(pieces: readonly Piece[], settings: Settings = {}) {
    const { config, before, deaf = false, ...plan } = settings;
    const outside = {
      ask: (ask: QueryRequest) => void this.asks.push(ask),
      decide: (decision: CircuitDecision) => {
        if (deaf) throw new Error("nobody listens");
        this.decisions.push(decision);
      },
      alert: () => undefined,
      fault: (id: string, kind: string, thrown: unknown) =>
        void this.faults.push(`${id} ${kind} ${thrown}`),
      ignoredOverride: (key: string) => void this.setAside.push(key),
    };
    this.circuit = new Circuit(planOf(pieces, plan), outside, config, before?.circuit.memory());
  }

  /** The readings of all signals after one more tick. */
  tick(): readonly number[] {
    this.#now += this.circuit.plan.intervalMs;
    this.circuit.tick(this.#now);
    return this.circuit.plan.signals.map((_, at) => this.circuit.reading(at));
  }

  column(ticks: number): readonly number[] {
    return Array.from({ length: ticks }, () => this.tick()[0] ?? Number.NaN);
  }
}

interface Settings extends Partial<Pick<CircuitPlan, "intervalMs" | "order">> {
  readonly config?: DynamicConfig;
  readonly before?: World;
  readonly deaf?: boolean;
}

const add = { operator: "add" };
const counter = [
  piece("first_valid", {}, { inputs: ["~SUM", 0] }, "LAST"),
  piece("arithmetic_combinator", add, { lhs: "LAST", rhs: 1 }, "SUM"),
];
const query = (text: string, output: string, everyMs = 1_000) =>
  piece("promql", { query_string: text, evaluation_interval: everyMs }, {}, output);
const sum = (initial: number, everyMs?: number) =>
  piece("integrator", { initial_value: initial, evaluation_interval: everyMs }, { input: 1 }, "I");

test("a looped wire reads the previous tick, at first invalid; others read this tick", () => {
  const world = new World(counter);
  assert.deepEqual(
    [world.tick(), world.tick(), world.tick()],
    [
      [0, 1],
      [1, 2],
      [2, 3],
    ],
  );
  const itself = new World([piece("arithmetic_combinator", add, { lhs: "~X", rhs: 1 }, "X")]);
  assert.deepEqual(itself.column(2), [Number.NaN, Number.NaN]);
});

test("one signal can be read from this tick and from the previous one", () => {
  const world = new World([
    ...counter,
    piece("arithmetic_combinator", { operator: "sub" }, { lhs: "SUM", rhs: "~SUM" }, "STEP"),
  ]);
  assert.deepEqual([world.tick()[2], world.tick()[2], world.tick()[2]], [Number.NaN, 1, 1]);
});

test("components run in the plan's order, not in that of their list", () => {
  const pieces = [
    piece("inverter", {}, { input: "B" }, "A"),
    piece("variable", { constant_output: { value: 0 }, config_key: "" }, {}, "B"),
  ];
  assert.deepEqual(new World(pieces, { order: [1, 0] }).tick(), [1, 0]);
});

test("unconnected in-ports read invalid, writes to unconnected out-ports are discarded", () => {
  const world = new World([
    piece("signal_generator", {
      parameters: { steps: [{ target_output: { value: 4 }, duration: 0 }] },
    }),
    piece("arithmetic_combinator", add, { lhs: 1 }, "SUM"),
    piece("switcher", {}, { on_signal: 1 }, "SWITCHED"),
  ]);
  assert.deepEqual(world.tick(), [Number.NaN, Number.NaN]);
  assert.deepEqual(world.faults, []);
});

test("a component that throws does not stop others, and is reported in every tick", () => {
  const limiter = { component_id: "root.0", agent_groups: ["g"] };
  const ports = { bucket_capacity: 1, fill_amount: "SUM" };
  const world = new World([...counter, piece("rate_limiter", limiter, ports), sum(0)], {
    deaf: true,
  });
  assert.deepEqual(
    [world.tick(), world.tick(), world.tick()],
    [
      [0, 1, 0],
      [1, 2, 1],
      [2, 3, 2],
    ],
  );
  const said = "root.2 rate_limiter Error: nobody listens";
  assert.deepEqual(world.faults, [said, said, said]);
});

test("outputs of a component that throws after writing are invalid", () => {
  // The query is sent after the output was written, and sending it throws.
  const throwing = {
    ask: () => {
      throw new Error("closed");
    },
    decide: () => undefined,
    alert: () => undefined,
    fault: (id: string, kind: string) => void faults.push(`${id} ${kind}`),
    ignoredOverride: () => undefined,
  };
  const faults: string[] = [];
  const pieces = [query("q", "Q"), piece("first_valid", {}, { inputs: ["Q", 5] }, "AFTER")];
  const circuit = new Circuit(planOf(pieces), throwing, undefined);
  circuit.answer("root.0", { kind: "value", value: 1 });
  circuit.tick(1_000);
  assert.deepEqual([circuit.reading(0), circuit.reading(1)], [Number.NaN, 5]);
  assert.deepEqual(faults, ["root.0 promql"]);
});

test("answers reach their component, and nothing waits for late ones", () => {
  const world = new World([query("slow", "SLOW"), query("fast", "FAST"), sum(0)]);
  world.tick();
  assert.deepEqual(
    world.asks.map(({ componentId, query: text }) => [componentId, text]),
    [
      ["root.0", "slow"],
      ["root.1", "fast"],
    ],
  );
  world.circuit.answer("root.1", { kind: "value", value: 2 });
  world.circuit.answer("root.99", { kind: "value", value: 2 });
  assert.deepEqual(world.tick(), [Number.NaN, 2, 1]);
  world.circuit.answer("root.1", { kind: "value", value: 3 });
  assert.deepEqual(world.tick(), [Number.NaN, 3, 2]);
  world.circuit.answer("root.0", { kind: "value", value: 7 });
  world.circuit.answer("root.1", { kind: "failed", why: "late" });
  assert.deepEqual(world.tick(), [7, Number.NaN, 3]);
});

test("reports of replicas are matched by the scaler's id", () => {
  const scaler = (id: string) => ({ component_id: id, agent_groups: ["g"] });
  const world = new World([
    { kind: "pod_scale_reporter", config: scaler("root.1"), out: { actual_replicas: "A" } },
    { kind: "pod_scale_reporter", config: scaler("root.2"), out: { configured_replicas: "B" } },
  ]);
  world.circuit.report("root.1", { actual: 1, configured: 2 });
  assert.deepEqual(world.tick(), [1, Number.NaN]);
  world.circuit.report("root.2", { actual: 3, configured: 4 });
  world.circuit.report("root.1", undefined);
  assert.deepEqual(world.tick(), [Number.NaN, 4]);
});

test("dynamic configuration: from the start, on change, and none means none", () => {
  const variable = (config_key: string, output: string) =>
    piece("variable", { constant_output: { value: 1 }, config_key }, {}, output);
  const pieces = [variable("a", "A"), variable("b.c", "B"), variable("", "C")];
  const world = new World(pieces, { config: { a: { value: 5 }, "": { value: 6 } } });
  assert.deepEqual(world.tick(), [5, 1, 1]);
  world.circuit.configure({ b: { c: { special_value: "-Inf" } } });
  assert.deepEqual(world.tick(), [1, -Infinity, 1]);
  world.circuit.configure({ a: 5, b: { c: { value: 1, special_value: "NaN" } } });
  assert.deepEqual(world.tick(), [1, 1, 1]);
  assert.deepEqual(world.setAside, ["a", "b.c"]);
  // An absent value is not an invalid one.
  world.circuit.configure({ a: null, b: { c: null } });
  assert.deepEqual(world.setAside, ["a", "b.c"]);
  world.circuit.configure({ a: { value: 5 } });
  world.circuit.configure(undefined);
  assert.deepEqual(world.tick(), [1, 1, 1]);
});

test("a new version keeps the state of unchanged components, at any position", () => {
  const before = new World([sum(10), ...counter]);
  before.column(4);
  assert.deepEqual(before.tick(), [14, 4, 5]);
  const more = piece(
    "integrator",
    { initial_value: 0, evaluation_interval: undefined },
    { input: 2 },
    "J",
  );
  const after = new World([more, ...counter, sum(10)], { before });
  assert.equal(after.circuit.ticks, 5);
  // The new component starts afresh; the loop and the old sum continue.
  assert.deepEqual(after.tick(), [2, 5, 6, 15]);
});

test("a component of another configuration is another component", () => {
  const before = new World([sum(10)]);
  before.column(4);
  assert.deepEqual(new World([sum(11)], { before }).tick(), [12]);
});

test("another evaluation interval discards all state, which counts in ticks", () => {
  const before = new World([sum(10), ...counter]);
  before.column(4);
  const after = new World([sum(10), ...counter], { before, intervalMs: 500 });
  assert.equal(after.circuit.ticks, 0);
  assert.deepEqual(after.tick(), [10, 0, 1]);
});

test("the tick count continues in a new version", () => {
  const before = new World([sum(0, 10_000)]);
  before.column(8);
  const after = new World([sum(0, 10_000)], { before });
  assert.deepEqual(after.column(4), [0, 0, 1, 1]);
});

test("a new version sends all decisions again", () => {
  const limiter = { component_id: "root.0", agent_groups: ["g"] };
  const pieces = [piece("rate_limiter", limiter, { bucket_capacity: 1, fill_amount: 1 })];
  const before = new World(pieces);
  before.tick();
  before.tick();
  assert.equal(before.decisions.length, 1);
  const after = new World(pieces, { before });
  after.tick();
  assert.deepEqual(after.decisions, before.decisions);
});

test("an answer to a query of the previous version is accepted", () => {
  const before = new World([query("q", "Q")]);
  before.tick();
  before.circuit.answer("root.0", { kind: "value", value: 1 });
  const after = new World([query("q", "Q")], { before });
  assert.deepEqual(after.tick(), [1]);
  after.circuit.answer("root.0", { kind: "value", value: 2 });
  assert.deepEqual(after.tick(), [2]);
});

test("a new version does not keep the previous circuit alive", () => {
  const before = new World(counter);
  before.column(3);
  const after = new World(counter, { before });
  before.column(3);
  assert.deepEqual(after.tick(), [3, 4]);
});
