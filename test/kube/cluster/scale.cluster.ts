// Scaling against a real API server: a controller that has only the rights of its chart scales a Deployment, whose pods
// follow, and a custom resource; and what becomes of it when others write, the API server is away or another one leads.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import type { Ending } from "../../kit/ending.ts";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { folderOf } from "../../kit/folder.ts";
import type { KubeClient, KubeObject, Ref } from "../../kit/kube/client.ts";
import {
  kubeconfigOf,
  namespaceOf,
  sharedCluster,
  startControlPlane,
} from "../../kit/kube/control-plane.ts";
import { controller as chart, only } from "../../kit/kube/rendering.ts";
import {
  leads,
  listening,
  type SluiceChild,
  standsBy,
  startSluice,
} from "../../kit/servers/sluice.ts";
import { until } from "../../kit/until.ts";

const { client } = await sharedCluster({ after });

const RBAC = "rbac.authorization.k8s.io";
const SCALING = { AUTO_SCALE_KUBERNETES_ENABLED: "true" };
const PATIENCE_MS = 120_000;

const schemaOf = (properties: object) => ({ type: "object", properties });
const SIZE = schemaOf({ size: { type: "integer" } });
/** A kind whose number of replicas is called otherwise. */
const SHOPS = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "shops.scaling.example.com" },
  spec: {
    group: "scaling.example.com",
    scope: "Namespaced",
    names: { plural: "shops", singular: "shop", kind: "Shop" },
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        schema: { openAPIV3Schema: schemaOf({ spec: SIZE, status: SIZE }) },
        subresources: {
          status: {},
          scale: { specReplicasPath: ".spec.size", statusReplicasPath: ".status.size" },
        },
      },
    ],
  },
};
const SHOP = { apiVersion: "scaling.example.com/v1", kind: "Shop" };

type Rule = {
  readonly apiGroups: string[];
  readonly resources: string[];
  readonly verbs: string[];
};

/** The rules of the chart for a cluster that has the custom resource as well. */
const RIGHTS: readonly Rule[] = only(
  await chart({
    autoScale: { enabled: true, resources: ["deployments.apps", "shops.scaling.example.com"] },
    injector: { enabled: false },
  }),
  "ClusterRole",
)["rules"];

/** The environment of a process whose account has these rights in the whole cluster. */
async function accountWith(t: Ending, namespace: string, rules: readonly Rule[] = RIGHTS) {
  const name = `scaling-${namespace}`;
  const role = { apiVersion: `${RBAC}/v1`, kind: "ClusterRole", metadata: { name } };
  const binding = { ...role, kind: "ClusterRoleBinding" };
  await client.apply(
    [
      { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "controller" } },
      { ...role, rules },
      {
        ...binding,
        roleRef: { apiGroup: RBAC, kind: "ClusterRole", name },
        subjects: [{ kind: "ServiceAccount", name: "controller", namespace }],
      },
    ],
    namespace,
  );
  t.after(async () => {
    for (const { apiVersion, kind } of [binding, role])
      await client.delete({ apiVersion, kind, name });
  });
  return environment(t, client.as(await client.tokenOf(namespace, "controller")), namespace);
}

function environment(t: Ending, as: KubeClient, namespace: string) {
  const config = JSON.parse(kubeconfigOf(as));
  config.contexts[0].context.namespace = namespace;
  const file = join(folderOf(t), "kubeconfig");
  writeFileSync(file, JSON.stringify(config));
  return { KUBECONFIG: file };
}

function deployment(name: string, replicas: number): object {
  const labels = { app: name };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name, image: "none" }] } },
    },
  };
}

const refOf = (namespace: string, name = "api"): Ref => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  namespace,
  name,
});

const selector = ({ apiVersion: api_version, kind, namespace, name }: Ref) => ({
  api_version,
  kind,
  namespace,
  name,
});

