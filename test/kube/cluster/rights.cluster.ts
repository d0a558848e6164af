// The rights that the charts give to each process, in a real cluster. The control plane is this file's own, because the
// charts' objects of the whole cluster have fixed names.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { nothingLeft } from "../../kit/kube/charts/leftovers.ts";
import { Releases, restrictedNamespace } from "../../kit/kube/charts/releases.ts";
import type { KubeClient } from "../../kit/kube/client.ts";
import { startControlPlane } from "../../kit/kube/control-plane.ts";
import { define } from "../../kit/kube/definitions.ts";

const plane = await startControlPlane({ after });
const { client } = plane;
const releases = new Releases(plane);
await define(client, new Set(["gateway.networking.k8s.io/ReferenceGrant"]));

/** True if an account may do something. */
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
  const namespace = await restrictedNamespace(t, client);
  const team = await restrictedNamespace(t, client);
  const etcd = { etcd: { endpoints: ["http://etcd:2379"], username: "sluice" } };
  const controllers = { chart: "sluice-controller", namespace, name: "sluice-controller" } as const;
  const agents = { chart: "sluice-agent", namespace, name: "sluice-agent" } as const;
  const secrets = { etcd: { password: { name: "etcd-users", key: "agent" } } };
  await releases.run("install", agents, { agent: { config: etcd, secrets } });
  await releases.run("install", controllers, {
    controller: { config: etcd, secrets },
    policies: { crWatcher: { enabled: true }, namespaces: [team], namespaceQuota: 1 },
    autoScale: { enabled: true },
    gatewayApi: { enabled: true },
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
  assert.ok(await allowed("watch", "resourcequotas"));
  assert.ok(await allowed("watch", "limitranges"));
  assert.ok(await allowed("create", "events", { namespace: "default" }));
  assert.ok(await allowed("patch", "mutatingwebhookconfigurations", { group, name: own }));
  assert.ok(await allowed("patch", "secrets", { namespace, name: "sluice-injector-tls" }));
  assert.ok(await allowed("watch", "configmaps", { namespace, name: "sluice-sidecars" }));
  assert.ok(!(await allowed("watch", "configmaps", { namespace, name: "other" })));
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
  assert.ok(!(await may(controller, "watch", "policies", policies)), "only what is listed");
  assert.ok(!(await may(controller, "watch", "policies", { ...policies, namespace: "default" })));
  for (const each of [namespace, team]) {
    const there = { ...policies, namespace: each };
    assert.ok(await may(controller, "list", "policies", there));
    assert.ok(await may(controller, "patch", "policies/status", there));
    assert.ok(!(await may(controller, "update", "policies", there)));
    assert.ok(
      await may(controller, "create", "events", { group: "events.k8s.io", namespace: each }),
    );
  }
  const quota = { apiVersion: "v1", kind: "ResourceQuota", namespace: team };
  const found = await client.get({ ...quota, name: "sluice-controller-policies" });
  assert.deepEqual(found?.["spec"], { hard: { "count/policies.fluxninja.com": "1" } });
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
  // It attaches policies to gateways.
  const envoyGateway = { group: "gateway.envoyproxy.io" };
  const securityPolicies = "securitypolicies";
  assert.ok(await may(controller, "patch", securityPolicies, { ...envoyGateway, namespace }));
  assert.ok(
    !(await may(controller, "list", securityPolicies, envoyGateway)),
    "only its own namespace",
  );
  const gatewayApi = { group: "gateway.networking.k8s.io" };
  assert.ok(await may(controller, "watch", "gatewayclasses", gatewayApi));
  assert.ok(await may(controller, "watch", "gateways", { ...gatewayApi, namespace }));
  assert.ok(!(await may(controller, "update", "gateways", { ...gatewayApi, namespace })));
  // It discovers services for sidecars.
  const slices = { group: "discovery.k8s.io" };
  assert.ok(await may(controller, "watch", "services"));
  assert.ok(await may(controller, "watch", "endpointslices", slices));
  assert.ok(!(await may(controller, "update", "endpointslices", slices)));
  await releases.uninstall(controllers);
  await releases.uninstall(agents);
  await nothingLeft(client, namespace);
  await nothingLeft(client, team);
});
