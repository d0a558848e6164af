// A policy as the controller runs it: without the components whose outputs nothing reads, and with the same decisions.

import assert from "node:assert/strict";
import { test } from "node:test";
import { finish } from "#base/async/steps.ts";
import type { CircuitPlan } from "#circuit/plan.ts";
import { queriesOf } from "#circuit/queries.ts";
import { CircuitRunner } from "#circuit/runner.ts";
import { compileText } from "#controller/compiling/compile-text.ts";
import { withoutUnread } from "#controller/compiling/unread.ts";
import { sha256 } from "#controller/digest.ts";
import { compileSet } from "#policy/set.ts";

const limiter = (more = "") => `
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ingress }]
          in_ports: { bucket_capacity: { signal_name: LIMIT }, fill_amount: { constant_signal: { value: 1 } } }
          parameters: { interval: 1s }${more}`;

const policy = (components: string) => `
circuit:
  evaluation_interval: 1s
  components:
    - query: { promql: { query_string: "vector(7)", evaluation_interval: 1s, out_ports: { output: { signal_name: LIMIT } } } }
    - variable: { constant_output: { value: 3 }, out_ports: { output: { signal_name: WATCHED } } }${components}
`;

/** The plan of the document, and what the controller makes of it. */
function plansOf(components: string) {
  const text = { source: "p", defaultName: "p", text: policy(components) };
  const whole = compileSet([text], { digest: sha256, queries: "own" });
  const ran = finish(compileText(text, { queries: "own" }));
  const [from, to] = [whole, ran].map((set) => set.policies[0]?.circuit);
  assert.ok(from && to, JSON.stringify(whole.findings));
  return { from, to };
}

const namesOf = ({ signals }: CircuitPlan) =>
  signals.map(({ circuit, name }) => `${circuit}/${name}`);
const kindsOf = ({ leaves }: CircuitPlan) => leaves.map(({ id, kind }) => `${kind} ${id}`);

/** The decisions and the readings of each of some ticks; every query is answered with 7. */
function run(plan: CircuitPlan, ticks = 3) {
  const runner = new CircuitRunner({
    ask: (_request, identity) => asked.push(identity),
    alert: () => undefined,
    fault: (id, _kind, thrown) => assert.fail(`${id}: ${String(thrown)}`),
  });
  const asked: string[] = [];
  const decisions: unknown[] = [];
  runner.replace(plan, undefined);
  for (let tick = 1; tick <= ticks; tick++) {
    decisions.push(runner.tick(tick * 1_000));
    for (const identity of asked.splice(0)) runner.answer(identity, { kind: "value", value: 7 });
  }
  const readings = namesOf(plan).map((name, at) => [name, runner.circuit?.reading(at)] as const);
  return { decisions, readings: new Map(readings) };
}

test("the accept percentage of a limiter is not computed where nothing is connected to it", () => {
  const { from, to } = plansOf(limiter());
  assert.deepEqual(
    queriesOf(from).map(({ componentId }) => componentId),
    ["root.0", "root.2.0"],
  );
  assert.deepEqual(
    queriesOf(to).map(({ componentId }) => componentId),
    ["root.0"],
  );
  const gone = new Set(["promql root.2.0", "nested_signal_egress root.2.5"]);
  assert.deepEqual(
    kindsOf(to),
    kindsOf(from).filter((each) => !gone.has(each)),
  );
  assert.deepEqual(
    namesOf(to),
    namesOf(from).filter((name) => name !== "root.2/ACCEPT_PERCENTAGE"),
  );
});

test("decisions and all other readings are the same", () => {
  const { from, to } = plansOf(limiter() + limiter());
  const [whole, part] = [run(from), run(to)];
  assert.ok(whole.decisions.flat().length >= 2);
  assert.deepEqual(part.decisions, whole.decisions);
  assert.ok(part.readings.size < whole.readings.size);
  for (const [name, reading] of part.readings)
    assert.equal(reading, whole.readings.get(name), name);
  assert.equal(part.readings.get("root/WATCHED"), 3);
});

test("it is computed where the policy reads it or names it", () => {
  const named = "\n          out_ports: { accept_percentage: { signal_name: SHARE } }";
  const { from, to } = plansOf(limiter(named));
  assert.deepEqual(to, from);
  assert.equal(withoutUnread(from), from);
});

test("a chain that ends at an unconnected output goes, and what something else reads of it stays", () => {
  const nested = (reader = "") => `
    - nested_circuit:
        components:
          - query: { promql: { query_string: "vector(1)", evaluation_interval: 1s, out_ports: { output: { signal_name: A } } } }
          - unary_operator: { operator: abs, in_ports: { input: { signal_name: A } }, out_ports: { output: { signal_name: B } } }
          - nested_signal_egress: { port_name: out, in_ports: { signal: { signal_name: B } } }${reader}`;
  const alert = `
          - alerter: { parameters: { alert_name: low }, in_ports: { signal: { signal_name: A } } }`;
  assert.deepEqual(kindsOf(plansOf(nested()).to), ["promql root.0", "variable root.1"]);
  assert.deepEqual(kindsOf(plansOf(nested(alert)).to).slice(2), [
    "promql root.2.0",
    "alerter root.2.3",
  ]);
});
