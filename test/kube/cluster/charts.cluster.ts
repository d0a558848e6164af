// The charts in a real cluster: installed in each mode, upgraded, rolled back and removed. Pods are objects that kwok calls
// running; the namespaces enforce the Pod Security level "restricted". The control plane is this file's own, because it
// looks at all that an installation leaves behind, and because its webhook has no injector.

import assert from "node:assert/strict";
import { after, type TestContext, test } from "node:test";
import type { KubeClient, KubeObject } from "../../kit/kube/client.ts";
import { namespaceOf, startControlPlane } from "../../kit/kube/control-plane.ts";
import {
  type Chart,
  chartPath,
  helm,
  objectsOf,
  rendered,
  type Values,
} from "../../kit/kube/helm.ts";
import { until } from "../../kit/until.ts";

const { client, kubeconfig } = await startControlPlane({ after });

/** A namespace that takes only restricted pods. */
async function restricted(t: TestContext): Promise<string> {
  const namespace = await namespaceOf(t, client);
  const labels = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/warn": "restricted",
  };
  await client.merge(
    { apiVersion: "v1", kind: "Namespace", name: namespace },
    { metadata: { labels } },
  );
  return namespace;
}

const DEFINITION = { apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" };

interface Release {
  readonly chart: Chart;
  readonly namespace: string;
  readonly name?: string;
}

function run(
  command: "install" | "upgrade",
  { chart, namespace, name = "sluice" }: Release,
  values: Values = {},
) {
  const flags = ["--namespace", namespace, "--wait", "--timeout", "5m"];
  return helm([command, name, chartPath(chart), ...flags], { values, kubeconfig });
}

function uninstall({ namespace, name = "sluice" }: Release) {
  return helm(["uninstall", name, "--namespace", namespace, "--wait"], { kubeconfig });
}

interface Kind {
  readonly path: string;
  readonly kind: string;
  readonly isNamespaced: boolean;
}

/** All kinds of objects that the server has, in their preferred versions. */
async function kindsOf(api: KubeClient): Promise<readonly Kind[]> {
  const { body } = await api.call("GET", "/apis");
  const groups: readonly string[] = body.groups.map(
    (group: { readonly preferredVersion: { readonly groupVersion: string } }) =>
      `/apis/${group.preferredVersion.groupVersion}`,
  );
  const found: Kind[] = [];
  for (const path of ["/api/v1", ...groups]) {
    const { body: list } = await api.call("GET", path);
    for (const { name, kind, namespaced, verbs } of list.resources ?? [])
      if (!name.includes("/") && verbs.includes("list"))
        found.push({ path: `${path}/${name}`, kind, isNamespaced: namespaced });
  }
  return found;
}

/** All objects in a namespace except those that every namespace has. */
async function everythingIn(namespace: string): Promise<readonly string[]> {
  const found: string[] = [];
  for (const { path, kind, isNamespaced } of await kindsOf(client)) {
    if (!isNamespaced || kind === "Event") continue;
    const at = path.lastIndexOf("/");
    const { body } = await client.call(
      "GET",
      `${path.slice(0, at)}/namespaces/${namespace}${path.slice(at)}`,
    );
    for (const { metadata } of body.items ?? []) found.push(`${kind} ${metadata.name}`);
  }
  const everywhere = ["ConfigMap kube-root-ca.crt", "ServiceAccount default"];
  return found.filter((each) => !everywhere.includes(each)).sort();
}

/** Objects of the whole cluster that belong to Sluice. */
async function clusterObjects(): Promise<readonly string[]> {
  const found: string[] = [];
  for (const { path, kind, isNamespaced } of await kindsOf(client)) {
    if (isNamespaced) continue;
    const { body } = await client.call(
      "GET",
      `${path}?labelSelector=app.kubernetes.io/part-of%3Dsluice`,
    );
    for (const { metadata } of body.items ?? []) found.push(`${kind} ${metadata.name}`);
  }
  return found.sort();
}

async function nothingLeft(namespace: string): Promise<void> {
  let left: readonly string[] = [];
  const gone = async () => {
    left = [...(await everythingIn(namespace)), ...(await clusterObjects())];
    return left.length === 0;
  };
  await until("nothing is left", gone, 120_000).catch((cause) => {
    throw new Error(`left behind: ${left.join(", ")}`, { cause });
  });
}

/** The volume that the etcd of a trial asks for; this cluster makes none by itself. */
async function volume(t: TestContext, name: string): Promise<void> {
  const spec = {
    capacity: { storage: "1Gi" },
    accessModes: ["ReadWriteOnce"],
    persistentVolumeReclaimPolicy: "Retain",
    hostPath: { path: "/nowhere" },
  };
  await client.apply([{ apiVersion: "v1", kind: "PersistentVolume", metadata: { name }, spec }]);
  t.after(() => client.delete({ apiVersion: "v1", kind: "PersistentVolume", name }));
}

const running = async (namespace: string, component: string) =>
  (
    await client.list(
      { apiVersion: "v1", kind: "Pod", namespace },
      `app.kubernetes.io/component=${component}`,
    )
  ).filter(
    ({ status, metadata }) =>
      status.phase === "Running" && metadata["deletionTimestamp" as never] === undefined,
  ).length;

/** The changes that applying the manifests again would make, as a GitOps tool finds them. */
async function drift(namespace: string): Promise<readonly string[]> {
  const text = await rendered("sluice", {}, ["--namespace", namespace, "--no-hooks"]);
  const changed: string[] = [];
  for (const wanted of objectsOf(text)) {
    const path = await client.pathOf({ ...wanted, ...wanted.metadata });
    const before = (await client.call("GET", path)).body;
    const query = "?dryRun=All&fieldManager=gitops&force=true";
    const { status, body } = await client.call(
      "PATCH",
      path + query,
      wanted,
      "application/apply-patch+yaml",
    );
    assert.equal(status, 200, `${path}: ${body.message}`);
    if (JSON.stringify(facts(before)) !== JSON.stringify(facts(body))) changed.push(path);
  }
  return changed;
}

function facts({ metadata, status: _, ...rest }: KubeObject): object {
  const { name, labels } = metadata;
  return { name, labels: Object.entries(labels ?? {}).sort(), rest };
}

test("a trial is installed, upgraded, rolled back and removed", async (t) => {
  const namespace = await restricted(t);
  await volume(t, "trial");
  const release = { chart: "sluice", namespace } as const;
  const notes = await run("install", release);
  for (const component of ["controller", "etcd", "prometheus"])
    assert.equal(await running(namespace, component), 1, component);
  assert.equal(await running(namespace, "injector"), 2);

  await t.test("its notes name objects that exist", async () => {
    const named = [
      ...notes.matchAll(
        /--namespace (\S+) (?:rollout status|exec(?: -i)?|port-forward) (\w+)\/([\w-]+)/g,
      ),
    ];
    assert.ok(named.length >= 4, notes);
    for (const [, where, kind = "", name = ""] of named) {
      assert.equal(where, namespace);
      const ref =
        kind === "service"
          ? { apiVersion: "v1", kind: "Service" }
          : { apiVersion: "apps/v1", kind: "Deployment" };
      assert.ok(await client.get({ ...ref, name, namespace }), `${kind}/${name}`);
    }
  });

  const webhook = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    name: "sluice-injector",
  };
  const secret = { apiVersion: "v1", kind: "Secret", name: "sluice-injector-tls", namespace };
  const owned = async () => {
    const { webhooks } = (await client.get(webhook)) as KubeObject;
    const { data } = (await client.get(secret)) as KubeObject;
    return [
      ...webhooks.map(({ clientConfig }: KubeObject) => clientConfig["caBundle"]),
      data?.["ca.crt"],
    ];
  };
  const authority = btoa(client.ca);
  const operations = [0, 1].map((at) => ({
    op: "add",
    path: `/webhooks/${at}/clientConfig/caBundle`,
    value: authority,
  }));
  const patched = await client.call(
    "PATCH",
    await client.pathOf(webhook),
    operations,
    "application/json-patch+json",
  );
  assert.equal(patched.status, 200, JSON.stringify(patched.body));
  await client.merge(secret, { data: { "ca.crt": authority } });

  await t.test("applying it again changes nothing, certificates included", async () => {
    assert.deepEqual(await drift(namespace), []);
  });

  await t.test("an upgrade and a rollback keep what the injector wrote", async () => {
    const more = {
      "sluice-controller": { controller: { replicaCount: 3, config: { log: { level: "debug" } } } },
    };
    await run("upgrade", release, more);
    assert.equal(await running(namespace, "controller"), 3);
    assert.deepEqual(await owned(), [authority, authority, authority]);
    await helm(["rollback", "sluice", "1", "--namespace", namespace, "--wait"], { kubeconfig });
    const deployment = {
      apiVersion: "apps/v1",
      kind: "Deployment",
      name: "sluice-controller",
      namespace,
    };
    await client.wait(
      deployment,
      "one controller",
      ({ spec, status }) => spec.replicas === 1 && status.replicas === 1,
    );
    assert.deepEqual(await owned(), [authority, authority, authority]);
  });

  await t.test("helm test starts pods that the cluster takes", async () => {
    // No container runs here, so the test says itself that the pods have succeeded.
    const tests = helm(["test", "sluice", "--namespace", namespace], { kubeconfig });
    const pod = { apiVersion: "v1", kind: "Pod", name: "sluice-controller-test", namespace };
    await client.wait(pod, "the pod of the test", ({ spec }) => spec.nodeName !== undefined);
    await client.merge(pod, { status: { phase: "Succeeded" } }, "status");
    assert.match(await tests, /Phase:\s+Succeeded/);
  });

  const policies = { ...DEFINITION, name: "policies.fluxninja.com" };
  assert.ok(await client.get(policies), "the definition of policies is installed");
  await uninstall(release);
  await nothingLeft(namespace);
  assert.ok(await client.get(policies), "and what was made of it survives");
});