const podScaler = (object: Ref, input: object) => ({
  auto_scale: {
    pod_scaler: { in_ports: { replicas: input }, kubernetes_object_selector: selector(object) },
  },
});

const constant = (value: number) => ({ constant_signal: { value } });
const signal = (signal_name: string) => ({ signal_name });

/** A folder with one policy, `p`, of these components. */
function policies(t: Ending, ...components: readonly object[]) {
  const folder = folderOf(t);
  const write = (...now: readonly object[]) => {
    const circuit = { evaluation_interval: "0.5s", components: now };
    writeFileSync(join(folder, "p.json"), JSON.stringify({ circuit }));
  };
  write(...components);
  return { folder, write };
}

async function metric(of: SluiceChild, text: string): Promise<string | undefined> {
  const reply = await fetch(`http://${of.address()}/metrics`);
  const line = (await reply.text()).split("\n").find((each) => each.startsWith(`${text} `));
  return line?.slice(text.length + 1);
}

const warned = (of: SluiceChild, code: string) =>
  metric(of, `sluice_policy_warnings{policy_name="p",code="${code}"}`);

const replicasIs = (replicas: number) => (object: KubeObject) =>
  object["spec"].replicas === replicas;

test("an auto scaler takes a Deployment from one to five and back, and its pods follow", async (t) => {
  const namespace = await namespaceOf(t, client);
  const { endpoints } = await startEtcd(t);
  await client.apply([deployment("api", 1)], namespace);
  const ref = refOf(namespace);
  const alerter = { alert_name: "a" };
  const load = (value: number) => ({
    variable: { constant_output: { value }, out_ports: { output: signal("LOAD") } },
  });
  const gradient = (parameters: object) => ({
    alerter,
    controller: {
      gradient: { in_ports: { signal: signal("LOAD"), setpoint: constant(1) }, parameters },
    },
  });
  const scaler = {
    auto_scale: {
      auto_scaler: {
        scaling_backend: {
          kubernetes_replicas: {
            kubernetes_object_selector: selector(ref),
            min_replicas: "1",
            max_replicas: "5",
          },
        },
        scale_out_controllers: [gradient({ slope: 1 })],
        scale_in_controllers: [gradient({ slope: 1 })],
        scaling_parameters: {
          max_scale_out_percentage: 400,
          max_scale_in_percentage: 100,
          scale_out_cooldown: "1s",
          scale_in_cooldown: "1s",
          scale_out_alerter: alerter,
          scale_in_alerter: alerter,
        },
      },
    },
  };
  const { folder, write } = policies(t, load(8), scaler);
  const account = await accountWith(t, namespace);
  const own = startSluice(t, "controller", endpoints, ["--policies", folder], SCALING, account);
  await listening(own);
  await client.wait(ref, "five run", ({ status }) => status?.readyReplicas === 5);
  const pods = async () =>
    (await client.list({ apiVersion: "v1", kind: "Pod", namespace }, "app=api")).length;
  assert.equal(await pods(), 5);
  write(load(0.1), scaler);
  await client.wait(ref, "one runs", ({ status }) => status?.readyReplicas === 1);
  await until("the other pods are gone", async () => (await pods()) === 1, PATIENCE_MS);
  assert.doesNotMatch(own.printed(), /forbidden|status 403/);
});

