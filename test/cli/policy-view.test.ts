// `sluice policy check --json`, `expand` and `graph`, as people and editors run them.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { sluice } from "../../src/cli/sluice.ts";
import { folderOf } from "../kit/folder.ts";

const GOOD = `
circuit:
  components:
    - variable: {constant_output: {value: 1}, out_ports: {output: {signal_name: A}}}
    - nested_circuit:
        in_ports_map: {x: {signal_name: A}}
        components:
          - nested_signal_ingress: {port_name: x, out_ports: {signal: {signal_name: IN}}}
          - inverter: {in_ports: {input: {signal_name: IN}}}
`;
const BAD = GOOD.replace(
  "signal_name: IN}}}\n          - inv",
  "signal_name: OUT}}}\n          - inv",
);

async function run(...args: string[]) {
  let out = "";
  let err = "";
  const code = await sluice(args, {
    out(text) {
      out += text;
    },
    err(text) {
      err += text;
    },
    env: {},
    stdin: (async function* () {})(),
  });
  return { code, out, err };
}

test("check as JSON: what is good, and every fault with its place", async (t) => {
  const folder = folderOf(t, { "good.yaml": GOOD, "bad.yaml": BAD });
  const good = await run("policy", "check", "--json", join(folder, "good.yaml"));
  assert.equal(good.code, 0);
  const { ok, policies, findings } = JSON.parse(good.out);
  assert.deepEqual([ok, findings], [true, []]);
  assert.equal(policies[0].name, "good");
  assert.equal(policies[0].components, 3);
  const bad = await run("policy", "check", "--json", join(folder, "bad.yaml"));
  assert.equal(bad.code, 1);
  const [fault] = JSON.parse(bad.out).findings;
  assert.equal(fault.line, 9);
  assert.match(fault.path, /components\[1\]\.nested_circuit\.components\[1\]/);
  assert.match(fault.got, /IN/);
});

test("expand prints YAML, or JSON when asked to", async (t) => {
  const folder = folderOf(t, { "good.yaml": GOOD });
  const yaml = await run("policy", "expand", join(folder, "good.yaml"));
  assert.equal(yaml.code, 0);
  const json = await run("policy", "expand", "--json", join(folder, "good.yaml"));
  assert.deepEqual([parse(yaml.out)], JSON.parse(json.out));
  assert.equal(parse(yaml.out).components.length, 3);
});

test("graph folds composites unless told to open them", async (t) => {
  const folder = folderOf(t, { "good.yaml": GOOD });
  const file = join(folder, "good.yaml");
  const folded = await run("policy", "graph", file);
  assert.match(folded.out, /^flowchart LR\n/);
  assert.doesNotMatch(folded.out, /inverter/);
  assert.match((await run("policy", "graph", "--open", file)).out, /inverter root\.1\.1/);
  assert.match((await run("policy", "graph", "--depth=1", file)).out, /inverter root\.1\.1/);
  assert.match((await run("policy", "graph", "--format", "dot", file)).out, /^digraph "good"/);
  const json = JSON.parse((await run("policy", "graph", "--format=json", file)).out);
  assert.equal(json.nodes.length, 2);
});

test("a document at fault is not drawn, and odd flags are named", async (t) => {
  const folder = folderOf(t, { "bad.yaml": BAD });
  const file = join(folder, "bad.yaml");
  for (const command of ["expand", "graph"]) {
    const { code, out, err } = await run("policy", command, file);
    assert.deepEqual([code, out], [1, ""]);
    assert.match(err, /bad\.yaml:9:/);
    assert.equal((await run("policy", command)).code, 64);
  }
  for (const flag of ["--format=png", "--depth=-1", "--queries=mine"]) {
    const { code, err } = await run("policy", "graph", flag, file);
    assert.equal(code, 64);
    assert.match(err, new RegExp(`${flag.split("=")[0]}: wanted .*got "${flag.split("=")[1]}"`));
  }
});

test("dynamic configuration beside policies is no policy", async (t) => {
  const folder = folderOf(t, { "good.yaml": GOOD, "good.dynamic.yaml": "limit: {value: 3}\n" });
  const [policy, dynamic] = [join(folder, "good.yaml"), join(folder, "good.dynamic.yaml")];
  const both = await run("policy", "check", policy, dynamic);
  assert.equal(both.code, 0, both.err);
  const alone = await run("policy", "check", dynamic);
  assert.equal(alone.code, 64);
  assert.match(alone.err, /wanted at least one policy, got only dynamic configuration/);
});
