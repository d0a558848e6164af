// Shared by the tests of rendered charts: values with which charts render, and functions that look at the objects.

import assert from "node:assert/strict";
import type { ProcessName } from "#config/tree.ts";
import { objectsIn, type Rendered, type Values } from "./helm.ts";

export const ENDPOINTS = ["https://etcd.example.com:2379"];
export const WATCHES = "SVC_CONTROLLER_POLICIES_CR_WATCHER_ENABLED";
/** Variables with which agents and controllers ask the API server for services. */
export const DISCOVERS: readonly string[] = ["AGENT", "CONTROLLER"].map(
  (process) => `SVC_${process}_SERVICE_DISCOVERY_KUBERNETES_ENABLED`,
);
export const MODES = [
  "KUBERNETES_SIDECAR",
  "KUBERNETES_DAEMONSET",
  "KUBERNETES_DEPLOYMENT",
] as const;

/** `{a: {b: value}}` for the path `a.b`. */
export function treeOf(path: string, value: unknown): Values {
  const [first = "", ...rest] = path.split(".");
  return { [first]: rest.length === 0 ? value : treeOf(rest.join("."), value) };
}

export function merged(...trees: readonly Values[]): Values {
  const into: Record<string, unknown> = {};
  for (const tree of trees)
    for (const [key, value] of Object.entries(tree)) {
      const before = into[key];
      const both = [before, value].every(
        (each) => each !== null && typeof each === "object" && !Array.isArray(each),
      );
      into[key] = both ? merged(before as Values, value as Values) : value;
    }
  return into;
}

/** Values with which a chart renders: an etcd has to be named. */
export const needed = (process: ProcessName) =>
  treeOf(`${process}.config.etcd.endpoints`, ENDPOINTS);
export const agent = (...more: readonly Values[]) =>
  objectsIn("sluice-agent", merged(needed("agent"), ...more));
export const controller = (...more: readonly Values[]) =>
  objectsIn("sluice-controller", merged(needed("controller"), ...more));

export function kinds(objects: readonly Rendered[]): readonly string[] {
  return objects
    .filter(({ metadata }) => metadata.annotations?.["helm.sh/hook"] === undefined)
    .map(({ kind }) => kind);
}

export function only(objects: readonly Rendered[], kind: string, name?: string): Rendered {
  const found = objects.filter(
    (each) => each.kind === kind && (name === undefined || each.metadata.name === name),
  );
  assert.equal(found.length, 1, `one ${kind} ${name ?? ""}`);
  return found[0] as Rendered;
}

// biome-ignore lint/suspicious/noExplicitAny: a pod's specification, whose fields a test names
export type PodSpec = any;

export const podOf = (object: Rendered): PodSpec => object["spec"].template?.spec ?? object["spec"];

/** All objects that are or have pods. */
export function workloads(objects: readonly Rendered[]): readonly Rendered[] {
  return objects.filter(({ kind }) =>
    ["Deployment", "DaemonSet", "StatefulSet", "Pod"].includes(kind),
  );
}

export interface Entry {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly secretKeyRef?: { readonly name: string; readonly key: string } };
}

export function envOf(object: Rendered): readonly Entry[] {
  return podOf(object).containers[0].env ?? [];
}

/** The environment as the kubelet makes it: references to variables are replaced, and secrets read. */
export function environment(
  entries: readonly Entry[],
  secret = "a-secret-of-16-signs",
): Readonly<Record<string, string>> {
  const env: Record<string, string> = { POD_IP: "10.1.2.3" };
  for (const { name, value, valueFrom } of entries) {
    if (valueFrom?.secretKeyRef !== undefined) env[name] = secret;
    if (value === undefined) continue;
    env[name] = value.replaceAll(/\$\$\(|\$\((\w+)\)/g, (all, variable: string | undefined) =>
      variable === undefined ? "$(" : (env[variable] ?? all),
    );
  }
  return env;
}

export const EVERYTHING_SIDECAR: Values = {
  prometheusRule: { enabled: true },
  dashboard: { enabled: true },
  tls: Object.fromEntries(
    ["etcd", "prometheus", "redis", "server", "peers", "controller"].map((use) => [
      use,
      { secretName: "tls" },
    ]),
  ),
  agent: {
    config: { counters: { redis: { url: "rediss://redis:6379" } }, etcd: { username: "agent" } },
    secrets: { etcd: { password: { name: "etcd", key: "password" } } },
  },
};

/** For agents that run by themselves. */
export const EVERYTHING_AGENT: Values = merged(EVERYTHING_SIDECAR, {
  networkPolicy: { enabled: true },
  podMonitor: { enabled: true },
  agent: { priorityClassName: "high" },
});

export const EVERYTHING_CONTROLLER: Values = {
  networkPolicy: { enabled: true },
  serviceMonitor: { enabled: true },
  prometheusRule: { enabled: true },
  dashboard: { enabled: true },
  tls: Object.fromEntries(
    ["etcd", "prometheus", "server"].map((use) => [use, { secretName: "tls" }]),
  ),
  injector: { certManager: { enabled: true } },
  controller: { policies: { "one.yaml": "spec: {}\n" }, policyConfigMaps: ["more"] },
};

export function everything(): Promise<readonly (readonly Rendered[])[]> {
  return Promise.all([
    objectsIn("sluice"),
    agent(EVERYTHING_SIDECAR),
    ...MODES.slice(1).map((installationMode) => agent({ installationMode }, EVERYTHING_AGENT)),
    controller(),
    controller(EVERYTHING_CONTROLLER),
  ]);
}
