// `sluice injector` as a process, before an API server in memory: when it is ready, how it answers over TLS, and what it does
// in the background.

import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { request } from "node:https";
import { type TestContext, test } from "node:test";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import { loadInjector } from "#injector/config.ts";
import { startInjectorProcess } from "#injector/process.ts";
import { folderOf } from "../kit/folder.ts";
import { variables } from "../kit/process.ts";
import { processContext } from "../kit/process-context.ts";
import { authority } from "../kit/servers/tls.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { realClock } from "../kit/sluice/port.ts";
import { until } from "../kit/until.ts";
import { type Cluster, cluster, HOME } from "./cluster.ts";
import { podWith } from "./kit.ts";

const SERVICE = `sluice-injector.${HOME}.svc`;

async function injectorOn(
  t: TestContext,
  { kubeconfig }: Pick<Cluster, "kubeconfig">,
  env: Readonly<Record<string, string>> = {},
) {
  const scope = new Scope((what, cause) => {
    throw new Error(`stop of ${what} failed`, { cause });
  });
  const stop = () => scope.close("cut");
  t.after(stop);
  const folder = folderOf(t);
  const isInMap = Object.hasOwn(env, "SVC_INJECTOR_SIDECAR_CONFIG_MAP");
  const image = isInMap ? {} : { SIDECAR_IMAGE: "sluice:1" };
  const own = variables("injector", { WEBHOOK_ADDR: "127.0.0.1:0", ...image });
  const all = { ...own, ...env };
  const log = memoryLog();
  const { main, webhook } = await startInjectorProcess({
    config: loadInjector({ env: all, configPath: folder, dotenvDir: folder }),
    context: processContext(scope, { clock: realClock, env: { KUBECONFIG: kubeconfig } }),
    chance: seededChance(1),
    log: { ...log, close: async () => undefined },
  });
  const get = async (path: string) => {
    const reply = await fetch(`http://${main.address}${path}`);
    return { status: reply.status, text: await reply.text() };
  };
  return { webhook, get, log, stop };
}

function caOf({ configuration }: Cluster, at = 0): string {
  const { caBundle = "" } = configuration.webhooks[at].clientConfig;
  return Buffer.from(caBundle, "base64").toString("utf8");
}

interface CallOptions {
  readonly address: string;
  readonly ca: string;
  readonly name?: string;
  readonly namespace?: string;
}

/** Asks as the API server does. */
async function review({ address, ca, name = SERVICE, namespace = "shop" }: CallOptions) {
  const body = JSON.stringify({
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: { uid: "u", kind: { kind: "Pod" }, operation: "CREATE", namespace, object: podWith() },
  });
  const headers = { "content-type": "application/json", host: name };
  const sent = request(`https://${address}/mutate-pod?timeout=10s`, {
    method: "POST",
    ca,
    servername: name,
    headers,
    agent: false,
  });
  sent.end(body);
  const [response] = await once(sent, "response");
  const text = (await response.toArray()).join("");
  assert.equal(response.statusCode, 200, text);
  const { allowed, patch = "" } = JSON.parse(text).response;
  return { allowed, patch: Buffer.from(patch, "base64").toString("utf8") };
}

test("it makes its certificate, publishes the authority, and answers reviews over TLS", async (t) => {
  const held = await cluster(t);
  held.addNamespace("shop", {}, { "sluice/agent-group": "of-namespace" });
  const { webhook, get } = await injectorOn(t, held, { SVC_AGENT_LOG_LEVEL: "debug" });
  const { address } = await webhook;
  await until("every entry trusts it", () => caOf(held, 1) !== "");
  assert.equal(caOf(held, 0), caOf(held, 1));
  await until("it is ready", async () => (await get("/v1/status/system/readiness")).status === 200);
  const { allowed, patch } = await review({ address, ca: caOf(held) });
  assert.equal(allowed, true);
  assert.match(patch, /"of-namespace"/);
  assert.match(patch, /"SVC_AGENT_LOG_LEVEL","value":"debug"/);
  assert.match(patch, /"\/spec\/initContainers"/);
  const { text } = await get("/metrics");
  assert.match(text, /sluice_injector_reviews_total\{result="injected"\} 1/);
  assert.match(text, /sluice_injector_review_duration_ms_count 1/);
  await until("pods were searched", async () =>
    /sluice_injector_missed_pods 0/.test((await get("/metrics")).text),
  );
  const secret = held.secrets.get(`${HOME}/sluice-injector-tls`);
  assert.deepEqual(Object.keys(secret.data).sort(), [
    "ca.crt",
    "ca.key",
    "previous-ca.crt",
    "tls.crt",
    "tls.key",
  ]);
});

