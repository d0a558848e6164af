// Shared by the tests with living pods: an installation of the chart for trials, a service that it protects, a policy, and
// requests of users.

import { Agent, request } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Ending } from "../../../kit/ending.ts";
import type { KubeClient, KubeObject, Ref } from "../../../kit/kube/client.ts";
import { namespaceOf } from "../../../kit/kube/control-plane.ts";
import { chartPath, helm, type Values } from "../../../kit/kube/helm.ts";
import { until } from "../../../kit/until.ts";
import { type LivingCluster, startLivingCluster } from "../../../lab/kubelet/cluster.ts";
import { nodeImage } from "../../../lab/kubelet/container/images.ts";

export const DEPLOYMENT = { apiVersion: "apps/v1", kind: "Deployment" };
const POLICY = { apiVersion: "fluxninja.com/v1alpha1", kind: "Policy" };
export const HOME = "sluice";
const ENVOY_PORT = 10_000;

/** A cluster with Sluice, as its chart installs it for a trial, and with an Envoy before each application. */
export async function startInstalled(test: Ending): Promise<LivingCluster> {
  const cluster = await startWithShop(test);
  const { client, kubeconfig } = cluster;
  await bindVolume(client);
  await install(kubeconfig, { "sluice-agent": { sidecars: { envoy: { inject: true } } } });
  return cluster;
}

/** A cluster without Sluice that has the image of the application. */
export function startWithShop(test: Ending): Promise<LivingCluster> {
  const application = () => nodeImage(join(import.meta.dirname, "application.ts"));
  return startLivingCluster(test, { shop: application });
}

/** Installs the chart and waits until all of its pods are ready. */
export async function install(kubeconfig: string, values: Values): Promise<void> {
  const flags = ["--namespace", HOME, "--wait", "--timeout", "10m"];
  await helm(["install", "sluice", chartPath("sluice"), ...flags], { values, kubeconfig });
}

/** The volume of etcd, and the claim that its StatefulSet makes: this cluster has nobody who makes volumes. */
async function bindVolume(client: KubeClient): Promise<void> {
  const size = { storage: "1Gi" };
  const accessModes = ["ReadWriteOnce"];
  const claim = { apiVersion: "v1", kind: "PersistentVolumeClaim" };
  const name = "data-sluice-etcd-0";
  await client.apply([
    { apiVersion: "v1", kind: "Namespace", metadata: { name: HOME } },
    {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name: "trial" },
      spec: { capacity: size, accessModes, hostPath: { path: "/trial" } },
    },
    {
      ...claim,
      metadata: { name, namespace: HOME },
      spec: { accessModes, resources: { requests: size }, volumeName: "trial" },
    },
  ]);
  const ref = { ...claim, name, namespace: HOME };
  await client.wait(ref, "the volume is bound", ({ status }) => status?.phase === "Bound");
}

/** Each user may send as many requests as this, and the bucket is as good as never refilled. */
function policyOf(requests: number): object {
  return {
    ...POLICY,
    metadata: { name: "per-user" },
    spec: {
      circuit: {
        components: [
          {
            flow_control: {
              rate_limiter: {
                selectors: [{ control_point: "ingress" }],
                in_ports: {
                  bucket_capacity: { constant_signal: { value: requests } },
                  fill_amount: { constant_signal: { value: 1 } },
                },
                parameters: {
                  interval: "86400s",
                  limit_by_label_key: "http.request.header.x_user",
                  // On a busy machine agents may not answer each other in time; then too few pass, not too many.
                  on_failure: "closed",
                },
              },
            },
          },
        ],
      },
    },
  };
}

/** Applies a policy and waits until a controller runs it. */
export async function applyPolicy(client: KubeClient, requests: number): Promise<void> {
  await client.apply([policyOf(requests)], HOME);
  const ref = { ...POLICY, name: "per-user", namespace: HOME };
  await client.wait(
    ref,
    "the policy runs",
    ({ metadata, status }) =>
      status?.observedGeneration === metadata.generation && status?.status === "uploaded",
  );
}

/** The pods of a shop, each as users would reach it without the Service. */
export async function podsOf(
  client: KubeClient,
  { namespace }: Shop,
): Promise<readonly (Front & { readonly object: KubeObject })[]> {
  const pods = await client.list({ apiVersion: "v1", kind: "Pod", namespace }, "app=shop");
  return pods.map((object) => ({ host: object["status"]?.podIP, port: ENVOY_PORT, object }));
}

export interface Shop {
  readonly namespace: string;
  readonly deployment: { readonly name: string; readonly namespace: string } & typeof DEPLOYMENT;
  /** The Service. */
  readonly front: Front;
}

/** Addresses to which users connect. */
export interface Front {
  readonly host: string;
  readonly port: number;
}