test("agents are installed in each mode, and change from one to the other", async (t) => {
  const namespace = await restricted(t);
  const release = { chart: "sluice-agent", namespace } as const;
  const values = (installationMode: string) => ({
    installationMode,
    networkPolicy: { enabled: true },
    dashboard: { enabled: true },
    agent: { config: { etcd: { endpoints: ["http://etcd:2379"] } } },
  });
  await run("install", release, values("KUBERNETES_DEPLOYMENT"));
  assert.equal(await running(namespace, "agent"), 2);
  await run("upgrade", release, values("KUBERNETES_DAEMONSET"));
  await until("one agent on each node", async () => (await running(namespace, "agent")) === 1);
  const service = await client.get({
    apiVersion: "v1",
    kind: "Service",
    name: "sluice-agent",
    namespace,
  });
  assert.equal(service?.["spec"].internalTrafficPolicy, "Local");
  await run("upgrade", release, values("KUBERNETES_SIDECAR"));
  await until("no agent of its own", async () => (await running(namespace, "agent")) === 0);
  const maps = await client.list({ apiVersion: "v1", kind: "ConfigMap", namespace });
  assert.ok(maps.some(({ metadata }) => metadata.name === "sluice-sidecars"));
  await helm(["rollback", "sluice", "1", "--namespace", namespace, "--wait"], { kubeconfig });
  await until("two agents", async () => (await running(namespace, "agent")) === 2);
  await uninstall(release);
  await nothingLeft(namespace);
});

