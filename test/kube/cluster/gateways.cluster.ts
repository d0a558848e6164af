// Policies that are attached to gateways and routes, against a real API server with the definitions of the Gateway API, Envoy
// Gateway and Istio: a controller that has only the rights of its chart. No control plane runs; the test says what they would.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { parse } from "yaml";
import type { Ending } from "../../kit/ending.ts";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { folderOf } from "../../kit/folder.ts";
import type { KubeObject, Ref } from "../../kit/kube/client.ts";
import { kubeconfigOf, namespaceOf, sharedCluster } from "../../kit/kube/control-plane.ts";
import { define } from "../../kit/kube/definitions.ts";
import { controller as chart } from "../../kit/kube/rendering.ts";
import { listening, startSluice } from "../../kit/servers/sluice.ts";

const ROOT = join(import.meta.dirname, "../../..");
const GUIDE = readFileSync(join(ROOT, "docs/kubernetes.md"), "utf8");
const GROUP = "gateway.networking.k8s.io";
const RBAC = "rbac.authorization.k8s.io";
const POLICY = { apiVersion: "fluxninja.com/v1alpha1", kind: "Policy" };
const SECURITY_POLICY = { apiVersion: "gateway.envoyproxy.io/v1alpha1", kind: "SecurityPolicy" };
const ENVOY_FILTER = { apiVersion: "networking.istio.io/v1alpha3", kind: "EnvoyFilter" };
const ENVOY_GATEWAY = "gateway.envoyproxy.io/gatewayclass-controller";
const CONTROLLERS = {
  envoy: ENVOY_GATEWAY,
  istio: "istio.io/gateway-controller",
  other: "example.com/gateways",
};
const ATTACHES = {
  POLICIES_CR_WATCHER_ENABLED: "true",
  GATEWAY_API_ENABLED: "true",
  GATEWAY_API_AGENTS: "sluice-agent.sluice.svc.cluster.local:8080",
};

const { client } = await sharedCluster({ after });
const crds = join(
  ROOT,
  "deploy/charts/sluice/charts/sluice-controller/crds/policies.fluxninja.com.yaml",
);
await client.apply(readFileSync(crds, "utf8"));
await define(
  client,
  new Set([
    `${GROUP}/GatewayClass`,
    `${GROUP}/Gateway`,
    `${GROUP}/HTTPRoute`,
    "gateway.envoyproxy.io/SecurityPolicy",
    "networking.istio.io/EnvoyFilter",
  ]),
);

const rendered = await chart({
  policies: { crWatcher: { enabled: true } },
  gatewayApi: { enabled: true },
  injector: { enabled: false },
});
const rulesOf = (kind: string, wanted = /./): readonly object[] =>
  rendered.flatMap((each) =>
    each.kind === kind && wanted.test(each.metadata.name) ? each["rules"] : [],
  );

/** The environment of a controller with these rules in its namespace, and those of the chart in the cluster. */
async function accountWith(t: Ending, namespace: string, rules: readonly object[]) {
  const name = "controller";
  const cluster = `gateways-${namespace}`;
  const subjects = [{ kind: "ServiceAccount", name, namespace }];
  const of = (kind: string, metadata: object, more: object) => ({
    apiVersion: `${RBAC}/v1`,
    kind,
    metadata,
    ...more,
  });
  await client.apply(
    [
      { apiVersion: "v1", kind: "ServiceAccount", metadata: { name } },
      of("Role", { name }, { rules }),
      of("RoleBinding", { name }, { roleRef: { apiGroup: RBAC, kind: "Role", name }, subjects }),
      of("ClusterRole", { name: cluster }, { rules: rulesOf("ClusterRole") }),
      of(
        "ClusterRoleBinding",
        { name: cluster },
        { roleRef: { apiGroup: RBAC, kind: "ClusterRole", name: cluster }, subjects },
      ),
    ],
    namespace,
  );
  t.after(async () => {
    for (const kind of ["ClusterRoleBinding", "ClusterRole"])
      await client.delete({ apiVersion: `${RBAC}/v1`, kind, name: cluster });
  });
  const config = JSON.parse(kubeconfigOf(client.as(await client.tokenOf(namespace, name))));
  config.contexts[0].context.namespace = namespace;
  const file = join(folderOf(t), "kubeconfig");
  writeFileSync(file, JSON.stringify(config));
  return { KUBECONFIG: file };
}

