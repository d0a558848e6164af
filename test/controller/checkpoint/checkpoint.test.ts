// A circuit that goes on from its checkpoint does what it would have done without an interruption, whatever it consists
// of; and what is no checkpoint, or one of another version or interval, is refused or of no use.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import type { Circuit } from "#circuit/circuit.ts";
import type { Alert, QueryRequest } from "#circuit/component.ts";
import type { CircuitPlan, Kind, Leaf, Wire } from "#circuit/plan.ts";
import { CircuitRunner, type Restored } from "#circuit/runner.ts";
import {
  checkpointOf,
  MAX_STATE_BYTES,
  readCheckpoint,
} from "#controller/checkpoint/checkpoint.ts";
import { SAMPLES, type Sample } from "./kinds.ts";

const KINDS = Object.keys(SAMPLES) as readonly Kind[];
const SOURCES = ["S0", "S1", "S2", "S3"] as const;
const NAN = Number.NaN;

/** The sources, then one component of `kind`, then one that adds its first output to its own last sum. */
function planOf(kind: Kind, settings: Partial<CircuitPlan> = {}): CircuitPlan {
  const { config, inputs = {}, outputs = [] } = SAMPLES[kind] as Sample<Kind>;
  const names = [...SOURCES, ...outputs, "SUM", "LAST"];
  const wire = (from: string | number, looped = false): Wire =>
    typeof from === "number"
      ? { kind: "constant", value: from }
      : { kind: "signal", signal: names.indexOf(from), looped };
  const leaves: Pick<Leaf, "kind" | "config" | "inputs" | "outputs">[] = SOURCES.map(
    (name, at) => ({
      kind: "promql",
      config: { query_string: name, evaluation_interval: 1_000 },
      inputs: {},
      outputs: { output: at },
    }),
  );
  leaves.push({
    kind,
    config,
    inputs: Object.fromEntries(
      Object.entries(inputs).map(([port, from]) => [
        port,
        (Array.isArray(from) ? from : [from]).map((each) => wire(each)),
      ]),
    ),
    outputs: Object.fromEntries(outputs.map((port) => [port, names.indexOf(port)])),
  });
  leaves.push({
    kind: "first_valid",
    config: {},
    inputs: { inputs: [wire("SUM", true), wire(0)] },
    outputs: { output: names.indexOf("LAST") },
  });
  leaves.push({
    kind: "arithmetic_combinator",
    config: { operator: "add" },
    inputs: { lhs: [wire("LAST")], rhs: [wire(outputs[0] ?? "S0")] },
    outputs: { output: names.indexOf("SUM") },
  });
  return {
    policyName: "p",
    policyHash: "h",
    intervalMs: 1_000,
    signals: names.map((name) => ({ circuit: "root", name })),
    leaves: leaves.map((leaf, at) => ({
      ...leaf,
      id: `root.${at}`,
      identity: JSON.stringify([leaf.kind, leaf.config, leaf.inputs, at]),
    })) as readonly Leaf[],
    order: leaves.map((_, at) => at),
    ...settings,
  };
}

/** The measurements between two ticks. */
interface Measured {
  readonly values: readonly number[];
  readonly replicas: number;
}

/** A policy's circuit with everything that it says, in a controller of its own. */
class World {
  readonly said: unknown[] = [];
  readonly runner: CircuitRunner;
  readonly #plan: CircuitPlan;

  constructor(plan: CircuitPlan, restored?: Restored) {
    this.#plan = plan;
    this.runner = new CircuitRunner({
      ask: ({ query, at }: QueryRequest) => void this.said.push([query, at]),
      alert: ({ name }: Alert) => void this.said.push(name),
      fault: (id, kind, thrown) => assert.fail(`${id} ${kind}: ${thrown}`),
    });
    this.runner.replace(plan, undefined, restored);
  }

  get circuit(): Circuit {
    return this.runner.circuit ?? assert.fail();
  }

  /** One tick at a time, then its measurements; returns all that is to be seen from outside. */
  run(all: readonly Measured[], from: number): readonly unknown[] {
    return all.map(({ values, replicas }, at) => {
      this.said.length = 0;
      this.runner.tick((from + at + 1) * 1_000);
      const seen = [
        this.#plan.signals.map((_, signal) => this.circuit.reading(signal)),
        structuredClone([...this.runner.decisions]).map(withoutSigns),
        [...this.said],
      ];
      for (const { id, kind, identity } of this.#plan.leaves) {
        const value = values[Number(id.slice("root.".length))] ?? values[0] ?? NAN;
        const tokens = new Map([["0", value]]);
        if (kind === "promql") this.runner.answer(identity, { kind: "value", value });
        if (kind === "load_actuator")
          this.runner.answer(identity, { kind: "by_label", values: tokens });
      }
      this.circuit.report("root.9", replicas < 0 ? undefined : { configured: 3, actual: replicas });
      return seen;
    });
  }

