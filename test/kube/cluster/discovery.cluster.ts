// Service discovery against a real API server, under exactly the rights that the charts give: an agent of a DaemonSet knows
// the pods of a Deployment and the address of their Service; sidecars, which have no right, know them through a controller.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import type { Ending } from "../../kit/ending.ts";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { folderOf } from "../../kit/folder.ts";
import { kubeconfigOf, namespaceOf, sharedCluster } from "../../kit/kube/control-plane.ts";
import { checked } from "../../kit/kube/fake-cluster.ts";
import type { Rendered } from "../../kit/kube/helm.ts";
import { agent, controller, only, treeOf } from "../../kit/kube/rendering.ts";
import { leads, listening, startSluice } from "../../kit/servers/sluice.ts";
import { until } from "../../kit/until.ts";

const { client } = await sharedCluster({ after });

const rightsIn = (objects: readonly Rendered[]): readonly object[] =>
  only(objects, "ClusterRole")["rules"];
const DAEMON_SET = rightsIn(await agent({ installationMode: "KUBERNETES_DAEMONSET" }));
const CONTROLLER = rightsIn(
  await controller(treeOf("injector.enabled", false), {
    controller: { config: { service_discovery: { kubernetes: { enabled: true } } } },
  }),
);

const application = (name: string, replicas: number) => `
apiVersion: apps/v1
kind: Deployment
metadata: { name: ${name} }
spec:
  replicas: ${replicas}
  selector: { matchLabels: { app: ${name} } }
  template:
    metadata: { labels: { app: ${name} } }
    spec: { containers: [{ name: web, image: none }] }
---
apiVersion: v1
kind: Service
metadata: { name: ${name} }
spec: { selector: { app: ${name} }, ports: [{ port: 80 }] }
`;

/** The addresses of the pods of an application, once they are ready. */
async function podsOf(namespace: string, name: string, replicas: number) {
  const deployment = { apiVersion: "apps/v1", kind: "Deployment", name, namespace };
  await client.wait(
    deployment,
    "pods are ready",
    ({ status }) => status?.readyReplicas === replicas,
  );
  return addressesOf(namespace, name);
}

async function addressesOf(namespace: string, name: string) {
  const pods = await client.list({ apiVersion: "v1", kind: "Pod", namespace }, `app=${name}`);
  return pods
    .filter(({ metadata }) => !("deletionTimestamp" in metadata))
    .map(({ status }) => String(status.podIP));
}

/** A service account with these rules for the whole cluster, as the environment of a process in a pod. */
async function accountWith(t: Ending, namespace: string, rules: readonly object[]) {
  const rbac = "rbac.authorization.k8s.io";
  const name = `discovery-${namespace}`;
  const role = { apiVersion: `${rbac}/v1`, kind: "ClusterRole" };
  const binding = { apiVersion: `${rbac}/v1`, kind: "ClusterRoleBinding" };
  await client.apply(
    [{ apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "agent" } }],
    namespace,
  );
  await client.apply([
    { ...role, metadata: { name }, rules },
    {
      ...binding,
      metadata: { name },
      roleRef: { apiGroup: rbac, kind: "ClusterRole", name },
      subjects: [{ kind: "ServiceAccount", name: "agent", namespace }],
    },
  ]);
  t.after(() => client.delete({ ...binding, name }));
  t.after(() => client.delete({ ...role, name }));
  const file = join(folderOf(t), "kubeconfig");
  const token = await client.tokenOf(namespace, "agent");
  writeFileSync(file, kubeconfigOf(client.as(token)));
  return { KUBECONFIG: file, KUBERNETES_SERVICE_HOST: "10.96.0.1" };
}

async function agentWith(t: Ending, namespace: string, rules: readonly object[]) {
  const { endpoints } = await startEtcd(t);
  const account = await accountWith(t, namespace, rules);
  const started = startSluice(t, "agent", endpoints, [], {}, account);
  await listening(started);
  return started;
}

/** Names of the services at the address of a request, as a check says them. */
async function servicesAt(address: string, destination: string): Promise<string> {
  return (await checked(address, "192.0.2.1", destination)).destination ?? "";
}

