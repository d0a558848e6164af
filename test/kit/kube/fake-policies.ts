// An API server that has policy resources: a test puts, changes and deletes them as people do, and sees the statuses that
// a controller writes.

import type { TestContext } from "node:test";
import { type KubeObject, keyOf } from "#kube/api/objects.ts";
import { accessTo, type FakeApi, fakeApi } from "./fake-api.ts";

export interface FakePolicies {
  readonly api: FakeApi;
  /** For the environment of a process. */
  readonly variables: Readonly<Record<string, string>>;
  /** Writes of statuses, in order. */
  readonly writes: readonly { readonly name: string; readonly status: PolicyStatus }[];
  /** Events about policies, in order, as `name: type reason`. */
  readonly events: readonly string[];
  /** Namespaces whose policies may not be listed. */
  readonly forbidden: Set<string>;
  /** Creates or changes a resource. */
  put(name: string, spec: object, more?: object, namespace?: string): void;
  remove(name: string, namespace?: string): void;
  status(name: string, namespace?: string): PolicyStatus | undefined;
}

/** The namespace of resources, and of the controller, unless a test names another. */
const OWN = "shop";

export interface PolicyStatus {
  readonly status: string;
  readonly observedGeneration: number;
  readonly hash?: string | null;
  readonly conditions: readonly {
    readonly type: string;
    readonly status: string;
    readonly reason: string;
    readonly message: string;
    readonly lastTransitionTime: string;
    readonly observedGeneration: number;
  }[];
  readonly findings: readonly { readonly path: string; readonly message: string }[];
  readonly warnings: readonly string[];
  readonly warningCount: number;
}

const EVENTS = /^\/apis\/events\.k8s\.io\/v1\/namespaces\/[^/]+\/events$/;
const POLICIES =
  /^\/apis\/fluxninja\.com\/v1alpha1\/namespaces\/([^/]+)\/policies(?:\/([^/]+)\/status)?$/;

export async function fakePolicies(t: TestContext): Promise<FakePolicies> {
  const api = await fakeApi(t);
  const resources = new Map<string, KubeObject & { readonly status?: unknown }>();
  const writes: { name: string; status: PolicyStatus }[] = [];
  const told: string[] = [];
  const forbidden = new Set<string>();
  let version = 1;
  const events: { type: string; object: KubeObject }[] = [];
  const isOf = (path: string, { metadata }: KubeObject) =>
    POLICIES.exec(path)?.[1] === metadata.namespace;
  api.began = ({ path, query, send }) => {
    const since = Number(query.get("resourceVersion"));
    for (const { type, object } of events) {
      const isNew = Number(object.metadata.resourceVersion) > since;
      if (isNew && isOf(path, object)) send(type, object);
    }
  };
  const tell = (type: string, object: KubeObject) => {
    events.push({ type, object });
    for (const watch of api.watches)
      if (watch.isOpen() && isOf(watch.path, object)) watch.send(type, object);
  };
  const store = (object: KubeObject): KubeObject => {
    version += 1;
    const key = keyOf(object);
    const type = resources.has(key) ? "MODIFIED" : "ADDED";
    const stored = {
      ...object,
      metadata: { ...object.metadata, resourceVersion: String(version) },
    };
    resources.set(key, stored);
    tell(type, stored);
    return stored;
  };
  api.before = ({ method, path, query, body, reply }) => {
    if (method === "POST" && EVENTS.test(path)) {
      const { regarding, type, reason, ...event } = JSON.parse(body);
      told.push(`${regarding.name}: ${type} ${reason}`);
      reply(201, event);
      return true;
    }
    const [, namespace, name] = POLICIES.exec(path) ?? [];
    if (namespace === undefined) {
      reply(404, { kind: "Status", reason: "NotFound", message: "no such path" });
      return true;
    }
    if (method !== "PATCH") {
      if (forbidden.has(namespace)) {
        const message = `cannot list policies in the namespace ${namespace}`;
        reply(403, { kind: "Status", reason: "Forbidden", message });
        return true;
      }
      if (query.get("watch") === "true") return false;
      api.items = [...resources.values()].filter((each) => isOf(path, each));
      api.resourceVersion = String(version);
      return false;
    }
    const found = resources.get(`${namespace}/${name}`);
    const { status } = JSON.parse(body);
    if (found === undefined) reply(404, { reason: "NotFound" });
    else {
      writes.push({ name: found.metadata.name, status });
      reply(200, store({ ...found, status } as KubeObject));
    }
    return true;
  };
  return {
    api,
    variables: accessTo(t, api),
    writes,
    events: told,
    forbidden,
    put(name, spec, more = {}, namespace = OWN) {
      const before = resources.get(`${namespace}/${name}`);
      const generation = (before?.metadata.generation ?? 0) + 1;
      const uid = before?.metadata.uid ?? `uid-${name}-${version}`;
      const creationTimestamp =
        before?.metadata.creationTimestamp ?? new Date(version * 1_000).toISOString();
      const metadata = { name, namespace, uid, generation, creationTimestamp };
      const status = before?.status === undefined ? {} : { status: before.status };
      const head = { apiVersion: "fluxninja.com/v1alpha1", kind: "Policy" };
      const object = { ...head, metadata, spec, ...more, ...status };
      store(object);
    },
    remove(name, namespace = OWN) {
      const found = resources.get(`${namespace}/${name}`);
      if (found === undefined) return;
      version += 1;
      resources.delete(keyOf(found));
      tell("DELETED", { ...found, metadata: { ...found.metadata, resourceVersion: `${version}` } });
    },
    status: (name, namespace = OWN) =>
      resources.get(`${namespace}/${name}`)?.status as PolicyStatus | undefined,
  };
}

/** A policy that lets this share of the requests to a service pass, in percent. */
export function shareOf(percent: number, service = "any"): object {
  const accept_percentage = { constant_signal: { value: percent } };
  const selectors = [{ control_point: "ingress", agent_group: "default", service }];
  const sampler = { in_ports: { accept_percentage }, parameters: { selectors } };
  return { circuit: { evaluation_interval: "1s", components: [{ flow_control: { sampler } }] } };
}