  checkpoint() {
    return checkpointOf(this.circuit, this.runner.decisions.values());
  }
}

/** A limit of -0 is one of 0: which of them was sent first makes no difference. */
function withoutSigns([id, decision]: readonly [string, object]): readonly unknown[] {
  return [id, ...Object.entries(decision).flatMap(([name, of]) => [name, of === 0 ? 0 : of])];
}

const value = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: -9, max: 9 }) },
  { weight: 3, arbitrary: fc.constant(NAN) },
  { weight: 1, arbitrary: fc.constantFrom(Number.POSITIVE_INFINITY, -0, 1e-300, 0.1) },
);
const measured = fc.record({
  values: fc.array(value, { minLength: 4, maxLength: 4 }),
  replicas: fc.integer({ min: -1, max: 3 }),
});
const run = fc.array(measured, { minLength: 1, maxLength: 24 });

/** The second half of a run, straight on and from a checkpoint that `change` may have altered. */
function halves(
  kind: Kind,
  first: readonly Measured[],
  second: readonly Measured[],
  change: (restored: Restored) => Restored = (restored) => restored,
) {
  const plan = planOf(kind);
  const straight = new World(plan);
  straight.run(first, 0);
  const restored = readCheckpoint(straight.checkpoint().bytes(1), plan);
  const next = new World(plan, change(restored));
  return [straight.run(second, first.length), next.run(second, first.length)] as const;
}

describe("every kind of component goes on from a checkpoint as if nothing had happened", () => {
  for (const kind of KINDS) {
    test(kind, () => {
      fc.assert(
        fc.property(run, run, (first, second) => {
          const [straight, resumed] = halves(kind, first, second);
          assert.deepEqual(resumed, straight);
        }),
        { numRuns: 40 },
      );
    });
  }
});

/** The kinds that remember something; without it, they would say something else. */
const STATEFUL: readonly Kind[] = KINDS.filter((kind) => {
  const { circuit } = new World(planOf(kind));
  const leaf = circuit.plan.leaves[SOURCES.length] ?? assert.fail();
  return circuit.memory().states.has(leaf.identity);
});

test("the kinds that remember something are known", () => {
  assert.deepEqual(STATEFUL, [
    "concurrency_limiter",
    "concurrency_scheduler",
    "decider",
    "differentiator",
    "ema",
    "extrapolator",
    "holder",
    "integrator",
    "load_actuator",
    "pid_controller",
    "pod_scale_reporter",
    "promql",
    "pulse_generator",
    "quota_scheduler",
    "rate_limiter",
    "sampler",
    "signal_generator",
    "sma",
  ]);
});

describe("the runs above notice when a component loses what it remembers", () => {
  for (const kind of STATEFUL) {
    test(kind, () => {
      const forget = (restored: Restored): Restored => {
        const { identity } = planOf(kind).leaves[SOURCES.length] ?? assert.fail();
        const states = new Map(restored.circuit.states);
        assert.ok(states.delete(identity));
        return { ...restored, circuit: { ...restored.circuit, states } };
      };
      const differs = fc.check(
        fc.property(run, run, (first, second) => {
          const [straight, resumed] = halves(kind, first, second, forget);
          assert.deepEqual(resumed, straight);
        }),
        { numRuns: 1_000, endOnFailure: true },
      );
      assert.equal(differs.failed, true);
    });
  }
});

const three: readonly Measured[] = [1, 2, 3].map((each) => ({
  values: [each, 2, 3, 4],
  replicas: 1,
}));
const invalid = (message: RegExp) => ({ code: "DATA_LOSS", message });
const bytesOf = (text: string) => new TextEncoder().encode(text);
const textOf = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

