// Every value of every chart does something in every mode, or is refused: each leaf of the values files is changed alone, and
// Helm renders something else or says why not. Needs Helm and no cluster.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parse } from "yaml";
import { type Chart, chartPath, rendered, type Values } from "../../kit/kube/helm.ts";
import { ENDPOINTS, MODES, merged, needed, treeOf } from "../../kit/kube/rendering.ts";

/** Other values of leaves that are empty, by the last part of their path. */
const SAMPLES: Readonly<Record<string, unknown>> = {
  agents: "agents.other.svc.cluster.local:8081",
  affinity: { nodeAffinity: {} },
  apiServer: [{ ipBlock: { cidr: "10.0.0.1/32" } }],
  certificate: "webhook",
  clients: [{ podSelector: {} }],
  config: { log: { level: "debug" } },
  digest: `sha256:${"0".repeat(64)}`,
  extraEnv: [{ name: "SVC_EXTRA", value: "1" }],
  extraVolumeMounts: [{ name: "more", mountPath: "/more" }],
  extraVolumes: [{ name: "more", emptyDir: {} }],
  failurePolicy: "Fail",
  image: { tag: "other" },
  interval: "30s",
  issuerRef: { name: "own" },
  metrics: [{ podSelector: {} }],
  namespaces: ["shop"],
  policies: { "one.yaml": "spec: {}\n" },
  policyConfigMaps: ["more"],
  pullPolicy: "Always",
  pullSecrets: ["registry"],
  resources: ["deployments.apps"],
  retention: "9h",
  secrets: { server: { administration: { token: { name: "token", key: "token" } } } },
  size: "2Gi",
  tolerations: [{ operator: "Exists" }],
  topologySpreadConstraints: [
    { maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "ScheduleAnyway" },
  ],
};

function leavesOf(values: Values, path = ""): readonly (readonly [path: string, now: unknown])[] {
  return Object.entries(values).flatMap(([key, value]) => {
    const here = path === "" ? key : `${path}.${key}`;
    const isTree = value !== null && typeof value === "object" && !Array.isArray(value);
    return isTree && Object.keys(value).length > 0
      ? leavesOf(value as Values, here)
      : [[here, value] as const];
  });
}

function changed(path: string, now: unknown): unknown {
  const key = path.split(".").at(-1) ?? "";
  if (typeof now === "boolean") return !now;
  if (typeof now === "number") return now + 1;
  if (key === "client_baggage") return "believe";
  if (key === "cpu") return "1500m";
  if (key === "memory") return "448Mi";
  const sample = SAMPLES[key];
  const isText = typeof now === "string";
  if (sample !== undefined && isText === (typeof sample === "string")) return sample;
  return isText ? "other" : { other: "other" };
}

/** What has to be on for a leaf to matter: the switch beside it, or the Secret of its certificates. */
function around(values: Values, path: string): Values {
  const parts = path.split(".");
  const trees = parts.slice(0, -1).map((_, index) => {
    const folder = parts.slice(0, index + 1);
    const tree = folder.reduce<Values>((at, key) => at[key] as Values, values);
    const inside = parts[index + 1];
    if ("enabled" in tree && inside !== "enabled")
      return treeOf([...folder, "enabled"].join("."), true);
    return "secretName" in tree && inside !== "secretName"
      ? treeOf([...folder, "secretName"].join("."), "tls")
      : {};
  });
  return merged(...trees);
}

/** What a leaf needs beyond the switches around it. */
const NEEDED: Readonly<Record<string, Values>> = {
  "policies.namespaces": treeOf("policies.crWatcher.enabled", true),
  "policies.namespaceQuota": merged(
    treeOf("policies.crWatcher.enabled", true),
    treeOf("policies.namespaces", ["shop"]),
  ),
  "policies.crWatcher.webhook.caBundle": treeOf("tls.server.secretName", "tls"),
  "policies.crWatcher.webhook.certificate": treeOf("tls.server.secretName", "tls"),
  "gatewayApi.enabled": treeOf("policies.crWatcher.enabled", true),
  "gatewayApi.agents": treeOf("policies.crWatcher.enabled", true),
  "gatewayApi.failOpen": treeOf("policies.crWatcher.enabled", true),
  // They name the objects with the injector's right on Secrets, so there has to be one.
  fullnameOverride: treeOf("tls.etcd.secretName", "tls"),
  "sidecars.injectorAccount": treeOf("tls.etcd.secretName", "tls"),
};

async function outcome(chart: Chart, values: Values): Promise<string> {
  try {
    return await rendered(chart, values);
  } catch (thrown) {
    return `refused: ${String(thrown)}`;
  }
}

const CASES: readonly (readonly [Chart, string, Values])[] = [
  ...MODES.map(
    (mode) => ["sluice-agent", mode, merged(needed("agent"), { installationMode: mode })] as const,
  ),
  ["sluice-controller", "its only mode", treeOf("controller.config.etcd.endpoints", ENDPOINTS)],
  ["sluice", "its only mode", {}],
];

for (const [chart, mode, base] of CASES)
  test(`every value of ${chart} does something in ${mode}, or is refused`, async () => {
    const values: Values = parse(readFileSync(chartPath(chart, "values.yaml"), "utf8"));
    const leaves = leavesOf(values).filter(([path]) => path !== "installationMode");
    assert.ok(leaves.length > 20);
    const idle: string[] = [];
    const plain = new Map<string, Promise<string>>();
    const check = async ([path, now]: (typeof leaves)[number]) => {
      const before = merged(base, around(values, path), NEEDED[path] ?? {});
      const key = JSON.stringify(before);
      const usual = plain.get(key) ?? outcome(chart, before);
      plain.set(key, usual);
      const wanted = await usual;
      const after = await outcome(chart, merged(before, treeOf(path, changed(path, now))));
      if (!after.startsWith("refused: ") && after === wanted) idle.push(path);
      // A sample that the schema refuses would prove nothing.
      if (/don't meet the specifications/.test(after)) idle.push(`${path}: ${after}`);
    };
    const queue = [...leaves];
    await Promise.all(
      [1, 2, 3].map(async () => {
        for (let leaf = queue.pop(); leaf !== undefined; leaf = queue.pop()) await check(leaf);
      }),
    );
    assert.deepEqual(idle, []);
  });
