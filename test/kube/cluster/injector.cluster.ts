// The injector against a real API server, which calls its webhook: what becomes of the pods of a Deployment, what happens
// while no injector answers, that no pod is lost while certificates are replaced, and that its rights are the least.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import { loadInjector } from "#injector/config.ts";
import { startInjectorProcess } from "#injector/process.ts";
import type { Ending } from "../../kit/ending.ts";
import { folderOf } from "../../kit/folder.ts";
import { kubeconfigOf, namespaceOf, sharedCluster } from "../../kit/kube/control-plane.ts";
import { objectsIn, type Rendered } from "../../kit/kube/helm.ts";
import { variables } from "../../kit/process.ts";
import { processContext } from "../../kit/process-context.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { realClock } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";

const { client } = await sharedCluster({ after });

const ADMISSION = "admissionregistration.k8s.io/v1";
/** Conditions wait for several programs on a busy machine. */
const PATIENCE_MS = 120_000;

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly [string];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** Name of the Secret that sidecars use. Injectors of other tests see the namespaces of all. */
const secretOf = (home: string) => `${home}-etcd`;

/**
 * The objects of sluice-controller that are about the injector, of which the Deployment is left out, and those of sluice-agent
 * that are about its Secrets.
 */
async function chartOf(home: string, name: string): Promise<readonly Rendered[]> {
  const etcd = { endpoints: ["http://etcd:2379"] };
  const prometheus = { address: "http://prometheus:9090" };
  const values = { controller: { config: { etcd, prometheus } }, injector: { name } };
  const all = await objectsIn("sluice-controller", values, ["--namespace", home]);
  const unwanted = ["Deployment", "PodDisruptionBudget"];
  const password = { name: secretOf(home), key: "password" };
  const agent = {
    installationMode: "KUBERNETES_SIDECAR",
    agent: { config: { etcd: { ...etcd, username: "agent" } }, secrets: { etcd: { password } } },
    sidecars: { injectorAccount: name },
  };
  const of = await objectsIn("sluice-agent", agent, [
    "--namespace",
    home,
    "--api-versions",
    `${ADMISSION}/ValidatingAdmissionPolicy`,
  ]);
  return [
    ...all.filter(
      ({ kind, metadata }) => metadata.name.startsWith(name) && !unwanted.includes(kind),
    ),
    ...of.filter(({ metadata }) => metadata.name.endsWith("-secrets")),
  ];
}

/** The rules of the charts. */
interface Rights {
  readonly cluster: readonly Rule[];
  readonly home: readonly Rule[];
  /** For copies of Secrets. */
  readonly secrets: readonly Rule[];
}

const PARTS = ["cluster", "home", "secrets"] as const;

/** The part that the rules of an object are. */
function partOf({ kind, metadata }: Rendered): keyof Rights | undefined {
  if (kind === "Role") return "home";
  if (kind !== "ClusterRole") return undefined;
  return metadata.name.endsWith("-secrets") ? "secrets" : "cluster";
}

function rightsIn(objects: readonly Rendered[]): Rights {
  const rulesOf = (wanted: keyof Rights): readonly Rule[] =>
    objects.find((object) => partOf(object) === wanted)?.["rules"] ?? [];
  return { cluster: rulesOf("cluster"), home: rulesOf("home"), secrets: rulesOf("secrets") };
}

/** An address of this machine that is not loopback, which endpoints may not have. */
function ownAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const found = all.find(({ family, internal }) => family === "IPv4" && !internal);
  assert.ok(found, "an address of this machine");
  return found.address;
}

