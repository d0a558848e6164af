// `sluice policy check --json`, `expand` and `graph`, as people and editors run them.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { sluice } from "#cli/sluice.ts";
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

test("check as JSON: the valid policies, and every fault with its position", async (t) => {
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

test("graph of a directory is one document, with a named box for each policy", async (t) => {
  const folder = folderOf(t, { "good.yaml": GOOD, "other.yaml": GOOD });
  const { out } = await run("policy", "graph", folder);
  assert.equal(out.match(/^flowchart/gm)?.length, 1);
  assert.match(out, /^ {2}subgraph p0\["policy good"\]$/m);
  assert.match(out, /^ {2}subgraph p1\["policy other"\]$/m);
  assert.equal(out.match(/^ {2}end$/gm)?.length, 2);
  // Ids of the two policies are not the same.
  const ids = [...out.matchAll(/^ {4}(\w+)\[/gm)].map(([, id]) => id);
  assert.equal(new Set(ids).size, ids.length);
  assert.ok(ids.length > 2);
  const dot = (await run("policy", "graph", "--format", "dot", folder)).out;
  assert.equal(dot.match(/^digraph /gm)?.length, 1);
  assert.match(dot, /^digraph "policies"/);
  assert.match(dot, /subgraph cluster_p0 \{\n {4}label="policy good";/);
  const json = JSON.parse((await run("policy", "graph", "--format", "json", folder)).out);
  assert.deepEqual(
    json.map(({ policy }: { policy: string }) => policy),
    ["good", "other"],
  );
});

test("graph shows composites closed unless a flag opens them", async (t) => {
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

test("a document with faults is not drawn, and unusable flags are named", async (t) => {
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

test("check reads dynamic configuration beside its policy, and says which keys and values are of no use", async (t) => {
  const policy = GOOD.replace("out_ports: {output", "config_key: limit, out_ports: {output");
  const folder = folderOf(t, {
    "good.yaml": policy,
    "good.dynamic.yaml": "limt: {value: 3}\nlimit: 7\n",
    "other.dynamic.json": "{}",
  });
  const { code, out, err } = await run("policy", "check", folder);
  assert.equal(code, 0, err);
  assert.match(
    out,
    /good\.dynamic\.yaml:1:1: limt: ignored: no component reads "limt"; did you mean limit\?/,
  );
  assert.match(
    out,
    /good\.dynamic\.yaml:2:8: limit: the whole dynamic configuration is refused: wanted \{value/,
  );
  assert.match(
    out,
    /other\.dynamic\.json:1:1: there is no policy other among the documents \(warning dynamic_config\)/,
  );
  assert.equal(out.split("\n").length, 6, out);
});

test("check refuses dynamic configuration that cannot be read, and several files for one policy", async (t) => {
  const folder = folderOf(t, {
    "good.yaml": GOOD,
    "good.dynamic.json": "{}",
    "good.dynamic.yaml": "{}",
    "list.yaml": GOOD,
    "list.dynamic.yml": "[1]",
    "open.yaml": GOOD,
    "open.dynamic.yaml": "a: [\n",
    "two.yaml": GOOD,
    "two.dynamic.yaml": "{}\n---\n{}\n",
  });
  const { code, err } = await run("policy", "check", folder);
  assert.equal(code, 1);
  assert.match(
    err,
    /good\.dynamic\.yaml:1:1: wanted one file of dynamic configuration for policy good, got several/,
  );
  assert.match(err, /list\.dynamic\.yml:1:1: wanted an object at the top level, got a list/);
  assert.match(err, /open\.dynamic\.yaml:2:1: wanted well-formed YAML/);
  assert.match(err, /two\.dynamic\.yaml:3:1: wanted one document, got several/);
});

test("a file that is named twice, by itself and with its directory, counts once", async (t) => {
  const folder = folderOf(t, { "good.yaml": GOOD });
  const { code, out, err } = await run("policy", "check", folder, `${folder}/./good.yaml`);
  assert.equal(code, 0, err);
  assert.equal([...out.matchAll(/policy good \(/g)].length, 1);
});

test("dynamic configuration beside policies is not read as a policy", async (t) => {
  const folder = folderOf(t, { "good.yaml": GOOD, "good.dynamic.yaml": "limit: {value: 3}\n" });
  const [policy, dynamic] = [join(folder, "good.yaml"), join(folder, "good.dynamic.yaml")];
  const both = await run("policy", "check", policy, dynamic);
  assert.equal(both.code, 0, both.err);
  const alone = await run("policy", "check", dynamic);
  assert.equal(alone.code, 64);
  assert.match(alone.err, /wanted at least one policy, got only dynamic configuration/);
});
