// Compiled circuits as graphs and as JSON.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { expanded } from "#policy/diagram/expand.ts";
import { ALL_OPEN, dot, graphOf, mermaid } from "#policy/diagram/graph.ts";
import { compileSet } from "#policy/set.ts";
import { digest } from "../kit.ts";

const CASES = "test/golden/control-plane/cases";

function compiled(text: string, name = "drawn") {
  const set = compileSet([{ source: name, defaultName: name, text }], {
    digest,
    queries: "prometheus",
  });
  assert.deepEqual(set.findings, []);
  const [policy] = set.policies;
  assert.ok(policy);
  return policy;
}

const recorded = (name: string) =>
  compiled(readFileSync(`${CASES}/${name}/policy.yaml`, "utf8"), name);

test("a composite that is not expanded is one node with its own ports", () => {
  const { nodes, links, groups } = graphOf(recorded("aimd-load-scheduler"), 0);
  assert.deepEqual(groups, []);
  assert.deepEqual(
    nodes.map(({ id, kind }) => `${id} ${kind}`),
    ["root.0 promql", "root.1 promql", "root.2 aimd_load_scheduler"],
  );
  const ends = links.map(
    ({ from, to, signal }) => `${from.id}.${from.port} ${signal} ${to.id}.${to.port}`,
  );
  assert.deepEqual(ends, ["root.0.output S root.2.signal", "root.1.output SP root.2.setpoint"]);
});

test("expanded, every component is drawn in the box of its composite", () => {
  const policy = recorded("aimd-load-scheduler");
  const { nodes, groups, links } = graphOf(policy, ALL_OPEN);
  assert.deepEqual(
    nodes.map(({ id }) => id),
    policy.circuit?.leaves.map(({ id }) => id),
  );
  assert.deepEqual(
    groups.map(({ id, parent }) => [id, parent]),
    [
      ["root.2", undefined],
      ["root.2.4", "root.2"],
    ],
  );
  assert.equal(nodes.find(({ id }) => id === "root.2.4.2")?.parent, "root.2.4");
  const inputs = policy.circuit?.leaves.flatMap(({ inputs }) => Object.values(inputs).flat()) ?? [];
  assert.equal(links.length, inputs.filter(({ kind }) => kind === "signal").length);
  const one = graphOf(policy, 1);
  assert.ok(one.nodes.some(({ id }) => id === "root.2.4"));
  assert.ok(!one.nodes.some(({ id }) => id.startsWith("root.2.4.")));
});

test("a looped wire is marked, with and without expansion", () => {
  const { links } = graphOf(recorded("loop-counter"), 0);
  assert.equal(links.filter(({ looped }) => looped).length, 1);
  assert.match(
    mermaid(graphOf(recorded("loop-counter"), 0)),
    /-\.->\|".*from the previous tick"\|/,
  );
  assert.match(dot(graphOf(recorded("loop-counter"), 0)), /style=dashed/);
});

const AWKWARD = `
circuit:
  components:
    - variable: {constant_output: {value: 1}, out_ports: {output: {signal_name: 'a"] --> b["<i>#\\x'}}}
    - inverter: {in_ports: {input: {signal_name: 'a"] --> b["<i>#\\x'}}}
`;

test("names are escaped", () => {
  const graph = graphOf(compiled(AWKWARD), 0);
  const lines = mermaid(graph).split("\n");
  assert.equal(lines.filter((line) => line.includes("-->")).length, 1);
  assert.ok(
    lines.some((line) => line.includes("a#quot;] --> b[#quot;#lt;i>#35;")),
    mermaid(graph),
  );
  assert.match(dot(graph), /label="a\\"\] --> b\[\\"<i>#\\\\x\\ninput"/);
});

test("the expanded circuit lists what every component reads and writes", () => {
  const { components, evaluation_interval } = expanded(recorded("holder")) as {
    readonly evaluation_interval: string;
    readonly components: readonly object[];
  };
  assert.equal(evaluation_interval, "1s");
  assert.deepEqual(components[1], {
    id: "root.1",
    kind: "holder",
    in: { input: "root/X", reset: null },
    out: { output: "root/H3" },
    config: { hold_for: "3s" },
  });
  const looped = JSON.stringify(expanded(recorded("loop-counter")));
  assert.match(looped, /\{"looped":"root\/\w+"\}/);
});

test("a document without a circuit gives an empty graph", () => {
  const policy = recorded("resources-flux-meters");
  assert.deepEqual(graphOf(policy, 0).nodes, []);
  assert.deepEqual(expanded(policy)["components"], []);
});
