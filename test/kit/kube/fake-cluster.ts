// Pods and Services of a cluster whose API server a test writes itself, and agents' checks that name their addresses.

import { join } from "node:path";
import type { TestContext } from "node:test";
import type { KubeObject } from "#kube/api/objects.ts";
import { folderOf } from "../folder.ts";
import { type FakeApi, fakeApi, type Watching } from "./fake-api.ts";

export const SLICES = "/apis/discovery.k8s.io/v1/endpointslices";
export const SERVICES = "/api/v1/services";

/** The endpoints of the Service `web` of a namespace: addresses by the name of the pod. */
export function slice(
  namespace: string,
  version: string,
  pods: Readonly<Record<string, string>>,
  { name = "web-x", addressType = "IPv4" } = {},
): KubeObject {
  const endpoints = Object.entries(pods).map(([pod, address]) => ({
    addresses: [address],
    nodeName: "n1",
    targetRef: { kind: "Pod", name: pod, namespace, uid: `uid-${pod}` },
  }));
  const labels = { "kubernetes.io/service-name": "web" };
  const metadata = { name, namespace, uid: name, resourceVersion: version, labels };
  return { metadata, addressType, endpoints } as KubeObject;
}

export function service(clusterIP: string): KubeObject {
  const metadata = { name: "web", namespace: "a", uid: "v", resourceVersion: "1" };
  return { metadata, spec: { type: "ClusterIP", clusterIP } } as KubeObject;
}

export interface FakeCluster {
  readonly api: FakeApi;
  /** The latest watch of each kind, by its path. */
  readonly watches: ReadonlyMap<string, Watching>;
  /** The objects of lists from now on, by the path of their kind. */
  objects: Readonly<Record<string, readonly KubeObject[]>>;
  /** Environment of a process in this cluster. */
  readonly env: Readonly<Record<string, string>>;
}

export async function fakeCluster(
  t: TestContext,
  objects: FakeCluster["objects"],
): Promise<FakeCluster> {
  const api = await fakeApi(t);
  const watches = new Map<string, Watching>();
  let path = "";
  const cluster = { api, watches, objects, env: environmentOf(t, api) };
  api.before = (asked) => {
    path = asked.path;
    api.items = cluster.objects[path] ?? [];
    return false;
  };
  // The server calls this for the request that it has just asked about.
  api.began = (watch) => void watches.set(path, watch);
  return cluster;
}

export function environmentOf(t: TestContext, { url }: Pick<FakeApi, "url">) {
  const config = {
    clusters: [{ name: "c", cluster: { server: url } }],
    users: [{ name: "u", user: { token: "t" } }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  };
  const KUBECONFIG = join(folderOf(t, { config: JSON.stringify(config) }), "config");
  return { KUBECONFIG, KUBERNETES_SERVICE_HOST: "10.96.0.1" };
}

/** The reply to a check of a request between these addresses. */
export async function checked(agent: string, source: string, destination: string) {
  const request = { source: { address: source }, destination: { address: destination } };
  const headers = { "content-type": "application/json" };
  const reply = await fetch(`http://${agent}/v1/flowcontrol/checkhttp`, {
    method: "POST",
    headers,
    body: JSON.stringify({ control_point: "ingress", ...request }),
  });
  const { check_response: answer } = (await reply.json()) as {
    check_response: {
      services: string[];
      decision_type: string;
      telemetry_flow_labels: Record<string, string>;
    };
  };
  return {
    decision: answer.decision_type,
    services: answer.services,
    source: answer.telemetry_flow_labels["aperture.source_fqdns"],
    destination: answer.telemetry_flow_labels["aperture.destination_fqdns"],
  };
}
