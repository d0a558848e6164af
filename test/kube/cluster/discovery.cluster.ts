// Service discovery against a real API server: an agent that may list and watch EndpointSlices and Services, and nothing
// else, knows the pods of a Deployment and the address of their Service.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import type { Ending } from "../../kit/ending.ts";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { folderOf } from "../../kit/folder.ts";
import { kubeconfigOf, namespaceOf, sharedCluster } from "../../kit/kube/control-plane.ts";
import { listening, startSluice } from "../../kit/servers/sluice.ts";
import { until } from "../../kit/until.ts";

const { client } = await sharedCluster({ after });

const RIGHTS = [
  { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list", "watch"] },
  { apiGroups: [""], resources: ["services"], verbs: ["list", "watch"] },
];
const APPLICATION = `
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: web, image: none }] }
---
apiVersion: v1
kind: Service
metadata: { name: web }
spec: { selector: { app: web }, ports: [{ port: 80 }] }
`;

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
  const agent = startSluice(t, "agent", endpoints, [], {}, account);
  await listening(agent);
  return agent;
}

/** The services of a request to this address, as an agent's check names them. */
async function servicesAt(agent: string, address: string): Promise<string> {
  const reply = await fetch(`http://${agent}/v1/flowcontrol/checkhttp`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      control_point: "ingress",
      source: { address: "192.0.2.1" },
      destination: { address },
    }),
  });
  const { check_response: answer } = (await reply.json()) as {
    check_response: { telemetry_flow_labels: Record<string, string> };
  };
  return answer.telemetry_flow_labels["aperture.destination_fqdns"] ?? "";
}

test("an agent with the right to list and watch knows pods and Services, and follows them", async (t) => {
  const namespace = await namespaceOf(t, client);
  await client.apply(APPLICATION, namespace);
  const deployment = { apiVersion: "apps/v1", kind: "Deployment", name: "web", namespace };
  await client.wait(deployment, "pods are ready", ({ status }) => status?.readyReplicas === 2);
  const service = { apiVersion: "v1", kind: "Service", name: "web", namespace };
  const { spec } = (await client.get(service)) as unknown as { spec: { clusterIP: string } };
  const addresses = async () => {
    const pods = await client.list({ apiVersion: "v1", kind: "Pod", namespace }, "app=web");
    return pods
      .filter(({ metadata }) => !("deletionTimestamp" in metadata))
      .map(({ status }) => String(status.podIP));
  };
  const agent = await agentWith(t, namespace, RIGHTS);
  // The domain is that of the machine's resolver, which is not always a cluster's.
  const isWeb = async (address: string) =>
    (await servicesAt(agent.address(), address)).startsWith(`web.${namespace}.svc.`);
  const before = await addresses();
  assert.equal(before.length, 2);
  for (const address of [...before, spec.clusterIP])
    await until(`${address} is known`, () => isWeb(address));
  const reply = await fetch(
    `http://${agent.address()}/v1/discovery/entities/ip-address/${before[0]}`,
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
  const agent = await agentWith(t, namespace, RIGHTS.slice(0, 1));
  await agent.until("it says so", () => /services is forbidden/.test(agent.printed()));
  assert.equal(await servicesAt(agent.address(), "10.0.0.1"), "UNKNOWN");
});
