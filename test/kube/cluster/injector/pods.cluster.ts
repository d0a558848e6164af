// What becomes of pods when a real API server calls the webhook.

import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../../../kit/until.ts";
import { client, create, hasAgent, install, PATIENCE_MS, POD_KIND, pod } from "./install.ts";

test("the pods of a Deployment come out injected, and run", async (t) => {
  const { start, labelled } = await install(t);
  await (await start()).serve();
  const namespace = await labelled();
  const template = {
    metadata: { labels: { app: "web" }, annotations: { "sluice/envoy-inject": "true" } },
    spec: { containers: [{ name: "app", image: "none", ports: [{ containerPort: 9_000 }] }] },
  };
  const deployment = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web" },
    spec: { replicas: 2, selector: { matchLabels: { app: "web" } }, template },
  };
  await client.apply([deployment], namespace);
  const ref = { apiVersion: "apps/v1", kind: "Deployment", name: "web", namespace };
  const made = await client.wait(
    ref,
    "pods are ready",
    ({ status }) => status?.readyReplicas === 2,
  );
  assert.equal(made["spec"].template.spec.initContainers, undefined, "the template is as it was");
  for (const each of await client.list({ ...POD_KIND, namespace })) {
    assert.ok(hasAgent(each));
    const { initContainers, containers } = each["spec"];
    assert.deepEqual(
      initContainers.map(({ name }: { name: string }) => name),
      ["sluice-agent", "sluice-envoy"],
    );
    assert.deepEqual(containers[0].lifecycle, { preStop: { sleep: { seconds: 5 } } });
    // The account's token is mounted for the application only.
    const account = "/var/run/secrets/kubernetes.io/serviceaccount";
    const mountOf = (of: { volumeMounts: { mountPath: string; name: string }[] }) =>
      of.volumeMounts.find(({ mountPath }) => mountPath === account)?.name;
    assert.match(mountOf(containers[0]) ?? "", /^kube-api-access/);
    for (const sidecar of initContainers) assert.equal(mountOf(sidecar), "sluice-no-account");
  }
});

/** Pods of many kinds, each as what differs from a plain one. */
const PODS: Readonly<Record<string, object>> = {
  "a plain one": {},
  "two containers": {
    containers: [
      { name: "app", image: "none" },
      { name: "log", image: "none" },
    ],
  },
  "an init container": { initContainers: [{ name: "migrate", image: "none" }] },
  "a native sidecar": {
    initContainers: [{ name: "proxy", image: "none", restartPolicy: "Always" }],
  },
  "named ports": {
    containers: [{ name: "app", image: "none", ports: [{ name: "http", containerPort: 8_080 }] }],
  },
  "a port of UDP": {
    containers: [
      { name: "app", image: "none", ports: [{ containerPort: 8_080, protocol: "UDP" }] },
    ],
  },
  "probes of each kind": {
    containers: [
      {
        name: "app",
        image: "none",
        startupProbe: { exec: { command: ["true"] } },
        livenessProbe: { tcpSocket: { port: 9_000 } },
        readinessProbe: { httpGet: { path: "/ready", port: 9_000 } },
      },
    ],
  },
  "a probe of gRPC": {
    containers: [{ name: "app", image: "none", livenessProbe: { grpc: { port: 9_000 } } }],
  },
  hooks: {
    containers: [
      {
        name: "app",
        image: "none",
        lifecycle: {
          postStart: { httpGet: { path: "/up", port: 9_000 } },
          preStop: { exec: { command: ["true"] } },
        },
      },
    ],
  },
  "a restart policy of a Job": { restartPolicy: "Never" },
  "a deadline": { restartPolicy: "OnFailure", activeDeadlineSeconds: 60 },
  "no token of its account": { automountServiceAccountToken: false },
  "one process namespace": { shareProcessNamespace: true },
  "a user for all containers": { securityContext: { runAsUser: 1_000, fsGroup: 1_000 } },
  "a user of its own kernel range": { hostUsers: false },
  "volumes of each kind": {
    volumes: [
      { name: "empty", emptyDir: { medium: "Memory" } },
      { name: "facts", downwardAPI: { items: [] } },
      { name: "all", projected: { sources: [{ configMap: { name: "none", optional: true } }] } },
    ],
  },
  "host aliases and DNS": {
    hostAliases: [{ ip: "10.0.0.1", hostnames: ["db"] }],
    dnsPolicy: "None",
    dnsConfig: { nameservers: ["10.96.0.10"] },
  },
  "a name in a subdomain": { hostname: "web", subdomain: "shop" },
  "a place": {
    nodeSelector: { disk: "fast" },
    tolerations: [{ operator: "Exists" }],
    topologySpreadConstraints: [
      { maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "ScheduleAnyway" },
    ],
  },
  "a pull secret": { imagePullSecrets: [{ name: "own" }] },
  "a long grace": { terminationGracePeriodSeconds: 600 },
  "gates of readiness and scheduling": {
    readinessGates: [{ conditionType: "example.com/ready" }],
    schedulingGates: [{ name: "example.com/quota" }],
  },
  "the system it runs on": { os: { name: "linux" } },
};

