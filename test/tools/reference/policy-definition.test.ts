// The custom resource definition of policies, as people meet it through kubectl.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "yaml";
import { policyDefinition } from "./policy-definition.ts";

interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
}

const definition = parse(policyDefinition());

/** What `kubectl apply` without `--server-side` keeps of an object in an annotation, with room for the other ones. */
const MAX_APPLIED = 256 * 1_024 - 4_096;

test("kubectl applies the definition without --server-side", () => {
  const length = Buffer.byteLength(JSON.stringify(definition));
  assert.ok(length < MAX_APPLIED, `${length} bytes`);
});

test("kubectl explain describes each field, those of the status included", () => {
  const bare: string[] = [];
  let count = 0;
  const walk = (path: string, { properties = {}, items, additionalProperties }: Schema) => {
    for (const [name, schema] of Object.entries(properties)) {
      count += 1;
      if (!schema.description) bare.push(`${path}.${name}`);
      walk(`${path}.${name}`, schema);
    }
    if (items !== undefined) walk(path, items);
    if (typeof additionalProperties === "object") walk(path, additionalProperties);
  };
  const { spec, status } = definition.spec.versions[0].schema.openAPIV3Schema.properties;
  walk("spec", spec);
  walk("status", status);
  assert.deepEqual(bare, []);
  assert.ok(count > 1_000, `${count} fields`);
});

test("a short name and a category are there for clusters where others have policies, too", () => {
  const { shortNames, categories } = definition.spec.names;
  assert.deepEqual({ shortNames, categories }, { shortNames: ["slpol"], categories: ["sluice"] });
});