test("two replicas show certificates of one authority", async (t) => {
  const held = await cluster(t);
  held.addNamespace("shop");
  const replicas = await Promise.all([injectorOn(t, held), injectorOn(t, held)]);
  const ports = await Promise.all(replicas.map(({ webhook }) => webhook));
  await until("the authority is published", () => caOf(held) !== "");
  for (const { address } of ports) {
    assert.equal((await review({ address, ca: caOf(held) })).allowed, true);
  }
});

test("names, the namespace and lifetimes are as configured", async (t) => {
  const held = await cluster(t);
  held.addNamespace("shop");
  const { webhook } = await injectorOn(t, held, {
    SVC_INJECTOR_NAMESPACE: "other",
    SVC_INJECTOR_WEBHOOK_CONFIGURATION: "own-configuration",
    SVC_INJECTOR_WEBHOOK_SECRET: "own-secret",
    SVC_INJECTOR_WEBHOOK_SERVICE: "own-service",
    SVC_INJECTOR_WEBHOOK_AUTHORITY_LIFETIME: "20h",
    SVC_INJECTOR_WEBHOOK_CERTIFICATE_LIFETIME: "10h",
  });
  const { address } = await webhook;
  await until("the authority is published", () => caOf(held) !== "");
  const name = "own-service.other.svc";
  assert.equal((await review({ address, ca: caOf(held), name })).allowed, true);
  assert.ok(held.api.asked.some(({ path }) => path.endsWith("/own-configuration")));
  const { data } = held.secrets.get("other/own-secret");
  const hours = (entry: string) => {
    const { validFromDate, validToDate } = new X509Certificate(Buffer.from(data[entry], "base64"));
    return Math.round((validToDate.getTime() - validFromDate.getTime()) / 3_600_000);
  };
  assert.deepEqual([hours("ca.crt"), hours("tls.crt")], [20, 10]);
});

test("an empty Secret of a chart is filled, and keeps what the chart wrote", async (t) => {
  const held = await cluster(t);
  const labels = { "app.kubernetes.io/name": "sluice" };
  const metadata = { name: "sluice-injector-tls", namespace: HOME, labels, resourceVersion: "7" };
  held.secrets.set(`${HOME}/sluice-injector-tls`, { metadata, type: "Opaque" });
  const { webhook } = await injectorOn(t, held);
  await webhook;
  const secret = held.secrets.get(`${HOME}/sluice-injector-tls`);
  assert.deepEqual(secret.metadata.labels, labels);
  assert.ok(secret.data["tls.crt"]);
});

test("without the API server it starts, is not ready, says why, and goes on when the server is there", async (t) => {
  const held = await cluster(t);
  held.addNamespace("shop");
  held.api.away = true;
  const { webhook, get } = await injectorOn(t, held);
  assert.equal((await get("/v1/status/system/liveness")).status, 200, "alive for its probes");
  const readiness = await get("/v1/status/system/readiness");
  assert.equal(readiness.status, 503);
  assert.match(readiness.text, /kubernetes is not ready yet/);
  await until("it says why", async () =>
    /certificates is not ready yet: \S/.test((await get("/v1/status/system/readiness")).text),
  );
  const degraded = /sluice_dependency_degraded\{dependency="webhook"\} 1/;
  const { text } = await get("/metrics");
  assert.match(text, degraded);
  assert.doesNotMatch(text, /^sluice_injector_missed_pods/m, "nothing was searched yet");
  held.api.away = false;
  const { address } = await webhook;
  assert.doesNotMatch((await get("/metrics")).text, degraded);
  await until("the authority is published", () => caOf(held) !== "");
  assert.equal((await review({ address, ca: caOf(held) })).allowed, true);
});

