// The charts and the injector agree: `sluice injector` runs with the variables, the files and the rights that the charts give
// it, and pods of a labelled namespace get the agent that the values of sluice-agent describe. The control plane is this
// file's own, because the chart's webhook is for all namespaces.

import assert from "node:assert/strict";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { folderOf } from "../../kit/folder.ts";
import { freePort } from "../../kit/free-port.ts";
import type { KubeObject } from "../../kit/kube/client.ts";
import { kubeconfigOf, namespaceOf, startControlPlane } from "../../kit/kube/control-plane.ts";
import { chartPath, helm } from "../../kit/kube/helm.ts";
import { child } from "../../kit/servers/child.ts";
import { until } from "../../kit/until.ts";

const SLUICE = join(import.meta.dirname, "../../../src/cli/sluice.js");
const { client, kubeconfig } = await startControlPlane({ after });

/** An address of this machine that is not loopback, which endpoints may not have. */
function ownAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const found = all.find(({ family, internal }) => family === "IPv4" && !internal);
  assert.ok(found, "an address of this machine");
  return found.address;
}

interface Entry {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly secretKeyRef?: object };
}

test("the injector runs as the charts say, and pods get the agent that the values describe", async (t) => {
  const namespace = await namespaceOf(t, client);
  const secret = { apiVersion: "v1", kind: "Secret" };
  const users = {
    ...secret,
    metadata: { name: "etcd-users" },
    stringData: { agent: "a-password" },
  };
  await client.apply([users], namespace);
  const config = {
    etcd: { endpoints: ["http://etcd.example.com:2379"], username: "agent" },
    log: { writers: [{ file: "/tmp/$(POD_IP).log" }] },
    flow_control: { max_keys: 2_000_000 },
  };
  const secrets = { etcd: { password: { name: "etcd-users", key: "agent" } } };
  const image = { registry: "registry.example.com", tag: "1.2.3" };
  const flags = ["--namespace", namespace, "--wait"];
  const install = (chart: "sluice-agent" | "sluice-controller", values: object) =>
    helm(["install", chart, chartPath(chart), ...flags], {
      values: { ...values, image },
      kubeconfig,
    });
  await install("sluice-agent", { agent: { config, secrets } });
  // No pod of the chart runs a container here, so the Service leads to a process of this machine instead.
  const etcd = { endpoints: config.etcd.endpoints };
  await install("sluice-controller", {
    controller: { config: { etcd } },
    injector: { replicaCount: 0 },
  });

  const name = "sluice-injector";
  const deployment = await client.get({
    apiVersion: "apps/v1",
    kind: "Deployment",
    name,
    namespace,
  });
  const pod = deployment?.["spec"].template.spec;
  const [{ args, env }] = pod.containers;
  const variables: Record<string, string> = {};
  for (const entry of env as readonly Entry[]) variables[entry.name] = entry.value ?? namespace;
  const account = JSON.parse(
    kubeconfigOf(client.as(await client.tokenOf(namespace, pod.serviceAccountName))),
  );
  const tmp = folderOf(t, { kubeconfig: JSON.stringify(account) });
  const port = await freePort();
  const injector = child(t, process.execPath, [SLUICE, ...args], {
    cwd: tmp,
    env: {
      PATH: process.env["PATH"],
      ...variables,
      TMPDIR: tmp,
      KUBECONFIG: join(tmp, "kubeconfig"),
      SVC_INJECTOR_SERVER_LISTENER_ADDR: "127.0.0.1:0",
      SVC_INJECTOR_WEBHOOK_ADDR: `0.0.0.0:${port}`,
    },
  });
  const slice = {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name, labels: { "kubernetes.io/service-name": name } },
    addressType: "IPv4",
    endpoints: [{ addresses: [ownAddress()], conditions: { ready: true } }],
    ports: [{ name: "webhook", port }],
  };
  await client.apply([slice], namespace);
  const webhook = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    name,
  };
  const published = ({ webhooks }: KubeObject) =>
    webhooks.every(
      ({ clientConfig }: { clientConfig: { caBundle?: string } }) => clientConfig.caBundle,
    );
  await Promise.race([
    client.wait(webhook, "the authority is published", published),
    injector.ended.then((code) =>
      assert.fail(`ended with ${code}: ${injector.out()}${injector.err()}`),
    ),
  ]);
  const kept = await client.get({ ...secret, name: "sluice-injector-tls", namespace });
  assert.ok(Object.keys(kept?.["data"] ?? {}).length > 0, "the chart's Secret is filled");

  const shop = await namespaceOf(t, client, { "sluice-injection": "enabled" });
  await client.wait(
    { ...secret, name: "etcd-users", namespace: shop },
    "the Secret is copied",
    () => true,
  );
  const create = (name: string) =>
    client.call("POST", `/api/v1/namespaces/${shop}/pods`, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name },
      spec: { containers: [{ name: "application", image: "none" }] },
    });
  await client.wait(
    { apiVersion: "v1", kind: "ServiceAccount", name: "default", namespace: shop },
    "the account",
    () => true,
  );
  const { status, body, warnings } = await create("application");
  assert.equal(status, 201, JSON.stringify(body));
  const all: readonly { readonly name: string }[] = [
    ...(body.spec.initContainers ?? []),
    ...body.spec.containers,
  ];
  const agent = all.find((each) => each.name === "sluice-agent") as KubeObject | undefined;
  assert.ok(agent, `no agent: ${JSON.stringify(body.spec)} ${warnings.join()} ${injector.out()}`);
  assert.equal(agent["image"], "registry.example.com/sluice:1.2.3");
  assert.deepEqual(agent["resources"], {
    requests: { cpu: "100m", memory: "192Mi" },
    limits: { cpu: "2", memory: "512Mi" },
  });
  const own = (variable: string): Entry | undefined =>
    agent["env"].find((each: Entry) => each.name === `SVC_AGENT_${variable}`);
  assert.equal(own("ETCD_USERNAME")?.value, "agent");
  assert.deepEqual(own("ETCD_PASSWORD")?.valueFrom?.secretKeyRef, {
    name: "etcd-users",
    key: "agent",
  });
  assert.equal(own("FLOW_CONTROL_MAX_KEYS")?.value, "2000000");
  assert.equal(own("CLOUDEXT_INSTALLATION_MODE")?.value, "KUBERNETES_SIDECAR");
  assert.match(own("LOG_WRITERS")?.value ?? "", /\/tmp\/\$\$\(POD_IP\)\.log/);

  // An upgrade of the settings is for the next pod, and the injector goes on as it is.
  const changed = { agent: { config: { ...config, log: { level: "debug" } }, secrets }, image };
  await helm(["upgrade", "sluice-agent", chartPath("sluice-agent"), ...flags], {
    values: changed,
    kubeconfig,
  });
  let count = 0;
  await until("the next pod has the changed settings", async () =>
    /"SVC_AGENT_LOG_LEVEL","value":"debug"/.test(
      JSON.stringify((await create(`next-${count++}`)).body),
    ),
  );
  injector.kill("SIGTERM");
  assert.equal(await injector.ended, 0, injector.err());
  assert.doesNotMatch(injector.out() + injector.err(), /forbidden|"level":"error"/);

  const copy = { ...secret, name: "etcd-users", namespace: shop };
  const uninstall = (name: string) =>
    helm(["uninstall", name, "--namespace", namespace, "--wait"], { kubeconfig });
  await uninstall("sluice-controller");
  await client.gone(copy);
  await uninstall("sluice-agent");
});
