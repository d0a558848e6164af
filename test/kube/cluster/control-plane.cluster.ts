// The control plane of the tests works: what the tests of Sluice rely on is there.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { namespaceOf, sharedCluster } from "../../kit/kube/control-plane.ts";
import { until } from "../../kit/until.ts";

const { client } = await sharedCluster({ after });

test("a Deployment becomes running pods with addresses, behind a Service", async (t) => {
  const namespace = await namespaceOf(t, client);
  await client.apply(
    `
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
`,
    namespace,
  );
  const deployment = { apiVersion: "apps/v1", kind: "Deployment", name: "web", namespace };
  await client.wait(deployment, "pods are ready", ({ status }) => status?.readyReplicas === 2);
  const pods = await client.list({ apiVersion: "v1", kind: "Pod", namespace }, "app=web");
  assert.equal(new Set(pods.map(({ status }) => status.podIP)).size, 2);
  const slices = { apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", namespace };
  await until("both are endpoints of the Service", async () => {
    const [slice] = await client.list(slices, "kubernetes.io/service-name=web");
    return slice?.["endpoints"]?.length === 2;
  });
});

test("a service account has only the rights that it was given", async (t) => {
  const namespace = await namespaceOf(t, client);
  await client.apply(
    `
apiVersion: v1
kind: ServiceAccount
metadata: { name: reader }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: reader }
rules: [{ apiGroups: [""], resources: [configmaps], verbs: [list] }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: reader }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader }
subjects: [{ kind: ServiceAccount, name: reader, namespace: ${namespace} }]
`,
    namespace,
  );
  const reader = client.as(await client.tokenOf(namespace, "reader"));
  const statusOf = async (kind: string) => {
    const path = `/api/v1/namespaces/${namespace}/${kind}`;
    return (await reader.call("GET", path)).status;
  };
  assert.equal(await statusOf("secrets"), 403);
  assert.equal(await statusOf("configmaps"), 200);
});

test("what is refused is an error with the server's reason", async (t) => {
  const namespace = await namespaceOf(t, client);
  const bad = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "Bad_Name" } };
  await assert.rejects(client.apply([bad], namespace), /422 .*Bad_Name.*RFC 1123/);
});
