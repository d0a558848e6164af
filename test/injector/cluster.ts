// The parts of a Kubernetes API server that an injector needs, in memory: it lists namespaces and pods, keeps Secrets
// and one webhook configuration, refuses stale writes, and remembers events.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { folderOf } from "../kit/folder.ts";
import { type Asked, type FakeApi, fakeApi, type Watching } from "../kit/kube/fake-api.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of all kinds, whose fields a test names
type Any = any;

export const HOME = "sluice";

export interface Cluster {
  readonly api: FakeApi;
  readonly kubeconfig: string;
  /** By `namespace/name`. */
  readonly secrets: Map<string, Any>;
  readonly configuration: Any;
  readonly events: Any[];
  /** By namespace. */
  readonly pods: Map<string, readonly Any[]>;
  /** Entries of the ConfigMap `sidecars` of the injector's namespace; undefined: there is none. */
  readonly settings: Readonly<Record<string, string>> | undefined;
  minor: string;
  setSettings(entries: Readonly<Record<string, string>> | undefined): void;
  addNamespace(name: string, labels?: object, annotations?: object): void;
}

export async function cluster(t: TestContext): Promise<Cluster> {
  const api = await fakeApi(t);
  const kubeconfig = join(folderOf(t), "kubeconfig");
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      clusters: [{ name: "c", cluster: { server: api.url } }],
      users: [{ name: "u", user: { token: "t" } }],
      contexts: [{ name: "x", context: { cluster: "c", user: "u", namespace: HOME } }],
      "current-context": "x",
    }),
  );
  let version = 1;
  const versioned = (object: Any) => ({
    ...object,
    metadata: { ...object.metadata, resourceVersion: `${version++}` },
  });
  const entry = (name: string) => ({
    name,
    clientConfig: { service: { name: "sluice-injector" } },
  });
  const isOfMap = ({ query }: Watching) => query.get("fieldSelector") === "metadata.name=sidecars";
  const mapOf = (data: Cluster["settings"]) =>
    data && versioned({ metadata: { name: "sidecars", namespace: HOME, uid: "map" }, data });
  let configMap: Any;
  const held: Cluster = {
    api,
    kubeconfig,
    secrets: new Map(),
    configuration: versioned({
      metadata: { name: "sluice-injector", uid: "configuration" },
      webhooks: [entry("a"), entry("b")],
    }),
    events: [],
    pods: new Map(),
    minor: "33",
    settings: undefined,
    setSettings(entries) {
      const before = configMap;
      state.settings = entries;
      configMap = mapOf(entries);
      const type = entries === undefined ? "DELETED" : before === undefined ? "ADDED" : "MODIFIED";
      for (const watch of api.watches)
        if (watch.isOpen() && isOfMap(watch)) watch.send(type, configMap ?? before);
    },
    addNamespace(name, labels = { "sluice-injection": "enabled" }, annotations = {}) {
      const namespace = versioned({ metadata: { name, uid: name, labels, annotations } });
      api.items = [...api.items.filter(({ metadata }) => metadata.name !== name), namespace];
      for (const watch of api.watches)
        if (watch.isOpen() && !isOfMap(watch)) watch.send("MODIFIED", namespace);
    },
  };
  const state = held as { -readonly [Key in keyof Cluster]: Cluster[Key] };
  const merged = (object: Any, change: Any) => {
    const wanted = change.metadata?.resourceVersion;
    if (wanted !== undefined && wanted !== object.metadata.resourceVersion) return undefined;
    const metadata = { ...object.metadata, ...change.metadata };
    return versioned({ ...object, ...change, metadata });
  };
  const conflict = { reason: "Conflict", message: "the object has been modified" };
  const none = { reason: "NotFound", message: "not found" };
  const onSecret = ({ method, body, reply }: Asked, key: string) => {
    const known = held.secrets.get(key);
    if (method === "GET") return known === undefined ? reply(404, none) : reply(200, known);
    if (method === "DELETE") {
      held.secrets.delete(key);
      return reply(200, {});
    }
    if (known === undefined) return reply(404, none);
    const next = merged(known, JSON.parse(body));
    if (next === undefined) return reply(409, conflict);
    held.secrets.set(key, next);
    return reply(200, next);
  };
  api.before = (asked) => {
    const { method, path, body, query, reply } = asked;
    const [, namespace = "", kind = "", name] =
      /^\/api\/v1\/namespaces\/([^/]+)\/([^/]+)(?:\/([^/]+))?$/.exec(path) ?? [];
    const [, asksFor] = /^\/api\/v1\/namespaces\/([^/]+)$/.exec(path) ?? [];
    if (path === "/version") reply(200, { major: "1", minor: state.minor });
    else if (path.includes("/mutatingwebhookconfigurations/")) {
      if (method === "GET") reply(200, state.configuration);
      else {
        const next = merged(state.configuration, JSON.parse(body));
        if (next !== undefined) state.configuration = next;
        reply(next === undefined ? 409 : 200, next ?? conflict);
      }
    } else if (kind === "secrets" && method === "POST") {
      const object = JSON.parse(body);
      const key = `${namespace}/${object.metadata.name}`;
      if (held.secrets.has(key)) reply(409, { reason: "AlreadyExists" });
      else {
        held.secrets.set(key, versioned(object));
        reply(201, held.secrets.get(key));
      }
    } else if (kind === "secrets" && name !== undefined) onSecret(asked, `${namespace}/${name}`);
    else if (kind === "configmaps") {
      if (query.get("watch") === "true") return false;
      const items = configMap === undefined ? [] : [configMap];
      reply(200, { metadata: { resourceVersion: "1" }, items });
    } else if (kind === "pods") {
      replyPods(asked, held.pods.get(namespace) ?? []);
    } else if (kind === "events") {
      const event = JSON.parse(body);
      const isNew = held.events.every(({ metadata }) => metadata.name !== event.metadata.name);
      if (isNew) held.events.push(event);
      reply(isNew ? 201 : 409, isNew ? event : { reason: "AlreadyExists" });
    } else if (asksFor !== undefined) {
      const found = api.items.find(({ metadata }) => metadata.name === asksFor);
      reply(found === undefined ? 404 : 200, found ?? none);
    } else
      return path !== "/api/v1/namespaces" && query.get("watch") !== "true" && answerNone(reply);
    return true;
  };
  return state;
}

/** Pages of two pods, whatever the limit, of those that the selector asks for. */
function replyPods({ query, reply }: Asked, pods: readonly Any[]): void {
  if (Number(query.get("limit") ?? 0) < 1) {
    reply(400, { message: "wanted a limit" });
    return;
  }
  const left = [...(query.get("fieldSelector") ?? "").matchAll(/status\.phase!=(\w+)/g)];
  const asked = pods.filter((pod) => left.every(([, phase]) => pod.status?.phase !== phase));
  const from = Number(query.get("continue") ?? 0);
  const next = from + 2 < asked.length ? { continue: String(from + 2) } : {};
  reply(200, { metadata: { resourceVersion: "1", ...next }, items: asked.slice(from, from + 2) });
}

function answerNone(reply: Asked["reply"]): boolean {
  reply(404, { reason: "NotFound", message: "the fake server knows no such path" });
  return true;
}