/** Installs the objects of the chart in a namespace of its own, and starts injectors as processes of this machine. */
async function install(t: Ending, change: (rights: Rights) => Rights = (rights) => rights) {
  const home = await namespaceOf(t, client);
  const configuration = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
  };
  const name = `injector-${home}`;
  const objects = await chartOf(home, name);
  const rights = change(rightsIn(objects));
  // Only the namespaces of this test.
  const own = { key: "test-of", operator: "In", values: [home] };
  const changed = objects.map((object) => {
    const part = partOf(object);
    if (part !== undefined) return { ...object, rules: rights[part] };
    if (object.kind !== configuration.kind) return object;
    const webhooks = object["webhooks"].map((each: Rendered) => ({
      ...each,
      namespaceSelector: {
        matchExpressions: [...each["namespaceSelector"].matchExpressions, own],
      },
    }));
    return { ...object, webhooks };
  });
  await client.apply(changed, home);
  t.after(async () => {
    await client.delete({ ...configuration, name });
    const isEverywhere = ({ kind }: Rendered) => /^(Cluster|Validating)/.test(kind);
    for (const { apiVersion, kind, metadata } of changed.filter(isEverywhere))
      await client.delete({ apiVersion, kind, name: metadata.name });
  });
  const settings = {
    SVC_INJECTOR_SIDECAR_IMAGE: "sluice:1",
    SVC_INJECTOR_SIDECAR_SECRETS: `[etcd.password=${secretOf(home)}/password]`,
    SVC_AGENT_ETCD_USERNAME: "agent",
  };
  const original = secret(secretOf(home), "present");
  await client.apply([original], home);
  const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "sluice-sidecars" } };
  await client.apply([{ ...map, data: settings }], home);
  const account = client.as(await client.tokenOf(home, name));
  const config = JSON.parse(kubeconfigOf(account));
  config.contexts[0].context.namespace = home;
  const kubeconfig = join(folderOf(t), "kubeconfig");
  writeFileSync(kubeconfig, JSON.stringify(config));
  const running = new Map<number, string>();
  const publishEndpoints = () =>
    client.apply(
      [...Array(2).keys()].map((at) => ({
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: {
          name: `injector-${at}`,
          labels: { "kubernetes.io/service-name": name },
        },
        addressType: "IPv4",
        endpoints: running.has(at)
          ? [{ addresses: [ownAddress()], conditions: { ready: true } }]
          : [],
        ports: [{ name: "webhook", port: Number(running.get(at)?.split(":").at(-1) ?? 9) }],
      })),
      home,
    );
  /** Starts one of two replicas. */
  const start = async (at = 0, env: Readonly<Record<string, string>> = {}) => {
    const scope = new Scope();
    const stop = async () => {
      running.delete(at);
      await scope.close("cut");
    };
    t.after(stop);
    const folder = folderOf(t);
    const own = variables("injector", {
      SIDECAR_CONFIG_MAP: "sluice-sidecars",
      WEBHOOK_ADDR: "0.0.0.0:0",
      WEBHOOK_CONFIGURATION: name,
      WEBHOOK_SECRET: `${name}-tls`,
      WEBHOOK_SERVICE: name,
      MISSED_PODS_INTERVAL: "1s",
    });
    const log = memoryLog();
    const { main, webhook } = await startInjectorProcess({
      config: loadInjector({ env: { ...own, ...env }, configPath: folder, dotenvDir: folder }),
      context: processContext(scope, { clock: realClock, env: { KUBECONFIG: kubeconfig } }),
      chance: seededChance(at),
      log: { ...log, close: async () => undefined },
    });
    webhook.catch(() => undefined);
    const get = async (path: string) => (await fetch(`http://${main.address}${path}`)).text();
    const serve = async () => {
      running.set(at, (await webhook).address);
      await publishEndpoints();
      await client.wait({ ...configuration, name }, "the authority is published", ({ webhooks }) =>
        webhooks.every(
          (each: { clientConfig: { caBundle?: string } }) => each.clientConfig.caBundle,
        ),
      );
    };
    return { get, log, stop, serve };
  };
  const labelled = (labels: Readonly<Record<string, string>> = { "sluice-injection": "enabled" }) =>
    namespaceOf(t, client, { "test-of": home, ...labels });
  return { home, name, start, labelled, account };
}

function secret(name: string, password: string, labels: Readonly<Record<string, string>> = {}) {
  const metadata = { name, labels };
  return { apiVersion: "v1", kind: "Secret", metadata, type: "Opaque", stringData: { password } };
}

/** A copy that is old, a namespace without one, and a copy that nothing needs any more: an injector does all that it may. */
async function copies(
  home: string,
  labelled: (labels?: Readonly<Record<string, string>>) => Promise<string>,
) {
  const [old, none, former] = [await labelled(), await labelled(), await labelled({})];
  const copy = secret(secretOf(home), "past", { "sluice/copy-of": home });
  for (const namespace of [old, former]) await client.apply([copy], namespace);
  const passwordIn = async (namespace: string) => {
    const ref = { apiVersion: "v1", kind: "Secret", name: secretOf(home), namespace };
    return atob((await client.get(ref))?.["data"].password ?? "");
  };
  return async () =>
    (await passwordIn(old)) === "present" &&
    (await passwordIn(none)) === "present" &&
    (await passwordIn(former)) === "";
}

const POD_KIND = { apiVersion: "v1", kind: "Pod" };