/** A Gateway of each class, called like it, and a route of the first. */
async function gateways(t: Ending, namespace: string): Promise<void> {
  const listeners = [{ name: "http", protocol: "HTTP", port: 80 }];
  for (const [name, controllerName] of Object.entries(CONTROLLERS)) {
    const gatewayClassName = `${name}-${namespace}`;
    const made = { apiVersion: `${GROUP}/v1`, kind: "GatewayClass" };
    await client.apply([
      { ...made, metadata: { name: gatewayClassName }, spec: { controllerName } },
    ]);
    t.after(() => client.delete({ ...made, name: gatewayClassName }));
    const gateway = { apiVersion: `${GROUP}/v1`, kind: "Gateway", metadata: { name } };
    await client.apply([{ ...gateway, spec: { gatewayClassName, listeners } }], namespace);
  }
  const route = { apiVersion: `${GROUP}/v1`, kind: "HTTPRoute" };
  const spec = { parentRefs: [{ name: "envoy" }] };
  await client.apply([{ ...route, metadata: { name: "checkout" }, spec }], namespace);
  const now = new Date().toISOString();
  const condition = { type: "Accepted", status: "True", reason: "Accepted", message: "" };
  const conditions = [{ ...condition, lastTransitionTime: now }];
  const parents = [{ parentRef: { name: "envoy" }, controllerName: ENVOY_GATEWAY, conditions }];
  const ref = { ...route, name: "checkout", namespace };
  await client.merge(ref, { status: { parents } }, "status");
}

/** What Envoy Gateway would say of a SecurityPolicy. */
async function say(ref: Ref, status: "True" | "False", reason: string, message = "") {
  const object = await client.get(ref);
  assert.ok(object);
  const { generation } = object.metadata as { generation?: number };
  const condition = { type: "Accepted", status, reason, message, observedGeneration: generation };
  const conditions = [{ ...condition, lastTransitionTime: new Date().toISOString() }];
  const ancestorRef = { group: GROUP, kind: "Gateway", name: "envoy" };
  const ancestors = [{ ancestorRef, controllerName: ENVOY_GATEWAY, conditions }];
  await client.merge(ref, { status: { ancestors } }, "status");
}

const target = (kind: string, name: string, more: object = {}) => ({
  group: GROUP,
  kind,
  name,
  ...more,
});

function limit(name: string, targetRefs: readonly object[], selectors: readonly object[] = [{}]) {
  const one = { constant_signal: { value: 1 } };
  const rate_limiter = {
    selectors,
    in_ports: { bucket_capacity: one, fill_amount: one },
    parameters: { interval: "1s" },
  };
  const spec = { targetRefs, circuit: { components: [{ flow_control: { rate_limiter } }] } };
  return { ...POLICY, metadata: { name }, spec };
}

const saying = (namespace: string, name: string, wanted: RegExp) =>
  client.wait({ ...POLICY, namespace, name }, `${name} says ${wanted}`, ({ status }) =>
    wanted.test(textOf(status)),
  );

function textOf(status: KubeObject["status"]): string {
  const conditions: readonly Record<string, string>[] = status?.conditions ?? [];
  return conditions
    .map(({ type, status: now, reason, message }) => `${type} ${now} ${reason} ${message}`)
    .join("\n");
}

async function running(t: Ending, namespace: string, rules: readonly object[]) {
  const { endpoints } = await startEtcd(t);
  const account = await accountWith(t, namespace, rules);
  const controller = startSluice(t, "controller", endpoints, [], ATTACHES, account);
  await listening(controller);
  return controller;
}