test("an old cluster gets plain containers, unless the configuration says otherwise", async (t) => {
  const held = await cluster(t);
  held.addNamespace("shop");
  held.minor = "27+";
  for (const [env, wanted] of [
    [{}, false],
    [{ SVC_INJECTOR_NATIVE_SIDECARS: "on" }, true],
  ] as const) {
    const { webhook } = await injectorOn(t, held, env);
    const { address } = await webhook;
    await until("the authority is published", () => caOf(held) !== "");
    const { patch } = await review({ address, ca: caOf(held) });
    assert.equal(/"\/spec\/initContainers"/.test(patch), wanted);
  }
});

test("with files of others it touches neither Secret nor webhook configuration", async (t) => {
  const held = await cluster(t);
  held.addNamespace("shop");
  const folder = folderOf(t);
  const ca = authority(folder, "others");
  const { certFile, keyFile } = ca.issue("localhost");
  const { webhook } = await injectorOn(t, held, {
    SVC_INJECTOR_WEBHOOK_CERT_FILE: certFile,
    SVC_INJECTOR_WEBHOOK_KEY_FILE: keyFile,
  });
  const { address } = await webhook;
  const { allowed } = await review({ address, ca: ca.cert.toString(), name: "localhost" });
  assert.equal(allowed, true);
  assert.equal(caOf(held), "");
  assert.equal(held.secrets.size, 0);
});

const plainPod = (name: string, more: object = {}) => ({
  metadata: { name, namespace: "shop", uid: `uid-${name}` },
  spec: { containers: [{ name: "app", image: "a" }] },
  status: { phase: "Running" },
  ...more,
});

test("pods that the webhook missed are counted, listed and reported once", async (t) => {
  const held = await cluster(t);
  held.addNamespace("shop");
  held.addNamespace("unlabelled", {});
  held.addNamespace("kube-system");
  const ended = { status: { phase: "Succeeded" } };
  const going = {
    metadata: { name: "going", uid: "g", deletionTimestamp: "2026-01-01T00:00:00Z" },
  };
  const asked = plainPod("asked");
  const optedOut = {
    ...asked,
    metadata: { ...asked.metadata, annotations: { "sluice/inject": "false" } },
  };
  const hasAgent = plainPod("has", { spec: { containers: [{ name: "sluice-agent" }] } });
  held.pods.set("shop", [
    plainPod("ended", ended),
    plainPod("going", going),
    optedOut,
    hasAgent,
    // On the second page.
    plainPod("missed"),
  ]);
  for (const other of ["unlabelled", "kube-system"]) held.pods.set(other, [plainPod("other")]);
  const { get } = await injectorOn(t, held, { SVC_INJECTOR_MISSED_PODS_INTERVAL: "1s" });
  await until("it is counted", async () =>
    /sluice_injector_missed_pods 1\n/.test((await get("/metrics")).text),
  );
  assert.match((await get("/v1/status/system/injector")).text, /shop\/missed/);
  assert.equal(held.events.length, 1);
  const [{ involvedObject, reason, type }] = held.events;
  assert.equal(involvedObject.uid, "uid-missed");
  assert.deepEqual([reason, type], ["SluiceNotInjected", "Warning"]);
  const before = held.api.asked.filter(({ path }) => path.endsWith("/events")).length;
  assert.equal(before, 1);

  held.pods.set("shop", [hasAgent]);
  await until("it was replaced", async () =>
    /sluice_injector_missed_pods 0\n/.test((await get("/metrics")).text),
  );
  assert.equal(held.api.asked.filter(({ path }) => path.endsWith("/events")).length, before);
});