const pod = (name: string, annotations: Readonly<Record<string, string>> = {}) => ({
  ...POD_KIND,
  metadata: { name, annotations },
  spec: { containers: [{ name: "app", image: "none", ports: [{ containerPort: 9_000 }] }] },
});

async function create(namespace: string, object: object, query = "") {
  return client.call("POST", `/api/v1/namespaces/${namespace}/pods${query}`, object);
}

// biome-ignore lint/suspicious/noExplicitAny: an object of the API
const hasAgent = ({ spec }: any) =>
  (spec?.initContainers ?? []).some((each: { name: string }) => each.name === "sluice-agent");

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

test("while no injector answers pods are created, and reported when it is back", async (t) => {
  const { start, labelled } = await install(t);
  const first = await start();
  await first.serve();
  const namespace = await labelled();
  assert.ok(hasAgent((await create(namespace, pod("before"))).body));
  await first.stop();
  const { status, body } = await create(namespace, pod("missed"));
  assert.equal(status, 201);
  assert.ok(!hasAgent(body));
  const second = await start();
  await second.serve();
  const event = async () =>
    (await client.list({ apiVersion: "v1", kind: "Event", namespace })).find(
      ({ reason }) => reason === "SluiceNotInjected",
    );
  await until("it is reported", async () => (await event()) !== undefined, PATIENCE_MS);
  assert.equal((await event())?.["involvedObject"].name, "missed");
  await until(
    "it is counted",
    async () => /sluice_injector_missed_pods [1-9]/.test(await second.get("/metrics")),
    PATIENCE_MS,
  );
  assert.match(await second.get("/v1/status/system/injector"), new RegExp(`${namespace}/missed`));
  assert.ok(hasAgent((await create(namespace, pod("after"))).body));
});

test("where pods must not start without an agent, none is created while no injector answers", async (t) => {
  const { name, start, labelled } = await install(t);
  const webhooks = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    name,
  };
  const operations = (await client.get(webhooks))?.["webhooks"].map((_: unknown, at: number) => ({
    op: "replace",
    path: `/webhooks/${at}/failurePolicy`,
    value: "Fail",
  }));
  const path = await client.pathOf(webhooks);
  const { status } = await client.call("PATCH", path, operations, "application/json-patch+json");
  assert.equal(status, 200);
  const first = await start();
  await first.serve();
  const namespace = await labelled();
  assert.ok(hasAgent((await create(namespace, pod("before"))).body));
  await first.stop();
  const refused = await create(namespace, pod("refused"));
  assert.equal(refused.status, 500);
  assert.match(refused.body.message, /failed calling webhook/);
  // Pods of namespaces that nobody labelled do not depend on it.
  const elsewhere = await labelled({});
  assert.equal((await create(elsewhere, pod("elsewhere"))).status, 201);
  const second = await start();
  await second.serve();
  assert.ok(hasAgent((await create(namespace, pod("refused"))).body));
});

test("no pod is lost while certificates and authorities are replaced", async (t) => {
  const { home, name, start, labelled } = await install(t);
  const env = {
    SVC_INJECTOR_WEBHOOK_OVERLAP: "2s",
    SVC_INJECTOR_WEBHOOK_CERTIFICATE_LIFETIME: "18s",
    SVC_INJECTOR_WEBHOOK_AUTHORITY_LIFETIME: "36s",
  };
  const replicas = await Promise.all([start(0, env), start(1, env)]);
  for (const { serve } of replicas) await serve();
  const namespace = await labelled();
  const secret = { apiVersion: "v1", kind: "Secret", name: `${name}-tls`, namespace: home };
  const authorities = new Set<string>();
  const certificates = new Set<string>();
  let count = 0;
  const lost: string[] = [];
  await until(
    "authorities were replaced",
    async () => {
      const each = `pod-${count++}`;
      const { status, body } = await create(namespace, pod(each), "?dryRun=All");
      if (status !== 201 || !hasAgent(body)) lost.push(each);
      const data = (await client.get(secret))?.["data"] ?? {};
      authorities.add(data["ca.crt"]);
      certificates.add(data["tls.crt"]);
      return authorities.size >= 3 && data["previous-ca.crt"] === "";
    },
    PATIENCE_MS * 2,
  );
  assert.deepEqual(lost, []);
  assert.ok(certificates.size >= 4, `${certificates.size} certificates`);
  assert.ok(count > 50, `${count} pods`);
});