test("a custom resource is scaled, whatever its numbers are called, and listed among what could be", async (t) => {
  const namespace = await namespaceOf(t, client);
  const { endpoints } = await startEtcd(t);
  const shop = { ...SHOP, namespace, name: "corner" };
  const { folder } = policies(t, podScaler(shop, constant(3)));
  const account = await accountWith(t, namespace);
  const own = startSluice(t, "controller", endpoints, ["--policies", folder], SCALING, account);
  await listening(own);
  await until(
    "the kind is missed",
    async () => (await warned(own, "not_scaled")) === "1",
    PATIENCE_MS,
  );
  const { name } = SHOPS.metadata;
  t.after(() => client.delete({ apiVersion: SHOPS.apiVersion, kind: SHOPS.kind, name }));
  await client.apply([SHOPS]);
  await client.apply([{ ...SHOP, metadata: { name: "corner" }, spec: { size: 1 } }], namespace);
  await client.wait(shop, "it is scaled", ({ spec }) => spec.size === 3);
  await until("nothing is missed", async () => !(await warned(own, "not_scaled")), PATIENCE_MS);
  await client.apply([deployment("api", 1)], namespace);
  const reply = await fetch(`http://${own.address()}/v1/autoscale/kubernetes/controlpoints`);
  const { auto_scale_kubernetes_control_points: points } = (await reply.json()) as {
    auto_scale_kubernetes_control_points: { namespace: string; kind: string; name: string }[];
  };
  const here = points.filter((point) => point.namespace === namespace);
  // The ReplicaSet of the Deployment is not among them.
  assert.deepEqual(here.map((point) => `${point.kind} ${point.name}`).sort(), [
    "Deployment api",
    "Shop corner",
  ]);
  assert.doesNotMatch(own.printed(), /forbidden|status 403/);
});

test("another writer is corrected, and an autoscaler of the same object is said", async (t) => {
  const namespace = await namespaceOf(t, client);
  const { endpoints } = await startEtcd(t);
  await client.apply([deployment("api", 1)], namespace);
  const ref = refOf(namespace);
  const { folder } = policies(t, podScaler(ref, constant(3)));
  const account = await accountWith(t, namespace);
  const own = startSluice(t, "controller", endpoints, ["--policies", folder], SCALING, account);
  await listening(own);
  await client.wait(ref, "three are configured", replicasIs(3));
  for (let at = 0; at < 20; at++) {
    // Somebody else, who changes the object all the time, and its replicas as well.
    const annotations = { "example.com/at": String(at) };
    await client.merge(ref, {
      metadata: { annotations },
      ...(at % 10 === 0 && { spec: { replicas: 1 } }),
    });
  }
  const last = await client.wait(ref, "three are configured again", replicasIs(3));
  assert.equal(last.metadata.annotations?.["example.com/at"], "19");

  const autoscaler = { apiVersion: "autoscaling/v2", kind: "HorizontalPodAutoscaler" };
  const metrics = [
    {
      type: "Resource",
      resource: { name: "cpu", target: { type: "Utilization", averageUtilization: 50 } },
    },
  ];
  const scaleTargetRef = { apiVersion: "apps/v1", kind: "Deployment", name: "api" };
  const spec = { scaleTargetRef, minReplicas: 1, maxReplicas: 9, metrics };
  await client.apply([{ ...autoscaler, metadata: { name: "rival" }, spec }], namespace);
  await until(
    "it is counted",
    async () => (await warned(own, "other_autoscaler")) === "1",
    PATIENCE_MS,
  );
  const shown = await fetch(`http://${own.address()}/v1/status/system/policies`);
  assert.match(await shown.text(), /HorizontalPodAutoscaler rival also scales apps\/v1 Deployment/);
  await client.delete({ ...autoscaler, namespace, name: "rival" });
  await until("it is gone", async () => !(await warned(own, "other_autoscaler")), PATIENCE_MS);
  const lines = () =>
    own
      .printed()
      .split("\n")
      .filter((line) => line.includes("rival"));
  await until("a line when it begins and one when it ends", () => lines().length >= 2);
  assert.equal(lines().length, 2);
});

