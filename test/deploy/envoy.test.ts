// Compares the configurations of deploy/envoy with each other.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parse } from "yaml";

interface Bootstrap {
  readonly static_resources: {
    readonly clusters: readonly {
      readonly name: string;
      readonly load_assignment: {
        readonly endpoints: readonly { readonly lb_endpoints: unknown[] }[];
      };
    }[];
  };
}

const bootstrap = (file: string): Bootstrap =>
  parse(readFileSync(new URL(`../../deploy/envoy/${file}`, import.meta.url), "utf8"));

test("two-agents.yaml differs from sidecar.yaml in the second endpoint only", () => {
  const two = bootstrap("two-agents.yaml");
  const sluice = two.static_resources.clusters.find(({ name }) => name === "sluice");
  const endpoints = sluice?.load_assignment.endpoints[0]?.lb_endpoints;
  assert.equal(endpoints?.length, 2);
  endpoints?.pop();
  assert.deepEqual(two, bootstrap("sidecar.yaml"));
});
