// The values of the charts: their schemas accept the defaults and every configuration that the processes accept, and refuse
// everything else with its path.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Ajv, type ErrorObject } from "ajv";
import { parse } from "yaml";
import { leaves, PROCESSES, type ProcessName } from "#config/tree.ts";
import { type Chart, chartPath } from "../kit/kube/helm.ts";
import { goodSamples } from "../kit/sluice/config-samples.ts";

function read(chart: Chart, file: string): string {
  return readFileSync(chartPath(chart, file), "utf8");
}

/** The faults that the schema of a chart finds in values, each with its path. */
function faultsIn(chart: Chart): (values: unknown) => readonly string[] {
  const ajv = new Ajv({ allErrors: true, strict: false });
  const validate = ajv.compile(JSON.parse(read(chart, "values.schema.json")));
  const path = ({ instancePath, params }: ErrorObject) =>
    `${instancePath}${"additionalProperty" in params ? `/${params["additionalProperty"]}` : ""}`;
  return (values) => (validate(values) ? [] : (validate.errors ?? []).map(path));
}

for (const chart of ["sluice-agent", "sluice-controller", "sluice"] as const) {
  test(`the values of ${chart} fit its schema`, () => {
    assert.deepEqual(faultsIn(chart)(parse(read(chart, "values.yaml"))), []);
  });
}

test("the production values fit the schema", () => {
  assert.deepEqual(faultsIn("sluice")(parse(read("sluice", "values-production.yaml"))), []);
});

/** `{a: {b: value}}` for the path `a.b`. */
function treeOf(path: string, value: unknown): unknown {
  return path.split(".").reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
}

for (const process of ["agent", "controller"] as const satisfies readonly ProcessName[]) {
  const faults = faultsIn(`sluice-${process}`);
  const secret: readonly string[] = JSON.parse(read(`sluice-${process}`, "files/secrets.json"));

  test(`${process}.config takes each key and value that the ${process} takes`, () => {
    for (const { path, row } of leaves(PROCESSES[process].table))
      for (const { raw } of goodSamples(row))
        assert.deepEqual(faults(treeOf(`${process}.config.${path}`, raw)), [], path);
  });

  test(`${process}.config refuses unknown keys and wrong values with their path`, () => {
    const cases: readonly (readonly [string, unknown])[] = [
      ["nope", 1],
      ["etcd.endpoint", ["http://etcd:2379"]],
      ["etcd.endpoints", "http://etcd:2379"],
      ["server.listener.addr", "8080"],
      ["server.drain.grace", "ten seconds"],
      ["otel.ports.debug_port", 65_536],
      ["prometheus.labels", [{ nam: "cluster" }]],
      ["log.level", "loud"],
    ];
    for (const [path, value] of cases) {
      const found = faults(treeOf(`${process}.config.${path}`, value));
      assert.ok(found.length > 0, path);
      const at = `/${process}/config/${path.replaceAll(".", "/")}`;
      for (const fault of found) assert.ok(fault.startsWith(at), `${fault} at ${at}`);
    }
  });

  test(`${process}.secrets has each key that is secret, and no other`, () => {
    const reference = { name: "credentials", key: "entry" };
    const isListed = (path: string) => secret.some((each) => each.split(".[]")[0] === path);
    assert.ok(secret.length > 5);
    for (const { path, row } of leaves(PROCESSES[process].table)) {
      const found = faults(treeOf(`${process}.secrets.${path}`, reference));
      const mayHold = row.kind === "string" && row.format.wanted.includes("URL");
      if (isListed(path)) assert.deepEqual(found, [], path);
      else if (!mayHold) assert.notDeepEqual(found, [], path);
      if (isListed(path))
        assert.notDeepEqual(faults(treeOf(`${process}.secrets.${path}`, "text")), [], path);
    }
  });
}

test("values outside the configuration are refused with their path", () => {
  const agent = faultsIn("sluice-agent");
  const controller = faultsIn("sluice-controller");
  assert.deepEqual(agent({ installationMode: "SIDECAR" }), ["/installationMode"]);
  assert.deepEqual(agent({ image: { digest: "sha256:1" } }), ["/image/digest"]);
  assert.deepEqual(agent({ agent: { resources: { limit: {} } } }), ["/agent/resources/limit"]);
  assert.deepEqual(agent({ tls: { etdc: {} } }), ["/tls/etdc"]);
  assert.deepEqual(agent({ global: { sluice: { etc: {} } } }), ["/global/sluice/etc"]);
  assert.deepEqual(controller({ injector: { failurePolicy: "ignore" } }), [
    "/injector/failurePolicy",
  ]);
  assert.deepEqual(controller({ controller: { replicas: 2 } }), ["/controller/replicas"]);
});