test("an agent with the right to list and watch knows pods and Services, and follows them", async (t) => {
  const namespace = await namespaceOf(t, client);
  await client.apply(application("web", 2), namespace);
  const before = await podsOf(namespace, "web", 2);
  const deployment = { apiVersion: "apps/v1", kind: "Deployment", name: "web", namespace };
  const service = { apiVersion: "v1", kind: "Service", name: "web", namespace };
  const { spec } = (await client.get(service)) as unknown as { spec: { clusterIP: string } };
  const addresses = () => addressesOf(namespace, "web");
  const own = await agentWith(t, namespace, DAEMON_SET);
  // The domain is that of the machine's resolver, which is not always a cluster's.
  const isWeb = async (address: string) =>
    (await servicesAt(own.address(), address)).startsWith(`web.${namespace}.svc.`);
  assert.equal(before.length, 2);
  for (const address of [...before, spec.clusterIP])
    await until(`${address} is known`, () => isWeb(address));
  const reply = await fetch(
    `http://${own.address()}/v1/discovery/entities/ip-address/${before[0]}`,
  );
  const entity = (await reply.json()) as Record<string, string>;
  assert.equal(entity["namespace"], namespace);
  assert.match(entity["name"] ?? "", /^web-/);
  assert.match(entity["node_name"] ?? "", /^kwok-/);

  await client.merge(deployment, { spec: { replicas: 1 } });
  await until("one pod is left", async () => (await addresses()).length === 1);
  const [left = ""] = await addresses();
  const gone = before.find((address) => address !== left) ?? "";
  await until("the other is forgotten", async () => !(await isWeb(gone)));
  assert.ok(await isWeb(left));

  await client.delete(service);
  for (const address of [left, spec.clusterIP])
    await until(`${address} is forgotten`, async () => !(await isWeb(address)));
});

test("an agent without one of the rights says which it lacks", async (t) => {
  const namespace = await namespaceOf(t, client);
  assert.equal(DAEMON_SET.length, 2);
  const without = await agentWith(t, namespace, DAEMON_SET.slice(0, 1));
  await without.until("it says so", () => /services is forbidden/.test(without.printed()));
  assert.equal(await servicesAt(without.address(), "10.0.0.1"), "UNKNOWN");
});

const policyFor = (service: string) => `circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ingress, service: ${service} }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 0 } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 60s }
`;

const DISCOVERS = {
  SERVICE_DISCOVERY_KUBERNETES_ENABLED: "true",
  SERVER_ADMINISTRATION_INSECURE: "true",
};

test("a sidecar without any right knows services through a controller with the rights of its chart", async (t) => {
  const namespace = await namespaceOf(t, client);
  await client.apply(application("web", 1), namespace);
  await client.apply(application("caller", 1), namespace);
  const [web = ""] = await podsOf(namespace, "web", 1);
  const [caller = ""] = await podsOf(namespace, "caller", 1);
  const { endpoints } = await startEtcd(t);
  const account = await accountWith(t, namespace, CONTROLLER);
  const folder = folderOf(t);
  const flags = ["--policies", folder];
  const controlling = startSluice(t, "controller", endpoints, flags, DISCOVERS, account);
  await leads(controlling);
  const sidecar = startSluice(
    t,
    "agent",
    endpoints,
    [],
    { SERVICE_DISCOVERY_KUBERNETES_SOURCE: "controller", COUNTERS_ENGINE: "local" },
    { POD_IP: web, POD_IPS: web },
  );
  await listening(sidecar);
  const check = () => checked(sidecar.address(), caller, web);
  await until("both ends are known", async () => {
    const { source = "", destination = "" } = await check();
    return (
      source.startsWith(`caller.${namespace}.svc.`) &&
      destination.startsWith(`web.${namespace}.svc.`)
    );
  });
  const { services, decision, destination = "" } = await check();
  assert.deepEqual([services, decision], [[destination], "DECISION_TYPE_ACCEPTED"]);
  writeFileSync(join(folder, "web.yaml"), policyFor(destination));
  await until("the policy of its service applies", async () => {
    return (await check()).decision === "DECISION_TYPE_REJECTED";
  });
  const other = await checked(sidecar.address(), web, caller);
  assert.equal(other.decision, "DECISION_TYPE_ACCEPTED", "and to no other service");
  const all = await fetch(`http://${controlling.address()}/v1/discovery/entities`);
  const { entities_by_ip_address: known } = (await all.json()) as Record<
    string,
    { entities: Record<string, { namespace: string; name: string }> }
  >;
  assert.equal(known?.entities[web]?.namespace, namespace);
  assert.match(known?.entities[caller]?.name ?? "", /^caller-/);

  // Another Service selects the pod, too; then none does.
  const shop = { selector: { app: "web" }, ports: [{ port: 80 }] };
  const service = { apiVersion: "v1", kind: "Service" };
  await client.apply([{ ...service, metadata: { name: "shop" }, spec: shop }], namespace);
  await until("it belongs to both", async () => (await check()).services.length === 2);
  await client.delete({ ...service, namespace, name: "shop" });
  await client.delete({ ...service, namespace, name: "web" });
  await until("it belongs to none", async () => (await check()).destination === "UNKNOWN");
  assert.equal((await check()).decision, "DECISION_TYPE_ACCEPTED");
});

test("a controller without one of the rights says which it lacks, and runs its policies", async (t) => {
  const namespace = await namespaceOf(t, client);
  assert.deepEqual(CONTROLLER, DAEMON_SET);
  const { endpoints } = await startEtcd(t);
  const account = await accountWith(t, namespace, CONTROLLER.slice(1));
  const flags = ["--policies", folderOf(t)];
  const without = startSluice(t, "controller", endpoints, flags, DISCOVERS, account);
  await leads(without);
  await without.until("it says so", () => /endpointslices.* is forbidden/.test(without.printed()));
});