test("Secrets of sidecars are copied, kept in step, and removed with the label; those of others are left alone", async (t) => {
  const held = await cluster(t);
  held.addNamespace("shop");
  held.addNamespace("taken");
  const data = { password: btoa("hunter2") };
  const original = { metadata: { name: "etcd", namespace: HOME }, type: "Opaque", data };
  held.secrets.set(`${HOME}/etcd`, {
    ...original,
    metadata: { ...original.metadata, resourceVersion: "1" },
  });
  held.secrets.set("taken/etcd", { metadata: { name: "etcd", namespace: "taken" }, data: {} });
  const { get, webhook } = await injectorOn(t, held, {
    SVC_AGENT_ETCD_USERNAME: "agent",
    SVC_INJECTOR_SIDECAR_SECRETS: "[etcd.password=etcd/password]",
    SVC_INJECTOR_MISSED_PODS_INTERVAL: "1s",
  });
  const copy = () => held.secrets.get("shop/etcd");
  await until("it is copied", () => copy() !== undefined);
  assert.deepEqual(copy().data, data);
  const [owner] = copy().metadata.ownerReferences;
  assert.deepEqual([owner.kind, owner.uid], ["MutatingWebhookConfiguration", "configuration"]);
  assert.deepEqual(held.secrets.get("taken/etcd").data, {});
  await until("the other is said", async () =>
    /Secret taken\/etcd is not a copy/.test((await get("/v1/status/system/injector")).text),
  );
  held.secrets.set(`${HOME}/etcd`, { ...original, data: { password: btoa("changed") } });
  await until("it is in step", () => copy()?.data.password === btoa("changed"));
  const { address } = await webhook;
  await until("the authority is published", () => caOf(held) !== "");
  const { patch } = await review({ address, ca: caOf(held) });
  assert.match(
    patch,
    /"SVC_AGENT_ETCD_PASSWORD","valueFrom":\{"secretKeyRef":\{"name":"etcd","key":"password"\}\}/,
  );
  held.addNamespace("shop", {});
  await until("it is removed", () => copy() === undefined);
  assert.ok(held.secrets.has("taken/etcd"));
  assert.ok(held.secrets.has(`${HOME}/etcd`));
});

const FROM_MAP = { SVC_INJECTOR_SIDECAR_CONFIG_MAP: "sidecars" };