test("while the API server is away, the state stays and is said to be old; then decisions are made up for", async (t) => {
  const plane = await startControlPlane(t, { parts: [] });
  const { endpoints } = await startEtcd(t);
  await plane.client.apply([deployment("api", 1), deployment("web", 1)], "default");
  const [api, web] = [refOf("default"), refOf("default", "web")];
  // web is to have as many replicas as api asks for, as far as the circuit knows.
  const scalers = (replicas: number) => [
    {
      auto_scale: {
        pod_scaler: {
          in_ports: { replicas: constant(replicas) },
          out_ports: { configured_replicas: signal("C") },
          kubernetes_object_selector: selector(api),
        },
      },
    },
    podScaler(web, signal("C")),
  ];
  const { folder, write } = policies(t, ...scalers(3));
  const account = environment(t, plane.client, "default");
  const own = startSluice(t, "controller", endpoints, ["--policies", folder], SCALING, account);
  await listening(own);
  await plane.client.wait(web, "both have three", replicasIs(3));
  const decided = async () => {
    const reply = await fetch(`http://${own.address()}/v1/decisions/pod_scaler`);
    return [...(await reply.text()).matchAll(/desiredReplicas\W+(\d+)/g)].map(([, n]) => n).sort();
  };
  await plane.kill();
  const degraded = () => metric(own, 'sluice_dependency_degraded{dependency="auto_scale"}');
  await until("it is noticed", async () => (await degraded()) === "1", PATIENCE_MS);
  await until(
    "the policy says so",
    async () => (await warned(own, "not_scaled")) === "2",
    PATIENCE_MS,
  );
  write(...scalers(4));
  // The new version of the policy hears of the replicas that were known last.
  await until("it decides", async () => `${await decided()}` === "3,4", PATIENCE_MS);
  await plane.restart();
  await plane.client.wait(web, "both have four", replicasIs(4));
  await until("it is over", async () => (await degraded()) === "0", PATIENCE_MS);
  await until("nothing is missed", async () => !(await warned(own, "not_scaled")), PATIENCE_MS);
});

test("the controller that leads next carries out the decision that is in force", async (t) => {
  const namespace = await namespaceOf(t, client);
  const { endpoints } = await startEtcd(t);
  await client.apply([deployment("api", 1)], namespace);
  const ref = refOf(namespace);
  const { folder } = policies(t, podScaler(ref, constant(4)));
  const account = await accountWith(t, namespace);
  const start = () =>
    startSluice(t, "controller", endpoints, ["--policies", folder], SCALING, account);
  const first = start();
  await leads(first);
  const second = start();
  await standsBy(second);
  await client.wait(ref, "four are configured", replicasIs(4));
  first.kill("SIGKILL");
  await first.ended;
  await client.merge(ref, { spec: { replicas: 2 } });
  await leads(second);
  await client.wait(ref, "four are configured again", replicasIs(4));
  await second.until("it says so", () => /set the number of replicas/.test(second.printed()));
});

test("the chart gives controllers rights", () => {
  assert.ok(RIGHTS.length > 0);
});

/** Without events nothing else is missing, and a custom resource needs the same as a Deployment. */
const NOT_NEEDED = ["scaling.example.com", "events.k8s.io"];

for (const rule of RIGHTS.filter(({ apiGroups }) => !NOT_NEEDED.includes(apiGroups[0] ?? ""))) {
  for (const verb of rule.verbs) {
    test(`without the right to ${verb} ${rule.resources[0]} it says so`, async (t) => {
      const namespace = await namespaceOf(t, client);
      const { endpoints } = await startEtcd(t);
      const fewer = RIGHTS.map((each) =>
        each === rule ? { ...each, verbs: each.verbs.filter((other) => other !== verb) } : each,
      ).filter(({ verbs }) => verbs.length > 0);
      await client.apply([deployment("api", 1)], namespace);
      const { folder } = policies(t, podScaler(refOf(namespace), constant(3)));
      const account = await accountWith(t, namespace, fewer);
      const own = startSluice(t, "controller", endpoints, ["--policies", folder], SCALING, account);
      const said = new RegExp(
        `status 403: .*cannot ${verb} resource.*${rule.resources[0]?.split("/")[0]}`,
      );
      await own.until("it names what it may not do", () => said.test(own.printed()));
    });
  }
}
