// An API server with objects that have a scale: a test changes them as people and other controllers do, and sees what is set.

import type { TestContext } from "node:test";
import type { KubeObject } from "#kube/api/objects.ts";
import { type Asked, type FakeApi, fakeApi, type Watching } from "./fake-api.ts";

interface FakeKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly scope?: "Namespaced" | "Cluster";
  readonly hasScale?: boolean;
}

export interface FakeScales {
  readonly api: FakeApi;
  /** Kinds that the server serves; deployments and jobs, which have no scale, at first. */
  kinds: readonly FakeKind[];
  /** Creates or changes an object of the namespace `shop`. */
  put(plural: string, name: string, replicas: { configured: number; actual: number }): void;
  /** Creates or changes an autoscaler of the namespace `shop`. */
  autoscale(name: string, target: object): void;
  remove(plural: string, name: string): void;
  /** Replicas that the object asks for; undefined where there is none. */
  configured(plural: string, name: string): number | undefined;
  /** Accepted writes of scales, in order, as `name=replicas`. */
  readonly writes: string[];
  /** Called before each write of a scale; may change the object or answer in place of the server. */
  beforeWrite: (asked: Asked) => boolean | undefined;
  /** Called before each read of a scale. */
  beforeRead: (asked: Asked) => boolean | undefined;
}

const DEPLOYMENTS: FakeKind = {
  group: "apps",
  version: "v1",
  kind: "Deployment",
  plural: "deployments",
  hasScale: true,
};
const JOBS: FakeKind = { group: "batch", version: "v1", kind: "Job", plural: "jobs" };

const OBJECT = /^\/apis\/[^/]+\/[^/]+\/namespaces\/shop\/([^/]+)(?:\/([^/]+)\/scale)?$/;
const ALL = /^\/apis\/[^/]+\/[^/]+\/([^/]+)$/;

type Stored = KubeObject & { readonly spec: object; readonly status?: { replicas: number } };

/** Runs until the test ends. */
export async function fakeScales(t: TestContext): Promise<FakeScales> {
  const api = await fakeApi(t);
  /** By `plural/name`. */
  const objects = new Map<string, Stored>();
  const events: { type: string; plural: string; object: KubeObject }[] = [];
  const watchers: { plural: string; name: string | undefined; watch: Watching }[] = [];
  const writes: string[] = [];
  let version = 1;
  const tell = (type: string, plural: string, object: KubeObject) => {
    events.push({ type, plural, object });
    for (const { plural: of, name, watch } of watchers) {
      if (of === plural && (name ?? object.metadata.name) === object.metadata.name)
        watch.send(type, object);
    }
  };
  const store = (plural: string, name: string, parts: object) => {
    version += 1;
    const key = `${plural}/${name}`;
    const before = objects.get(key);
    const uid = before?.metadata.uid ?? `uid-${name}-${version}`;
    const metadata = { name, namespace: "shop", uid, resourceVersion: String(version) };
    const object = { ...before, ...parts, metadata } as Stored;
    objects.set(key, object);
    tell(before === undefined ? "ADDED" : "MODIFIED", plural, object);
    return object;
  };
  const scaleOf = ({ metadata, spec, status }: Stored) => {
    const configured = (spec as { replicas: number }).replicas;
    return {
      apiVersion: "autoscaling/v1",
      kind: "Scale",
      metadata,
      // As real servers do, which leave zeros out.
      spec: configured === 0 ? {} : { replicas: configured },
      status: { replicas: status?.replicas ?? 0 },
    };
  };
  const answerScale = (asked: Asked, plural: string, name: string) => {
    const { method, body, reply } = asked;
    if (method === "GET" && fakes.beforeRead(asked) === true) return;
    if (method === "PUT" && fakes.beforeWrite(asked) === true) return;
    const found = objects.get(`${plural}/${name}`);
    if (found === undefined) return reply(404, { reason: "NotFound", message: `no ${name}` });
    if (method === "GET") return reply(200, scaleOf(found));
    const { metadata, spec } = JSON.parse(body);
    if (metadata.resourceVersion !== found.metadata.resourceVersion)
      return reply(409, { reason: "Conflict", message: "the object has been modified" });
    writes.push(`${name}=${spec.replicas}`);
    reply(200, scaleOf(store(plural, name, { spec: { ...found.spec, ...spec } })));
  };
  api.before = (asked) => {
    const { path, query, reply } = asked;
    if (path === "/api" || path === "/apis") {
      reply(200, discoveryOf(path === "/api" ? [] : fakes.kinds));
      return true;
    }
    const [, plural = ALL.exec(path)?.[1], name] = OBJECT.exec(path) ?? [];
    if (plural === undefined) return false;
    if (name !== undefined) {
      answerScale(asked, plural, name);
      return true;
    }
    if (query.get("watch") === "true") return false;
    const wanted = query.get("fieldSelector")?.replace("metadata.name=", "");
    const items = [...objects].flatMap(([key, object]) =>
      key.startsWith(`${plural}/`) && (wanted ?? object.metadata.name) === object.metadata.name
        ? [object]
        : [],
    );
    reply(200, { items, metadata: { resourceVersion: String(version) } });
    return true;
  };
  api.began = (watch) => {
    const asked = api.asked.findLast(({ query }) => query === watch.query);
    const plural = OBJECT.exec(asked?.path ?? "")?.[1] ?? "";
    const name = watch.query.get("fieldSelector")?.replace("metadata.name=", "");
    const since = Number(watch.query.get("resourceVersion"));
    for (const { type, plural: of, object } of events) {
      if (of !== plural || Number(object.metadata.resourceVersion) <= since) continue;
      if ((name ?? object.metadata.name) === object.metadata.name) watch.send(type, object);
    }
    watchers.push({ plural, name, watch });
  };
  const fakes: FakeScales = {
    api,
    kinds: [DEPLOYMENTS, JOBS],
    put(plural, name, { configured, actual }) {
      store(plural, name, { spec: { replicas: configured }, status: { replicas: actual } });
    },
    autoscale(name, target) {
      store("horizontalpodautoscalers", name, { spec: { scaleTargetRef: target } });
    },
    remove(plural, name) {
      const found = objects.get(`${plural}/${name}`);
      if (found === undefined) return;
      version += 1;
      objects.delete(`${plural}/${name}`);
      const metadata = { ...found.metadata, resourceVersion: String(version) };
      tell("DELETED", plural, { ...found, metadata });
    },
    configured(plural, name) {
      const spec = objects.get(`${plural}/${name}`)?.spec as { replicas: number } | undefined;
      return spec?.replicas;
    },
    writes,
    beforeWrite: () => undefined,
    beforeRead: () => undefined,
  };
  return fakes;
}

function discoveryOf(kinds: readonly FakeKind[]): object {
  const groups = [...new Set(kinds.map(({ group }) => group))];
  return {
    apiVersion: "apidiscovery.k8s.io/v2",
    kind: "APIGroupDiscoveryList",
    items: groups.map((group) => ({
      metadata: { name: group },
      versions: [
        ...new Set(kinds.filter((each) => each.group === group).map((each) => each.version)),
      ].map((version) => ({
        version,
        resources: kinds
          .filter((each) => each.group === group && each.version === version)
          .map(({ kind, plural, scope = "Namespaced", hasScale = false }) => ({
            resource: plural,
            responseKind: { group, version, kind },
            scope,
            subresources: hasScale
              ? [{ subresource: "scale", responseKind: { group: "autoscaling", kind: "Scale" } }]
              : [],
          })),
      })),
    })),
  };
}
