// Shared by the tests of injection: settings, pods, applying a patch, and the rules of a valid pod.

import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import type { Operation } from "#injector/patch.ts";
import {
  type Container,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  readPod,
} from "#injector/pod.ts";
import type { ClusterAbilities, InjectionSettings, Namespace } from "#injector/settings.ts";
import type { Injection, InjectionInput } from "../../src/injector/mutation/mutate.ts";
import { inject } from "../../src/injector/mutation/mutate.ts";

const RESOURCES = {
  cpuRequest: "100m",
  cpuLimit: "",
  memoryRequest: "128Mi",
  memoryLimit: "512Mi",
} as const;

export const SETTINGS: InjectionSettings = {
  version: "1.2.3",
  ignoredNamespaces: ["sluice"],
  ipFamily: "IPv4",
  pullSecrets: [],
  sidecar: {
    image: "sluice:1.2.3",
    imagePullPolicy: "IfNotPresent",
    runAsUser: 65532,
    resources: RESOURCES,
    port: 8080,
    isPortChosen: true,
    otherPorts: [],
    probes: "HTTP",
    env: [{ name: "SVC_AGENT_ETCD_ENDPOINTS", value: "[http://etcd.sluice.svc:2379]" }],
    certificates: "",
    drainSeconds: 12,
  },
  envoy: {
    image: "envoy:1",
    imagePullPolicy: "",
    runAsUser: 101,
    resources: RESOURCES,
    inject: false,
    port: 10_000,
    adminPort: 9_901,
    clientBaggage: "ignore",
    concurrency: 2,
    applicationSleepSeconds: 5,
  },
};

export const MODERN: ClusterAbilities = { nativeSidecars: true, sleepAction: true };
export const OLD: ClusterAbilities = { nativeSidecars: false, sleepAction: false };

export const NAMESPACE: Namespace = {
  name: "shop",
  labels: { "sluice-injection": "enabled" },
  annotations: {},
};

export interface PodOptions {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly spec?: JsonObject;
}

/** A pod as the API server hands it over, with its defaults. */
export function podWith({ annotations = {}, labels, spec = {} }: PodOptions = {}): JsonObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      generateName: "shop-",
      namespace: "shop",
      annotations,
      ...(labels === undefined ? {} : { labels }),
    },
    spec: {
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 30,
      containers: [application()],
      ...spec,
    },
  };
}

export function application(fields: JsonObject = {}): Container {
  return {
    name: "application",
    image: "shop:1",
    ports: [{ containerPort: 9_000, protocol: "TCP" }],
    resources: {},
    ...fields,
  };
}

export function injectInto(pod: Json, changed: Partial<Omit<InjectionInput, "pod">> = {}) {
  return inject({
    pod: readPod(pod),
    namespace: NAMESPACE,
    settings: SETTINGS,
    abilities: MODERN,
    ...changed,
  });
}

/** The pod after injection; fails where it was not injected. */
export function injected(
  pod: JsonObject,
  changed: Partial<Omit<InjectionInput, "pod">> = {},
): { readonly whole: JsonObject; readonly warnings: readonly string[] } {
  const found = injectInto(pod, changed);
  assert.equal(found.outcome, "injected", messageOf(found));
  assert.ok(found.outcome === "injected");
  const whole = applied(pod, found.patch);
  assert.ok(isObject(whole));
  return { whole, warnings: found.warnings };
}

export function messageOf(injection: Injection): string {
  return injection.outcome === "refused" ? injection.message : injection.outcome;
}

/** Applies a patch by RFC 6902. Fails where the API server would. */
export function applied(json: Json, patch: readonly Operation[]): Json {
  let whole = json;
  for (const operation of patch) {
    const path = operation.path.split("/").slice(1).map(unescaped);
    whole = change(whole, path, operation);
  }
  return whole;
}

function unescaped(part: string): string {
  return part.replaceAll("~1", "/").replaceAll("~0", "~");
}