test("its rights suffice: nothing that it does is forbidden", async (t) => {
  const { start, labelled, home } = await install(t);
  const namespace = await labelled();
  await create(namespace, pod("old"));
  const areInStep = await copies(home, labelled);
  const { log, serve, get } = await start();
  await serve();
  await until("copies of Secrets are in step", areInStep, PATIENCE_MS);
  assert.ok(hasAgent((await create(namespace, pod("new"))).body));
  await until(
    "the old pod is reported",
    async () => /sluice_injector_missed_pods [1-9]/.test(await get("/metrics")),
    PATIENCE_MS,
  );
  assert.deepEqual(
    log.lines.filter(({ message }) => /forbidden|status 403/.test(message)),
    [],
  );
});

const RIGHTS = rightsIn(await chartOf("home", "injector"));
const EACH = PARTS.flatMap((where) =>
  RIGHTS[where].flatMap(({ resources, verbs }) =>
    verbs.map((verb) => [where, resources[0], verb] as const),
  ),
);

test("the charts give it rights", () => {
  for (const part of PARTS) assert.ok(RIGHTS[part].length > 0, part);
});

test("with its right to create Secrets it gets no token of an account, and changes no Secret of others", async (t) => {
  const { home, labelled, account } = await install(t);
  const namespace = await labelled();
  const name = secretOf(home);
  const copy = secret(name, "a", { "sluice/copy-of": home });
  const annotations = { "kubernetes.io/service-account.name": "default" };
  const token = (of: typeof copy) => ({
    ...of,
    metadata: { ...of.metadata, annotations },
    type: "kubernetes.io/service-account-token",
  });
  const post = (where: string, object: object) =>
    account.call("POST", `/api/v1/namespaces/${where}/secrets?dryRun=All`, object);
  // The API server learns of policies and rights by and by.
  await until(
    "the policy is in force",
    async () => (await post(namespace, token(copy))).status === 422,
    PATIENCE_MS,
  );
  const refused = async (where: string, object: object, why: RegExp) => {
    const { status, body } = await post(where, object);
    assert.equal(status, 422, JSON.stringify(body));
    assert.match(body.message, why);
  };
  await refused(namespace, token(copy), /only Secrets of the types Opaque/);
  await refused(
    home,
    token({ ...copy, metadata: { ...copy.metadata, name: "x" } }),
    /only Secrets/,
  );
  await refused(namespace, secret(name, "a"), /only copies/);
  await refused(namespace, secret(name, "a", { "sluice/copy-of": "other" }), /only copies/);
  await refused("kube-system", copy, /no Secret of kube-system/);
  assert.equal((await post(namespace, copy)).status, 201);
  const pull = { ...copy, type: "kubernetes.io/dockerconfigjson" };
  const config = { ".dockerconfigjson": '{"auths":{}}' };
  assert.equal((await post(namespace, { ...pull, stringData: config })).status, 201);
  await client.apply([secret(name, "of somebody else")], namespace);
  const path = `/api/v1/namespaces/${namespace}/secrets/${name}`;
  for (const [method, body] of [
    ["PUT", copy],
    ["DELETE", undefined],
  ] as const) {
    const answer = await account.call(method, path, body);
    assert.equal(answer.status, 422, JSON.stringify(answer.body));
    assert.match(answer.body.message, /only its own copies/);
  }
});

for (const [where, resource, verb] of EACH) {
  test(`without the right to ${verb} ${resource} (${where}) it says so`, async (t) => {
    // A namespace is read only where it has not been heard of yet, as here, where nothing is heard of.
    const isRead = resource === "namespaces" && verb === "get";
    const missing: readonly string[] = isRead ? ["get", "list"] : [verb];
    const fewer = (rules: readonly Rule[]) =>
      rules
        .map((rule) => ({
          ...rule,
          verbs: rule.verbs.filter(
            (each) => rule.resources[0] !== resource || !missing.includes(each),
          ),
        }))
        .filter(({ verbs }) => verbs.length > 0);
    const { start, labelled, home } = await install(t, (rights) => ({
      ...rights,
      [where]: fewer(rights[where]),
    }));
    const namespace = await labelled();
    await create(namespace, pod("old"));
    if (where === "secrets") await copies(home, labelled);
    const { log, get, serve } = await start();
    if (isRead) {
      await serve();
      assert.ok(
        hasAgent((await create(namespace, pod("new"))).body),
        "it is injected all the same",
      );
    }
    const wanted = isRead
      ? /annotations of a namespace.*403/
      : new RegExp(`${resource}.*status 403`);
    await until(
      "it names what it may not do",
      async () => {
        const said = [await get("/v1/status"), ...log.lines.map(({ message }) => message)];
        return said.some((text) => wanted.test(text));
      },
      PATIENCE_MS,
    );
  });
}
