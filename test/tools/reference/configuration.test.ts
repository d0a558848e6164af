import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { branches, leaves, PROCESSES, type ProcessName } from "#config/tree.ts";
import { badSamples, goodSamples } from "../../kit/sluice/config-samples.ts";
import { configurationPage } from "./configuration-page.ts";
import { configSchema } from "./configuration-schema.ts";

const BOTH: readonly ProcessName[] = ["agent", "controller"];
const docs = join(import.meta.dirname, "../../../docs");

test("the committed page is up to date", () => {
  assert.equal(readFileSync(join(docs, "configuration.md"), "utf8"), configurationPage());
});

for (const process of BOTH) {
  test(`the committed schema of the ${process} is what the tables say`, () => {
    const committed = readFileSync(join(docs, `config-schema-${process}.json`), "utf8");
    assert.equal(committed, `${JSON.stringify(configSchema(process), undefined, 2)}\n`);
  });

  test(`the page names every key of the ${process}, alone or with its object`, () => {
    const page = configurationPage();
    for (const { path } of leaves(PROCESSES[process].table)) {
      const objects = path.split(".").map((_, at, keys) => `${keys.slice(0, at).join(".")}.…`);
      const names = [path, ...objects].map((name) => `| \`${name}\` `);
      assert.ok(
        names.some((name) => page.includes(name)),
        path,
      );
    }
  });
}

test("the page gives every key of an object that it names once", () => {
  const page = configurationPage();
  for (const { table } of branches(PROCESSES.agent.table).filter(
    ({ table }) => table.name !== "",
  )) {
    const [, section] = page.split(`\n### ${table.name}\n`);
    if (section === undefined) continue;
    const [keys = ""] = section.split("\n### ");
    for (const key of Object.keys(table.rows)) assert.ok(keys.includes(`| \`${key}`), key);
  }
});

test("the examples of variables are the names that are read", () => {
  for (const name of [
    "SVC_AGENT_LOG_LEVEL=",
    "SVC_AGENT_ETCD_ENDPOINTS=",
    "SVC_AGENT_SERVER_TLS_=",
  ])
    assert.ok(configurationPage().includes(`\`${name}`), name);
});

type Node = Readonly<Record<string, unknown>>;

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function typeName(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}

/** Just enough of JSON Schema for what ours uses. */
function fits(root: Node, schema: Node, value: unknown): boolean {
  const { $ref, type, items, properties, additionalProperties } = schema;
  if (typeof $ref === "string") {
    const target = $ref
      .split("/")
      .slice(1)
      .reduce<unknown>((at, key) => (isNode(at) ? at[key] : at), root);
    return isNode(target) && fits(root, target, value);
  }
  const name = typeName(value);
  const types = Array.isArray(type) ? type : undefined;
  if (
    types !== undefined &&
    !types.includes(name) &&
    !(name === "integer" && types.includes("number"))
  )
    return false;
  const { enum: values, minimum, maximum, pattern } = schema;
  if (Array.isArray(values) && !values.includes(value)) return false;
  if (typeof value === "number") {
    if (typeof minimum === "number" && value < minimum) return false;
    if (typeof maximum === "number" && value > maximum) return false;
  }
  if (
    typeof value === "string" &&
    typeof pattern === "string" &&
    !new RegExp(pattern, "u").test(value)
  )
    return false;
  if (Array.isArray(value) && isNode(items)) return value.every((item) => fits(root, items, item));
  if (!isNode(value)) return true;
  return Object.entries(value).every(([key, inner]) => {
    const known = isNode(properties) ? properties[key] : undefined;
    if (isNode(known)) return fits(root, known, inner);
    return isNode(additionalProperties) && fits(root, additionalProperties, inner);
  });
}

/** `{a: {b: value}}` for the path `a.b`. */
function treeOf(path: string, value: unknown): unknown {
  return path.split(".").reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
}

for (const process of BOTH) {
  test(`the schema of the ${process} takes whatever the loader takes`, () => {
    const schema = configSchema(process);
    assert.ok(!fits(schema, schema, { nope: 1 }));
    assert.ok(!fits(schema, schema, { server: { listener: { adr: "" } } }));
    assert.ok(fits(schema, schema, { server: null, log: { level: null } }));
    for (const { path, row } of leaves(PROCESSES[process].table)) {
      for (const { raw } of goodSamples(row)) {
        assert.ok(fits(schema, schema, treeOf(path, raw)), `${path} ${JSON.stringify(raw)}`);
      }
      const refused = badSamples(row).filter(({ raw }) => !fits(schema, schema, treeOf(path, raw)));
      const isFree = row.kind === "string" && row.format.pattern === undefined;
      if (!isFree) assert.notEqual(refused.length, 0, path);
    }
  });
}

test("the schema refuses durations that are not above 0 where they must be", () => {
  const schema = configSchema("agent");
  const accepts = (max_delay: unknown) =>
    fits(schema, schema, { flow_control: { overload: { max_delay } } });
  for (const good of ["50ms", "+1s", "0s1ms", "1m0s", "0.001s", "10h"])
    assert.ok(accepts(good), good);
  for (const bad of [0, "0", "0s", "0.00s", "0h0m", "-5ms", 25, "25"])
    assert.ok(!accepts(bad), `${bad}`);
});