function change(json: Json, [head, ...rest]: readonly string[], operation: Operation): Json {
  if (head === undefined) {
    assert.ok(operation.op !== "remove");
    return operation.value;
  }
  if (Array.isArray(json)) {
    const at = head === "-" ? json.length : Number(head);
    assert.ok(Number.isInteger(at) && at >= 0 && at <= json.length, `${operation.path}: an index`);
    if (rest.length > 0) return json.with(at, change(json[at], rest, operation));
    if (operation.op === "remove") return json.toSpliced(at, 1);
    return operation.op === "add"
      ? json.toSpliced(at, 0, operation.value)
      : json.with(at, operation.value);
  }
  assert.ok(isObject(json), `${operation.path}: an object`);
  const has = Object.hasOwn(json, head);
  if (rest.length === 0 && operation.op === "add") return { ...json, [head]: operation.value };
  assert.ok(has, `${operation.path}: ${head} exists`);
  if (rest.length > 0) return { ...json, [head]: change(json[head] ?? null, rest, operation) };
  const { [head]: _, ...others } = json;
  return operation.op === "remove" ? others : { ...json, [head]: operation.value };
}

export function specOf(pod: JsonObject): JsonObject {
  assert.ok(isObject(pod["spec"]));
  return pod["spec"];
}

export function containersOf(pod: JsonObject): readonly JsonObject[] {
  const spec = specOf(pod);
  return [...listAt(spec["initContainers"]), ...listAt(spec["containers"])];
}

export function containerOf(pod: JsonObject, name: string): JsonObject {
  const found = containersOf(pod).find((each) => each["name"] === name);
  assert.ok(found, `a container ${name}`);
  return found;
}

/** Fails where the API server would refuse the pod. */
export function assertValid(pod: JsonObject): void {
  const spec = specOf(pod);
  const all = containersOf(pod);
  assertUnique(
    all.map(({ name }) => name),
    "names of containers",
  );
  const volumes = listAt(spec["volumes"]).map(({ name }) => name);
  assertUnique(volumes, "names of volumes");
  for (const container of all) {
    const { name } = container;
    assert.ok(
      typeof container["image"] === "string" && container["image"] !== "",
      `${name}: image`,
    );
    const mounts = listAt(container["volumeMounts"]);
    assertUnique(
      mounts.map(({ mountPath }) => mountPath),
      `${name}: paths of mounts`,
    );
    for (const mount of mounts) assert.ok(volumes.includes(mount["name"]), `${name}: its volume`);
    assertUnique(
      listAt(container["ports"]).flatMap((port) =>
        port["name"] === undefined ? [] : port["name"],
      ),
      `${name}: names of ports`,
    );
    assertUnique(
      listAt(container["env"]).map((variable) => variable["name"]),
      `${name}: variables`,
    );
    for (const port of listAt(container["ports"])) {
      const number = port["containerPort"];
      assert.ok(typeof number === "number" && number >= 1 && number <= 65_535, `${name}: a port`);
      const portName = port["name"];
      if (portName !== undefined) assert.match(String(portName), /^[a-z0-9-]{1,15}$/);
    }
  }
  // Probes and preStop of init containers are allowed only where they go on.
  for (const container of listAt(spec["initContainers"])) {
    if (container["restartPolicy"] === "Always") continue;
    for (const field of ["startupProbe", "readinessProbe", "livenessProbe", "lifecycle"]) {
      assert.equal(container[field], undefined, `${container["name"]}: ${field}`);
    }
  }
}

function assertUnique(values: readonly (Json | undefined)[], what: string): void {
  assert.equal(new Set(values).size, values.length, what);
}

/** Everything that the author of a pod wrote is still there: members keep their values, lists only grow. */
export function assertKept(before: Json, after: Json | undefined, path: string): void {
  if (isObject(before) && isObject(after)) {
    for (const [key, value] of Object.entries(before))
      assertKept(value, after[key], `${path}/${key}`);
    return;
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    for (const [at, item] of before.entries()) {
      const kept = after.find((other: Json) => named(other) === named(item)) ?? after[at];
      assertKept(item, kept, `${path}/${at}`);
    }
    return;
  }
  assert.ok(isDeepStrictEqual(before, after), `${path} is kept`);
}

/** The field that distinguishes the items of a list of the API. */
function named(json: Json): string {
  if (!isObject(json)) return JSON.stringify(json);
  const { name, mountPath, containerPort } = json;
  return JSON.stringify(containerPort ?? mountPath ?? name ?? json);
}

/** The variables of a container, each with its value or its source. */
export function envOf(container: JsonObject): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    listAt(container["env"]).map(({ name, value, valueFrom }) => [name, value ?? valueFrom]),
  );
}