test("pods of every kind are taken with an agent and an Envoy, and those of the node's network as they are", async (t) => {
  const { start, labelled } = await install(t);
  await (await start()).serve();
  const namespace = await labelled();
  const annotations = { "sluice/envoy-inject": "true", "sluice/application-port": "9000" };
  for (const [kind, spec] of Object.entries(PODS)) {
    const plain = pod("kind", annotations);
    const object = { ...plain, spec: { ...plain.spec, ...spec } };
    const { status, body } = await create(namespace, object, "?dryRun=All");
    assert.equal(status, 201, `${kind}: ${body.message}`);
    assert.ok(hasAgent(body), kind);
    const names = body.spec.initContainers.map(({ name }: { name: string }) => name);
    assert.ok(names.includes("sluice-envoy"), kind);
  }
  const onNode = { ...pod("node"), spec: { ...pod("node").spec, hostNetwork: true } };
  const { status, body } = await create(namespace, onNode, "?dryRun=All");
  assert.equal(status, 201, body.message);
  assert.ok(!hasAgent(body));
});

test("a pod satisfies the restricted standard after injection where it did before", async (t) => {
  const { start, labelled } = await install(t);
  await (await start()).serve();
  const namespace = await labelled({
    "sluice-injection": "enabled",
    "pod-security.kubernetes.io/enforce": "restricted",
  });
  const object = pod("restricted", { "sluice/envoy-inject": "true" });
  const [app] = object.spec.containers;
  const securityContext = {
    runAsNonRoot: true,
    allowPrivilegeEscalation: false,
    capabilities: { drop: ["ALL"] },
    seccompProfile: { type: "RuntimeDefault" },
  };
  const spec = { containers: [{ ...app, securityContext }] };
  const { status, body } = await create(namespace, { ...object, spec });
  assert.equal(status, 201, body.message);
  assert.ok(hasAgent(body));
});

test("a dry run shows what would be, and warnings reach who creates a pod", async (t) => {
  const { start, labelled } = await install(t);
  await (await start()).serve();
  const namespace = await labelled();
  const dry = await create(namespace, pod("dry", { "sluice/envoy-inject": "true" }), "?dryRun=All");
  assert.ok(hasAgent(dry.body));
  assert.match(dry.warnings.join(), /sluice: port 9000 of container app bypasses Envoy/);
  assert.equal(await client.get({ ...POD_KIND, name: "dry", namespace }), undefined);
  const refused = await create(namespace, pod("refused", { "sluice/port": "9000" }));
  assert.equal(refused.status, 422, JSON.stringify(refused.body));
  assert.match(refused.body.message, /denied the request.*port 9000: the agent and container app/);
});

test("the label of the reference implementation counts; a namespace that loses its label is left alone", async (t) => {
  const { start, labelled } = await install(t);
  await (await start()).serve();
  const reference = await labelled({ "aperture-injection": "enabled" });
  assert.ok(hasAgent((await create(reference, pod("one"))).body));
  const off = await labelled({ "aperture-injection": "enabled", "sluice-injection": "disabled" });
  assert.ok(!hasAgent((await create(off, pod("one"))).body));
  const namespace = await labelled();
  assert.ok(hasAgent((await create(namespace, pod("one"))).body));
  await client.merge(
    { apiVersion: "v1", kind: "Namespace", name: namespace },
    { metadata: { labels: { "sluice-injection": null } } },
  );
  assert.ok(!hasAgent((await create(namespace, pod("two"))).body));
});

test("a pod asks for itself by a label, where its namespace has no label of injection", async (t) => {
  const { start, labelled } = await install(t);
  await (await start()).serve();
  const asks = (name: string) => {
    const object = pod(name);
    return { ...object, metadata: { ...object.metadata, labels: { "sluice/inject": "true" } } };
  };
  const plain = await labelled({ team: "shop" });
  const { body, warnings } = await create(plain, asks("one"));
  assert.ok(hasAgent(body));
  assert.match(warnings.join(), /nobody copies Secrets to namespace/);
  assert.ok(!hasAgent((await create(plain, pod("two"))).body));
  const off = await labelled({ "sluice-injection": "disabled" });
  assert.ok(!hasAgent((await create(off, asks("one"))).body));
});

test("an agent group of the namespace is in force at once", async (t) => {
  const { start, labelled } = await install(t);
  await (await start()).serve();
  const namespace = await labelled();
  const ref = { apiVersion: "v1", kind: "Namespace", name: namespace };
  await client.merge(ref, { metadata: { annotations: { "sluice/agent-group": "checkout" } } });
  await until(
    "it has been heard of",
    async () =>
      /"checkout"/.test(JSON.stringify((await create(namespace, pod("x"), "?dryRun=All")).body)),
    PATIENCE_MS,
  );
});