/**
 * Makes a labelled namespace with a Deployment of the application and a Service that points at Envoy; waits until the Service
 * leads to each of its pods, which is a moment after they are ready. The application listens on this address.
 */
export async function openShop(
  test: Ending,
  client: KubeClient,
  replicas: number,
  address = "0.0.0.0",
): Promise<Shop> {
  const namespace = await namespaceOf(test, client, { "sluice-injection": "enabled" });
  const labels = { app: "shop" };
  const name = "shop";
  const container = {
    name: "application",
    image: "registry.example.com/shop:1",
    env: [
      { name: "POD", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
      { name: "ADDRESS", value: address },
    ],
    ports: [{ containerPort: 9_000 }],
    readinessProbe: { httpGet: { port: 9_000 }, periodSeconds: 2 },
  };
  const [, service] = await client.apply(
    [
      {
        ...DEPLOYMENT,
        metadata: { name },
        spec: {
          replicas,
          selector: { matchLabels: labels },
          strategy: { rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
          template: {
            metadata: { labels },
            spec: { terminationGracePeriodSeconds: 60, containers: [container] },
          },
        },
      },
      {
        apiVersion: "v1",
        kind: "Service",
        metadata: { name },
        spec: { selector: labels, ports: [{ name: "http", port: 80, targetPort: ENVOY_PORT }] },
      },
    ],
    namespace,
  );
  const deployment = { ...DEPLOYMENT, name, namespace };
  await client.wait(deployment, "the shop is ready", isRolledOut);
  const front = { host: service?.["spec"].clusterIP, port: 80 };
  const pods = new Set<string>();
  await until("the Service leads to each pod", async () => {
    const answers = await sendAsNew(front, 1).catch(() => []);
    for (const { status, body } of answers) if (status === 200) pods.add(body);
    return pods.size === replicas;
  });
  return { namespace, deployment, front };
}

/** True if every replica is of the latest template and ready, and no other is left. */
function isRolledOut({ metadata, spec, status }: KubeObject): boolean {
  return (
    status?.observedGeneration === metadata.generation &&
    status.updatedReplicas === spec.replicas &&
    status.replicas === spec.replicas &&
    status.readyReplicas === spec.replicas
  );
}

/** Restarts as `kubectl rollout restart` does, and resolves when all pods are new. */
export async function rollOut(
  client: KubeClient,
  deployment: Ref,
  selector: string,
): Promise<void> {
  const annotations = { "kubectl.kubernetes.io/restartedAt": new Date().toISOString() };
  await client.merge(deployment, { spec: { template: { metadata: { annotations } } } });
  await client.wait(deployment, "it is rolled out", isRolledOut);
  const { namespace = "" } = deployment;
  const pods = { apiVersion: "v1", kind: "Pod", namespace };
  for (;;) {
    // Pods that end are no replicas any more, and still serve what they have begun.
    const all = await client.list(pods, selector);
    if (all.every(({ metadata }) => !("deletionTimestamp" in metadata))) return;
    await sleep(100);
  }
}

export interface Answer {
  readonly status: number;
  /** The application answers with the name of its pod. */
  readonly body: string;
  /** Time until the answer was there. */
  readonly ms: number;
}

/** Sends one request of a user, over a connection of its own unless an agent has others. */
export function send(
  { host, port }: Front,
  user: string,
  agent = new Agent({ keepAlive: false }),
): Promise<Answer> {
  const started = performance.now();
  return new Promise((resolve, reject) => {
    const sent = request({ host, port, path: "/", headers: { "x-user": user }, agent });
    sent.on("response", (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (text: string) => {
        body += text;
      });
      response.on("error", reject);
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          body: body.trim(),
          ms: performance.now() - started,
        }),
      );
    });
    sent.on("error", reject);
    sent.end();
  });
}

let users = 0;

/** The statuses of some requests of a user who has sent none before. */
async function sendAsNew(front: Front, requests: number): Promise<readonly Answer[]> {
  const user = `new-${users++}`;
  const answers: Answer[] = [];
  for (let at = 0; at < requests; at++) answers.push(await send(front, user));
  return answers;
}

/** Waits until a new user may send exactly as many requests as this, and resolves with the answers to that user. */
export async function inForce(front: Front, requests: number): Promise<readonly Answer[]> {
  let answers: readonly Answer[] = [];
  await until(`a policy of ${requests} is in force at ${front.host}`, async () => {
    // A Service has its endpoints a moment after its pods are ready.
    answers = await sendAsNew(front, requests + 1).catch(() => []);
    return (
      answers.filter(({ status }) => status === 200).length === requests &&
      answers.at(-1)?.status === 429
    );
  });
  return answers;
}
