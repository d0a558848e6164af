// What the tests with living pods share: an installation of the chart for trials, a service that it protects, a policy, and
// requests of users.

import { Agent, request } from "node:http";
import { join } from "node:path";
import type { Ending } from "../../../kit/ending.ts";
import type { KubeClient, KubeObject } from "../../../kit/kube/client.ts";
import { namespaceOf } from "../../../kit/kube/control-plane.ts";
import { chartPath, helm } from "../../../kit/kube/helm.ts";
import { type LivingCluster, startLivingCluster } from "../../../kit/kube/kubelet/cluster.ts";
import { nodeImage } from "../../../kit/kube/kubelet/container/images.ts";

export const DEPLOYMENT = { apiVersion: "apps/v1", kind: "Deployment" };
export const POLICY = { apiVersion: "fluxninja.com/v1alpha1", kind: "Policy" };
export const HOME = "sluice";

/** A cluster with Sluice, as its chart installs it for a trial, and with an Envoy before each application. */
export async function startInstalled(test: Ending): Promise<LivingCluster> {
  const application = () => nodeImage(join(import.meta.dirname, "application.ts"));
  const cluster = await startLivingCluster(test, { shop: application });
  const { client, kubeconfig } = cluster;
  // This cluster has nobody who makes volumes.
  await client.apply([
    {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name: "trial" },
      spec: {
        capacity: { storage: "1Gi" },
        accessModes: ["ReadWriteOnce"],
        hostPath: { path: "/trial" },
      },
    },
  ]);
  const flags = ["--namespace", HOME, "--create-namespace", "--wait", "--timeout", "10m"];
  await helm(["install", "sluice", chartPath("sluice"), ...flags], {
    values: { "sluice-agent": { sidecars: { envoy: { inject: true } } } },
    kubeconfig,
  });
  return cluster;
}

/** Each user may send as many requests as this, and the bucket is as good as never refilled. */
export function policyOf(requests: number): object {
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
                },
              },
            },
          },
        ],
      },
    },
  };
}

export interface Shop {
  readonly namespace: string;
  readonly deployment: { readonly name: string; readonly namespace: string } & typeof DEPLOYMENT;
  /** Address of the Service. */
  readonly address: string;
}

/** Makes a labelled namespace with a Deployment of the application and a Service that points at Envoy; waits until all pods are ready. */
export async function openShop(test: Ending, client: KubeClient, replicas: number): Promise<Shop> {
  const namespace = await namespaceOf(test, client, { "sluice-injection": "enabled" });
  const labels = { app: "shop" };
  const name = "shop";
  const container = {
    name: "application",
    image: "registry.example.com/shop:1",
    env: [{ name: "POD", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } }],
    ports: [{ containerPort: 9_000 }],
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
        spec: { selector: labels, ports: [{ name: "http", port: 80, targetPort: 10_000 }] },
      },
    ],
    namespace,
  );
  const deployment = { ...DEPLOYMENT, name, namespace };
  await client.wait(deployment, "the shop is ready", isRolledOut);
  return { namespace, deployment, address: service?.["spec"].clusterIP };
}

/** Whether every replica is of the latest template and ready, and no other is left. */
export function isRolledOut({ metadata, spec, status }: KubeObject): boolean {
  return (
    status?.observedGeneration === metadata.generation &&
    status.updatedReplicas === spec.replicas &&
    status.replicas === spec.replicas &&
    status.readyReplicas === spec.replicas
  );
}

/** Sends one request of a user over a connection of its own, and resolves with the status and the pod that answered. */
export function send(
  { address }: Shop,
  user: string,
): Promise<{ readonly status: number; readonly body: string }> {
  const agent = new Agent({ keepAlive: false });
  return new Promise((resolve, reject) => {
    const sent = request({ host: address, path: "/", headers: { "x-user": user }, agent });
    sent.on("response", (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (text: string) => {
        body += text;
      });
      response.on("error", reject);
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body: body.trim() }));
    });
    sent.on("error", reject);
    sent.end();
  });
}
