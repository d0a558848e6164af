// The places where loops are broken, and the order in which components run.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { Circuit } from "#circuit/circuit.ts";
import { type Edge, loopedEdges } from "#policy/compile/flatten/loops.ts";
import { orderOf } from "#policy/compile/flatten/order.ts";
import { compiled } from "../kit.ts";

/** Wires of a circuit of `leaves` leaves. */
const graphs = fc.integer({ min: 1, max: 9 }).chain((leaves) =>
  fc.record({
    leaves: fc.constant(leaves),
    edges: fc.array(fc.record({ from: fc.nat(leaves - 1), to: fc.nat(leaves - 1) }), {
      maxLength: 22,
    }),
  }),
);

/** The leaves reachable from each leaf; a leaf reaches itself only through a cycle. */
function reaches(leaves: number, edges: readonly Edge[]): readonly ReadonlySet<number>[] {
  return Array.from({ length: leaves }, (_, start) => {
    const seen = new Set<number>();
    const open = [start];
    for (const at of open) {
      for (const { from, to } of edges) {
        if (from !== at || seen.has(to)) continue;
        seen.add(to);
        open.push(to);
      }
    }
    return seen;
  });
}

/** The rule in its simplest form: loop all wires into the lowest leaf of a strongly connected component, and repeat. */
function naive(leaves: number, edges: readonly Edge[]): readonly boolean[] {
  const looped = edges.map(() => false);
  for (;;) {
    const kept = edges.filter((_, at) => !looped[at]);
    const reached = reaches(leaves, kept);
    const lowest = reached.findIndex((seen, at) => seen.has(at));
    if (lowest === -1) return looped;
    for (const [at, { from, to }] of edges.entries()) {
      if (to === lowest && reached[lowest]?.has(from)) looped[at] = true;
    }
  }
}

describe("loops and order", () => {
  test("loops are broken by the rule", () => {
    fc.assert(
      fc.property(graphs, ({ leaves, edges }) => {
        assert.deepEqual(loopedEdges(leaves, edges), naive(leaves, edges));
      }),
      { numRuns: 2_000 },
    );
  });

  test("leaves run in the order of repeated scans", () => {
    fc.assert(
      fc.property(graphs, ({ leaves, edges }) => {
        const looped = loopedEdges(leaves, edges);
        const kept = edges.filter((_, at) => !looped[at]);
        const scanned: number[] = [];
        while (scanned.length < leaves) {
          for (let at = 0; at < leaves; at++) {
            const ready = kept.every(({ from, to }) => to !== at || scanned.includes(from));
            if (ready && !scanned.includes(at)) scanned.push(at);
          }
        }
        assert.deepEqual(orderOf(leaves, kept), scanned);
      }),
      { numRuns: 1_000 },
    );
  });

  test("there is no order while a cycle is left", () => {
    assert.throws(
      () =>
        orderOf(2, [
          { from: 0, to: 1 },
          { from: 1, to: 0 },
        ]),
      /cycle that is not looped/,
    );
  });

  test("long chains, nested cycles and one large cycle need no deep stack and no quadratic time", () => {
    const leaves = 20_000;
    const up = Array.from({ length: leaves - 1 }, (_, at) => ({ from: at, to: at + 1 }));
    const down = up.map(({ from, to }) => ({ from: to, to: from }));
    const count = (edges: readonly Edge[]) => {
      const looped = loopedEdges(leaves, edges);
      orderOf(
        leaves,
        edges.filter((_, at) => !looped[at]),
      );
      return looped.filter(Boolean).length;
    };
    const before = process.cpuUsage();
    assert.equal(count(up), 0);
    assert.equal(count(down), 0);
    assert.equal(count([...up, ...down]), leaves - 1);
    assert.equal(count([...up, { from: leaves - 1, to: 0 }]), 1);
    const { user } = process.cpuUsage(before);
    // Quadratic time would be tens of seconds.
    assert.ok(user < 5_000_000, `${user / 1_000} ms`);
  });
});

test("a loop in a nested circuit continues when a component is inserted before the circuit", () => {
  const counter = `nested_circuit: {components: [
    {first_valid: {in_ports: {inputs: [{signal_name: SUM}, {constant_signal: {value: 0}}]}, out_ports: {output: {signal_name: SAFE}}}},
    {arithmetic_combinator: {operator: add, in_ports: {lhs: {signal_name: SAFE}, rhs: {constant_signal: {value: 1}}}, out_ports: {output: {signal_name: SUM}}}}]}`;
  const planOf = (text: string) =>
    compiled(`circuit: {components: [${text}]}`).circuit ?? assert.fail();
  const outside = {
    ask() {},
    decide() {},
    alert() {},
    ignoredOverride() {},
    fault: (id: string) => assert.fail(id),
  };
  const first = new Circuit(planOf(`{${counter}}`), outside, undefined);
  for (let tick = 1; tick <= 5; tick++) first.tick(tick * 1_000);
  const plan = planOf(`{variable: {constant_output: {value: 1}}}, {${counter}}`);
  const second = new Circuit(plan, outside, undefined, first.memory());
  second.tick(6_000);
  const sum = plan.signals.findIndex(({ name }) => name === "SUM");
  assert.equal(second.reading(sum), 6);
});