test("settings of a ConfigMap apply to the next pod, and the last good ones stay", async (t) => {
  const held = await cluster(t);
  held.addNamespace("shop");
  const { webhook, get, log } = await injectorOn(t, held, {
    ...FROM_MAP,
    SVC_AGENT_METRICS_PEDANTIC: "true",
  });
  const readiness = async () => (await get("/v1/status/system/readiness")).text;
  await until("it waits for the ConfigMap", async () =>
    /ConfigMap sluice\/sidecars does not exist: the chart sluice-agent/.test(await readiness()),
  );
  const image = { SVC_INJECTOR_SIDECAR_IMAGE: "sluice:1", SVC_AGENT_LOG_LEVEL: "debug" };
  held.setSettings({ ...image, SVC_AGENT_METRICS_PEDANTIC: "false" });
  const { address } = await webhook;
  await until("the authority is published", () => caOf(held) !== "");
  const patchNow = async () => (await review({ address, ca: caOf(held) })).patch;
  assert.match(await patchNow(), /"SVC_AGENT_LOG_LEVEL","value":"debug"/);
  assert.match(await patchNow(), /PEDANTIC","value":"true"/, "the environment wins");

  held.setSettings({ ...image, SVC_AGENT_LOG_LEVEL: "warn" });
  await until("the change is in force", async () => /"value":"warn"/.test(await patchNow()));

  held.setSettings({ ...image, SVC_AGENT_LOG_LEVL: "error", SVC_INJECTOR_NAMESPACE: "other" });
  const metric = /sluice_dependency_degraded\{dependency="sidecar-settings"\} 1/;
  await until("it is reported", async () => metric.test((await get("/metrics")).text));
  const { text } = await get("/v1/status");
  assert.match(
    text,
    /SVC_AGENT_LOG_LEVL in ConfigMap sidecars: .*did you mean SVC_AGENT_LOG_LEVEL/,
  );
  assert.match(
    text,
    /SVC_INJECTOR_NAMESPACE in ConfigMap sidecars: wanted only variables of sidec/,
  );
  assert.match(await patchNow(), /"value":"warn"/);
  held.setSettings(undefined);
  await until("that is reported too", () =>
    log.lines.some(({ level, message }) => level === "warn" && /does not exist/.test(message)),
  );
  assert.match(await patchNow(), /"value":"warn"/);

  held.setSettings({ ...image, SVC_AGENT_LOG_LEVEL: "info" });
  await until("it is good again", async () => !metric.test((await get("/metrics")).text));
  assert.match(await patchNow(), /"value":"info"/);
});

test("Secrets that a changed ConfigMap refers to are copied at once, and those of a labelled namespace", async (t) => {
  const held = await cluster(t);
  held.addNamespace("shop");
  for (const name of ["one", "two"])
    held.secrets.set(`${HOME}/${name}`, {
      metadata: { name, namespace: HOME, resourceVersion: "1" },
      data: { password: btoa("hunter2") },
    });
  const entries = (secret: string) => ({
    SVC_INJECTOR_SIDECAR_IMAGE: "sluice:1",
    SVC_AGENT_ETCD_USERNAME: "agent",
    SVC_INJECTOR_SIDECAR_SECRETS: `[etcd.password=${secret}/password]`,
  });
  held.setSettings(entries("one"));
  // Nothing is looked for again in the time of this test.
  await injectorOn(t, held, { ...FROM_MAP, SVC_INJECTOR_MISSED_PODS_INTERVAL: "24h" });
  await until("the first is copied", () => held.secrets.has("shop/one"));
  held.setSettings(entries("two"));
  await until("the second is copied", () => held.secrets.has("shop/two"));
  held.addNamespace("later");
  await until("to the new namespace as well", () => held.secrets.has("later/two"));
});

for (const [what, env, wanted] of [
  [
    "no image",
    { SVC_INJECTOR_SIDECAR_IMAGE: "" },
    /sidecar.image: wanted the image of Sluice|sidecar.image \(SVC_INJECTOR_SIDECAR_IMAGE\): wanted the image/,
  ],
  [
    "a secret as a value",
    { SVC_AGENT_ETCD_USERNAME: "a", SVC_AGENT_ETCD_PASSWORD: "hunter2" },
    /etcd.password \(SVC_AGENT_ETCD_PASSWORD\): wanted a reference in sidecar.secrets/,
  ],
  [
    "an unknown key",
    { SVC_INJECTOR_SIDECAR_SECRETS: "[etcd.pasword=a/b]" },
    /sidecar.secrets .*: wanted a key of the agent, got "etcd.pasword"/,
  ],
  [
    "a misspelt key of the agent",
    { SVC_AGENT_LOG_LEVL: "debug" },
    /did you mean SVC_AGENT_LOG_LEVEL/,
  ],
  [
    "an agent on a Unix socket",
    { SVC_AGENT_SERVER_LISTENER_ADDR: "unix:/run/a.sock" },
    /server.listener.addr .*: wanted an address with a port/,
  ],
  [
    "a certificate without its key",
    { SVC_INJECTOR_WEBHOOK_CERT_FILE: "/a" },
    /webhook.key_file: wanted a file/,
  ],
  [
    "steps that do not fit",
    { SVC_INJECTOR_WEBHOOK_OVERLAP: "5s", SVC_INJECTOR_WEBHOOK_CERTIFICATE_LIFETIME: "30s" },
    /webhook.overlap .*: wanted at most a ninth .*, got 5s$/m,
  ],
] as const) {
  test(`a configuration that cannot work is refused: ${what}`, (t) => {
    const folder = folderOf(t);
    const all: Readonly<Record<string, string>> = {
      SVC_INJECTOR_SIDECAR_IMAGE: "sluice:1",
      ...env,
    };
    const load = () => loadInjector({ env: all, configPath: folder, dotenvDir: folder });
    assert.throws(load, (thrown: Error) => {
      assert.match(thrown.message, wanted);
      assert.ok(!thrown.message.includes("hunter2"));
      return true;
    });
  });
}