test("what is no checkpoint, was changed, or has another version is refused with the reason", () => {
  const world = new World(planOf("ema"));
  world.run(three, 0);
  const text = textOf(world.checkpoint().bytes(5));
  const read = (changed: string) => () => readCheckpoint(bytesOf(changed), planOf("ema"));
  assert.equal(read(text)().savedAt, 5);
  for (const broken of ["", "null", "[", text.slice(0, -20), "\u0000"])
    assert.throws(read(broken), invalid(/not a JSON object/));
  assert.throws(
    () => readCheckpoint(new Uint8Array([0xff, 0xfe]), planOf("ema")),
    invalid(/not a JSON object/),
  );
  assert.throws(read(text.replace('"version":1', '"version":2')), invalid(/version 1, got 2/));
  assert.throws(read("{}"), invalid(/version 1, got none/));
  assert.throws(read(text.replace('"count":2', '"count":3')), invalid(/does not match/));
  for (const strange of ['"ticks":"3"', '"ticks":-1', '"ticks":0.5'])
    assert.throws(read(text.replace('"ticks":3', strange)), invalid(/no number of ticks/));
  assert.throws(read(text.replace('"saved_at":5', '"saved_at":"x"')), invalid(/no time/));
  assert.throws(read('{"version":1}'), invalid(/does not match/));
  assert.throws(read('{"version":1,"circuit":null}'), invalid(/does not match/));
});

test("with another interval nothing is kept, as in a running controller", () => {
  const world = new World(planOf("integrator"));
  world.run(three, 0);
  const plan = planOf("integrator", { intervalMs: 2_000 });
  const next = new World(plan, readCheckpoint(world.checkpoint().bytes(0), plan));
  next.runner.tick(9_000);
  assert.equal(next.circuit.ticks, 1);
  assert.equal(next.circuit.reading(SOURCES.length), 1, "the initial value");
});

test("an edited policy keeps the components that are still the same, at whatever position", () => {
  const before = planOf("ema");
  const world = new World(before);
  world.run(three, 0);
  const bytes = world.checkpoint().bytes(0);
  const edited: CircuitPlan = {
    ...before,
    leaves: before.leaves.map((leaf) =>
      leaf.kind === "ema" ? { ...leaf, id: "root.77", identity: `${leaf.identity} edited` } : leaf,
    ),
  };
  const { circuit } = readCheckpoint(bytes, edited);
  const kept = [...circuit.states.keys()];
  assert.equal(kept.length, SOURCES.length, "the measurements, and not the average");
  const reordered = { ...before, leaves: before.leaves.toReversed() };
  assert.equal(readCheckpoint(bytes, reordered).circuit.states.size, SOURCES.length + 1);
});

test("a state of another form, as another release may have left it, begins anew", () => {
  const plan = planOf("integrator");
  const { identity } = plan.leaves[SOURCES.length] ?? assert.fail();
  for (const state of [{}, { sum: true }, { sum: [1] }, { total: 7 }, { sum: 7, more: 1 }]) {
    const states = new Map([[identity, state]]);
    const circuit = { intervalMs: 1_000, ticks: 9, states, written: new Map(), named: new Map() };
    const world = new World(plan, { circuit, decisions: [] });
    world.runner.tick(10_000);
    assert.equal(world.circuit.reading(SOURCES.length), 1);
    assert.equal(world.circuit.ticks, 10);
  }
});

test("the checksum changes with what is remembered, and not with the number of ticks", () => {
  const world = new World(planOf("decider"));
  const still = { values: [NAN, NAN, NAN, NAN], replicas: -1 };
  world.run([still], 0);
  const first = world.checkpoint().checksum;
  world.run([still, still], 1);
  assert.equal(world.checkpoint().checksum, first);
  world.run([...three, still], 3);
  assert.notEqual(world.checkpoint().checksum, first);
});

test("a checkpoint is bounded: the largest states are left out and named", () => {
  const plan = planOf("sma");
  const large = {
    ...plan,
    leaves: plan.leaves.map((leaf) =>
      leaf.kind === "sma"
        ? { ...leaf, config: { parameters: { sma_window: 1e9, valid_during_warmup: true } } }
        : leaf,
    ),
  };
  const world = new World(large);
  const many = Math.ceil(MAX_STATE_BYTES / 18) + 1;
  for (let tick = 1; tick <= many; tick++) {
    world.runner.tick(tick * 1_000);
    const { identity } = plan.leaves[0] ?? assert.fail();
    world.runner.answer(identity, { kind: "value", value: 1 / 3 });
  }
  const checkpoint = world.checkpoint();
  assert.deepEqual(checkpoint.omitted, ["root.4"]);
  assert.ok(checkpoint.bytes(0).length < MAX_STATE_BYTES / 10);
  assert.equal(readCheckpoint(checkpoint.bytes(0), large).circuit.states.size, SOURCES.length);
});
