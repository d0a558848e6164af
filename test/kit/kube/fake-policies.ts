// An API server that has policy resources: a test puts, changes and deletes them as people do, and sees the statuses that
// a controller writes.

import type { TestContext } from "node:test";
import type { KubeObject } from "#kube/api/objects.ts";
import { accessTo, type FakeApi, fakeApi } from "./fake-api.ts";

export interface FakePolicies {
  readonly api: FakeApi;
  /** For the environment of a process. */
  readonly variables: Readonly<Record<string, string>>;
  /** Writes of statuses, in order. */
  readonly writes: readonly { readonly name: string; readonly status: PolicyStatus }[];
  /** Events about policies, in order, as `name: type reason`. */
  readonly events: readonly string[];
  /** Creates or changes a resource of the namespace `shop`. */
  put(name: string, spec: object, more?: object): void;
  remove(name: string): void;
  status(name: string): PolicyStatus | undefined;
}

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

const EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events";
const PATH = "/apis/fluxninja.com/v1alpha1/namespaces/shop/policies";

export async function fakePolicies(t: TestContext): Promise<FakePolicies> {
  const api = await fakeApi(t);
  const resources = new Map<string, KubeObject & { readonly status?: unknown }>();
  const writes: { name: string; status: PolicyStatus }[] = [];
  const told: string[] = [];
  let version = 1;
  const events: { type: string; object: KubeObject }[] = [];
  api.began = ({ path, query, send }) => {
    if (path !== PATH) return;
    const since = Number(query.get("resourceVersion"));
    for (const { type, object } of events) {
      if (Number(object.metadata.resourceVersion) > since) send(type, object);
    }
  };
  const tell = (type: string, object: KubeObject) => {
    events.push({ type, object });
    api.items = [...resources.values()];
    api.resourceVersion = String(version);
    for (const watch of api.watches)
      if (watch.path === PATH && watch.isOpen()) watch.send(type, object);
  };
  const store = (object: KubeObject): KubeObject => {
    version += 1;
    const { name } = object.metadata;
    const type = resources.has(name) ? "MODIFIED" : "ADDED";
    const stored = {
      ...object,
      metadata: { ...object.metadata, resourceVersion: String(version) },
    };
    resources.set(name, stored);
    tell(type, stored);
    return stored;
  };
  api.before = ({ method, path, body, reply }) => {
    if (method === "POST" && path === EVENTS) {
      const { regarding, type, reason, ...event } = JSON.parse(body);
      told.push(`${regarding.name}: ${type} ${reason}`);
      reply(201, event);
      return true;
    }
    if (!path.startsWith(PATH)) {
      reply(404, { kind: "Status", reason: "NotFound", message: "no such path" });
      return true;
    }
    if (method !== "PATCH") return false;
    const [, name = ""] = /\/policies\/(.+)\/status$/.exec(path) ?? [];
    const found = resources.get(name);
    const { status } = JSON.parse(body);
    if (found === undefined) reply(404, { reason: "NotFound" });
    else {
      writes.push({ name, status });
      reply(200, store({ ...found, status } as KubeObject));
    }
    return true;
  };
  return {
    api,
    variables: accessTo(t, api),
    writes,
    events: told,
    put(name, spec, more = {}) {
      const before = resources.get(name);
      const generation = (before?.metadata.generation ?? 0) + 1;
      const uid = before?.metadata.uid ?? `uid-${name}-${version}`;
      const metadata = { name, namespace: "shop", uid, generation };
      const status = before?.status === undefined ? {} : { status: before.status };
      const head = { apiVersion: "fluxninja.com/v1alpha1", kind: "Policy" };
      const object = { ...head, metadata, spec, ...more, ...status };
      store(object);
    },
    remove(name) {
      const found = resources.get(name);
      if (found === undefined) return;
      version += 1;
      resources.delete(name);
      tell("DELETED", { ...found, metadata: { ...found.metadata, resourceVersion: `${version}` } });
    },
    status: (name) => resources.get(name)?.status as PolicyStatus | undefined,
  };
}

/** A policy that lets this share of requests pass, in percent. */
export function shareOf(percent: number): object {
  const accept_percentage = { constant_signal: { value: percent } };
  const selectors = [{ control_point: "ingress", agent_group: "default" }];
  const sampler = { in_ports: { accept_percentage }, parameters: { selectors } };
  return { circuit: { evaluation_interval: "1s", components: [{ flow_control: { sampler } }] } };
}