test("a controller with exactly the rights of its chart attaches policies, and says what keeps it from that", async (t) => {
  const namespace = await namespaceOf(t, client);
  await gateways(t, namespace);
  const controller = await running(t, namespace, rulesOf("Role"));
  const ofGateway = { ...SECURITY_POLICY, namespace, name: "sluice-gateway-envoy" };
  const ofRoute = { ...SECURITY_POLICY, namespace, name: "sluice-httproute-checkout" };
  const filter = { ...ENVOY_FILTER, namespace, name: "sluice-gateway-istio" };
  const all = [
    target("Gateway", "envoy"),
    target("HTTPRoute", "checkout"),
    target("Gateway", "istio"),
  ];
  await client.apply([limit("p", all)], namespace);
  const written = await client.wait(ofRoute, "it is written", () => true);
  assert.equal(
    written["spec"].extAuth.contextExtensions[0].value,
    `httproute/${namespace}/checkout`,
  );
  await client.wait(filter, "it is written", ({ spec }) => {
    return spec.targetRefs[0].name === "istio" && spec.configPatches.length === 2;
  });
  await saying(namespace, "p", /Ready False NotAttached .*Envoy Gateway has not said yet/);
  await client.wait(ofGateway, "it is written", () => true);
  await say(ofGateway, "True", "Accepted");
  const grant = "backend ref to Service sluice/sluice-agent not permitted by any ReferenceGrant";
  await say(ofRoute, "False", "RefNotPermitted", grant);
  await saying(namespace, "p", /Attached False NotAttached .*RefNotPermitted: .*ReferenceGrant$/);
  await say(ofRoute, "True", "Accepted");
  await saying(namespace, "p", /Ready True Running(?:.|\n)*Attached True Attached/);

  // What somebody else has set stays, and is said.
  const path = await client.pathOf(ofRoute);
  const other = { ...SECURITY_POLICY, metadata: { name: ofRoute.name, namespace } };
  const { status } = await client.call(
    "PATCH",
    `${path}?fieldManager=people&force=true`,
    { ...other, spec: { extAuth: { failOpen: true } } },
    "application/apply-patch+yaml",
  );
  assert.equal(status, 200);
  await saying(
    namespace,
    "p",
    /Attached False NotAttached .*not written: .*conflict with "people"/,
  );
  assert.equal((await client.get(ofRoute))?.["spec"].extAuth.failOpen, true);
  // What is deleted is written again.
  await client.delete(ofRoute);
  await client.wait(ofRoute, "it is written again", ({ spec }) => !spec.extAuth.failOpen);
  await say(ofRoute, "True", "Accepted");
  await saying(namespace, "p", /Ready True Running/);

  // The example of the guide.
  const [, example = ""] = /^```yaml\n(apiVersion: .*?targetRefs.*?)^```$/ms.exec(GUIDE) ?? [];
  const guided = await client.call(
    "POST",
    `${await client.pathOf({ ...POLICY, namespace })}?fieldValidation=Strict`,
    parse(example),
  );
  assert.equal(guided.status, 201, JSON.stringify(guided.body));
  await client.wait(ofRoute, "both policies own it", ({ metadata }) => {
    const { ownerReferences } = metadata as { ownerReferences?: readonly unknown[] };
    return ownerReferences?.length === 2;
  });
  await saying(namespace, "checkout-per-user", /Ready True Running/);
  await client.delete({ ...POLICY, namespace, name: "checkout-per-user" });

  await client.apply(
    [
      limit("routes", [target("Gateway", "istio", { sectionName: "http" })]),
      limit("others", [target("Gateway", "other")]),
      limit("nowhere", [target("HTTPRoute", "missing")]),
    ],
    namespace,
  );
  await saying(namespace, "routes", /Attached False .*Istio cannot ask about .* one listener only/);
  await saying(
    namespace,
    "others",
    /Attached False .*cannot configure its controller example\.com\/gateways/,
  );
  await saying(namespace, "nowhere", /Attached False .*there is no HTTPRoute .*\/missing/);

  // An attachment goes with its reference, and with its policy even while no controller runs.
  await client.apply([limit("p", [target("Gateway", "envoy")])], namespace);
  await client.gone(ofRoute);
  await client.gone(filter);
  assert.ok(await client.get(ofGateway));
  controller.kill("SIGTERM");
  await controller.ended;
  await client.delete({ ...POLICY, namespace, name: "p" });
  await client.gone(ofGateway);
});

test("without the rights of attaching, the status has the API server's reason", async (t) => {
  const namespace = await namespaceOf(t, client);
  await gateways(t, namespace);
  await running(t, namespace, rulesOf("Role", /policies$/));
  await client.apply([limit("p", [target("Gateway", "envoy")])], namespace);
  await saying(
    namespace,
    "p",
    /Ready False NotAttached .*cannot follow objects of kind Gateway: .*forbidden/,
  );
});

test("references to other kinds are refused by the API server, and those to other namespaces by the controller", async (t) => {
  const namespace = await namespaceOf(t, client);
  const path = await client.pathOf({ ...POLICY, namespace });
  const service = limit("service", [target("Service", "web")]);
  const refused = await client.call("POST", path, service);
  assert.equal(refused.status, 422);
  assert.match(refused.body.message, /spec\.targetRefs\[0\]\.kind: Unsupported value: "Service"/);
  await running(t, namespace, rulesOf("Role"));
  await client.apply([limit("far", [target("Gateway", "edge", { namespace: "b" })])], namespace);
  await saying(
    namespace,
    "far",
    /Valid False Invalid spec\.targetRefs\[0\]\.namespace: wanted no namespace/,
  );
});