/** Whether an account may do something. */
async function may(
  account: KubeClient,
  verb: string,
  resource: string,
  where: { readonly namespace?: string; readonly name?: string; readonly group?: string } = {},
): Promise<boolean> {
  const { status, body } = await account.call(
    "POST",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: { verb, resource, ...where } },
    },
  );
  assert.equal(status, 201, JSON.stringify(body));
  return body.status.allowed;
}

test("each process has the rights that it uses, and no other", async (t) => {
  const namespace = await restricted(t);
  const etcd = { etcd: { endpoints: ["http://etcd:2379"] } };
  const controllers = { chart: "sluice-controller", namespace, name: "sluice-controller" } as const;
  const agents = { chart: "sluice-agent", namespace, name: "sluice-agent" } as const;
  const secrets = { etcd: { password: { name: "etcd-users", key: "agent" } } };
  await run("install", agents, { agent: { config: etcd, secrets } });
  await run("install", controllers, {
    controller: { config: etcd, secrets },
    policies: { crWatcher: { enabled: true } },
    autoScale: { enabled: true },
  });
  const accountOf = async (name: string) => client.as(await client.tokenOf(namespace, name));

  const injector = await accountOf("sluice-injector");
  const group = "admissionregistration.k8s.io";
  const own = "sluice-injector";
  const allowed = async (
    ...args: Parameters<typeof may> extends [KubeClient, ...infer R] ? R : never
  ) => may(injector, ...args);
  assert.ok(await allowed("watch", "namespaces"));
  assert.ok(await allowed("list", "pods"));
  assert.ok(await allowed("create", "events", { namespace: "default" }));
  assert.ok(await allowed("patch", "mutatingwebhookconfigurations", { group, name: own }));
  assert.ok(await allowed("patch", "secrets", { namespace, name: "sluice-injector-tls" }));
  assert.ok(await allowed("get", "secrets", { namespace, name: "etcd-users" }));
  assert.ok(await allowed("update", "secrets", { namespace: "default", name: "etcd-users" }));
  assert.ok(!(await allowed("list", "secrets")));
  assert.ok(!(await allowed("get", "secrets", { namespace: "default", name: "other" })));
  assert.ok(!(await allowed("patch", "mutatingwebhookconfigurations", { group, name: "other" })));
  assert.ok(!(await allowed("create", "pods", { namespace: "default" })));
  assert.ok(!(await allowed("update", "namespaces", { name: "default" })));

  const controller = await accountOf("sluice-controller");
  const policies = { group: "fluxninja.com" };
  assert.ok(await may(controller, "watch", "policies", { ...policies, namespace }));
  assert.ok(!(await may(controller, "watch", "policies", policies)), "only its own namespace");
  assert.ok(!(await may(controller, "update", "policies", { ...policies, namespace })));
  const apps = { group: "apps", namespace: "default" };
  for (const kind of ["deployments", "statefulsets", "replicasets"]) {
    assert.ok(await may(controller, "watch", kind, { group: "apps" }), `watch ${kind}`);
    assert.ok(await may(controller, "update", `${kind}/scale`, apps), `update ${kind}/scale`);
    assert.ok(!(await may(controller, "update", kind, apps)), `update ${kind}`);
  }
  assert.ok(!(await may(controller, "watch", "daemonsets", apps)));
  for (const [verb, resource] of [
    ["list", "pods"],
    ["get", "secrets"],
    ["get", "services"],
    ["list", "configmaps"],
  ] as const)
    assert.ok(!(await may(controller, verb, resource, { namespace })), `${verb} ${resource}`);
  // It discovers services for sidecars.
  const slices = { group: "discovery.k8s.io" };
  assert.ok(await may(controller, "watch", "services"));
  assert.ok(await may(controller, "watch", "endpointslices", slices));
  assert.ok(!(await may(controller, "update", "endpointslices", slices)));
  await uninstall(controllers);
  await uninstall(agents);
  await nothingLeft(namespace);
});
