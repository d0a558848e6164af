// `sluice inject FILE --dry-run` as a user runs it.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { env, execPath } from "node:process";
import { test } from "node:test";
import { parseAllDocuments } from "yaml";
import { SLUICE } from "./setup.ts";

function inject(input: object | string, ...args: readonly string[]) {
  const text = typeof input === "string" ? input : JSON.stringify(input);
  const { status, stdout, stderr } = spawnSync(execPath, [SLUICE, "inject", "-", ...args], {
    input: text,
    encoding: "utf8",
    env: { PATH: env["PATH"] ?? "" },
  });
  return { status, stdout, stderr, objects: parseAllDocuments(stdout).map((each) => each.toJS()) };
}

const template = (annotations: object = {}) => ({
  metadata: { annotations },
  spec: { containers: [{ name: "shop", image: "shop:1", ports: [{ containerPort: 9_000 }] }] },
});
const metadata = { name: "shop", namespace: "store" };

test("the pods of manifests get what injection would give them; everything else stays", () => {
  const service = { apiVersion: "v1", kind: "Service", metadata, spec: { ports: [{ port: 80 }] } };
  const job = { spec: { template: template() } };
  const all = [
    service,
    { kind: "Pod", metadata, spec: template().spec },
    { kind: "Deployment", metadata, spec: { replicas: 2, template: template() } },
    { kind: "CronJob", metadata, spec: { jobTemplate: job } },
    { kind: "List", items: [{ kind: "Job", metadata, spec: { template: template() } }] },
  ];
  const input = all.map((each) => JSON.stringify(each)).join("\n---\n");
  const { status, stderr, objects } = inject(input, "--dry-run");
  assert.deepEqual([status, stderr], [0, ""]);
  const [same, pod, deployment, cron, list] = objects;
  assert.deepEqual(same, service);
  assert.equal(deployment.spec.replicas, 2);
  for (const { spec } of [
    pod,
    deployment.spec.template,
    cron.spec.jobTemplate.spec.template,
    list.items[0].spec.template,
  ]) {
    assert.deepEqual(
      spec.initContainers.map(({ name }: { readonly name: string }) => name),
      ["sluice-agent"],
    );
    assert.match(spec.initContainers[0].image, /^sluice:/);
    assert.equal(spec.containers[0].name, "shop");
  }
});

test("warnings and refusals go to standard error, with what was wanted", () => {
  const asked = { "sluice/envoy-inject": "true" };
  const of = (annotations: object) => ({
    kind: "Deployment",
    metadata,
    spec: { template: template(annotations) },
  });
  const warned = inject(of(asked), "--dry-run");
  assert.equal(warned.status, 0);
  assert.match(warned.stderr, /^-: Deployment store\/shop: warning: port 9000 .* bypasses Envoy/m);
  const refused = inject(of({ "sluice/port": "x" }), "--dry-run");
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /Deployment store\/shop: refused: sluice\/port: wanted a port/);
  const left = inject(of({ "sluice/inject": "false" }), "--dry-run");
  assert.deepEqual([left.status, left.objects], [0, [of({ "sluice/inject": "false" })]]);
  assert.match(left.stderr, /left alone/);
});

test("what cannot be done says what was wanted", () => {
  const pod = { kind: "Pod", metadata, spec: template().spec };
  for (const [input, args, message] of [
    [pod, [], /wanted --dry-run/],
    [pod, ["--dry-run", "other.yaml"], /wanted one FILE, got 2/],
    [{ kind: "Service" }, ["--dry-run"], /-: wanted a Pod, Deployment.*, got Service/],
    ["", ["--dry-run"], /-: wanted a Pod, .* got nothing/],
    ["- 1", ["--dry-run"], /wanted Kubernetes objects/],
    ["a: [", ["--dry-run"], /-: /],
    [{ kind: "Deployment" }, ["--dry-run"], /spec: wanted an object/],
    [
      { kind: "Pod", metadata, spec: { containers: [{}] } },
      ["--dry-run"],
      /-: Pod store\/shop: spec\.containers\[0\]\.name: wanted text/,
    ],
  ] as const) {
    const { status, stdout, stderr } = inject(input, ...args);
    assert.deepEqual([status, stdout], [64, ""]);
    assert.match(stderr, message);
  }
});
