// A kubelet for tests: its node is this machine, and the pods that the scheduler gives to it live. Each container is a
// process in the network namespace of its pod. Containers have neither cgroups nor process namespaces, so limits of
// resources have no effect. What a pod asks for and this kubelet does not know is an error of the pod.

import { setTimeout as sleep } from "node:timers/promises";
import type { Ending } from "../../kit/ending.ts";
import type { KubeClient } from "../../kit/kube/client.ts";
import { now } from "./container/container.ts";
import type { Images } from "./container/images.ts";
import type { Ran } from "./container/process.ts";
import { serveNames } from "./node/names.ts";
import { NODE_ADDRESS, type NodeNetwork } from "./node/network.ts";
import { Services } from "./node/services.ts";
import type { EndpointSliceObject, PodObject, ServiceObject } from "./objects.ts";
import { LivingPod } from "./pod.ts";

export interface KubeletOptions {
  readonly client: KubeClient;
  readonly network: NodeNetwork;
  readonly images: Images;
  /** Folder of the logs of containers. */
  readonly logs: string;
}

export interface PodName {
  readonly namespace: string;
  readonly name: string;
}

export const NODE_NAME = "living";
const POLL_MS = 200;
/** Services learn of endpoints later than pods learn that they end, as on the nodes of a real cluster. */
const SERVICES_POLL_MS = 1_000;
const LEASE_MS = 5_000;
const LEASE_SECONDS = 40;
const NODES = "kube-node-lease";

/** Starts a kubelet that runs until the test ends. Its node is ready when this resolves. */
export async function startKubelet(test: Ending, options: KubeletOptions): Promise<Kubelet> {
  const kubelet = new Kubelet(options);
  test.after(() => kubelet.close());
  await kubelet.open();
  return kubelet;
}

export class Kubelet {
  readonly #options: KubeletOptions;
  readonly #services: Services;
  readonly #closing = new AbortController();
  readonly #pods = new Map<string, LivingPod>();
  #leased = Number.NEGATIVE_INFINITY;
  #known: readonly ServiceObject[] = [];
  #polling: Promise<unknown> | undefined;
  #names: { close(): unknown } | undefined;

  constructor(options: KubeletOptions) {
    this.#options = options;
    this.#services = new Services(options.network);
  }

  async open(): Promise<void> {
    this.#names = await serveNames((name, namespace) =>
      this.#services.addressesOf(name, namespace),
    );
    await this.#register();
    this.#polling = Promise.all([
      this.#poll(POLL_MS, () => this.#follow()),
      this.#poll(SERVICES_POLL_MS, () => this.#followServices()),
    ]);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#polling;
    await Promise.all([...this.#pods.values()].map((pod) => pod.cut()));
    await this.#services.close();
    this.#names?.close();
  }

  /** Runs a command in a container of a pod, like `kubectl exec`; in the application's first one by default. */
  exec(pod: PodName, command: readonly string[], container?: string): Promise<Ran> {
    return this.#pod(pod).container(container).exec(command);
  }

  /** Path of the file with all that a container has printed. */
  logOf(pod: PodName, container?: string): string {
    const living = this.#pod(pod);
    return living.logOf(living.container(container).spec.name);
  }

  #pod({ namespace, name }: PodName): LivingPod {
    const found = [...this.#pods.values()].find((pod) => pod.name === `${namespace}/${name}`);
    if (found === undefined) throw new Error(`no pod ${namespace}/${name} lives here`);
    return found;
  }

  async #register(): Promise<void> {
    const node = { apiVersion: "v1", kind: "Node" };
    const labels = { "kubernetes.io/hostname": NODE_NAME, "kubernetes.io/os": "linux" };
    const resources = { cpu: "1000", memory: "4000Gi", pods: "1000" };
    await this.#options.client.apply([{ ...node, metadata: { name: NODE_NAME, labels } }]);
    const status = {
      capacity: resources,
      allocatable: resources,
      addresses: [{ type: "InternalIP", address: NODE_ADDRESS }],
      conditions: [
        {
          type: "Ready",
          status: "True",
          reason: "KubeletReady",
          message: "kubelet of the tests",
          lastHeartbeatTime: now(),
          lastTransitionTime: now(),
        },
      ],
    };
    await this.#options.client.merge({ ...node, name: NODE_NAME }, { status }, "status");
  }

  async #poll(ms: number, follow: () => Promise<void>): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      // Without the API server everything goes on as it is.
      await follow().catch(() => undefined);
      await sleep(ms, undefined, { signal }).catch(() => undefined);
    }
  }

  async #followServices(): Promise<void> {
    const services = await this.#list<ServiceObject>("/api/v1/services");
    const slices = await this.#list<EndpointSliceObject>(
      "/apis/discovery.k8s.io/v1/endpointslices",
    );
    await this.#services.follow(services, slices);
    this.#known = services;
  }

  async #follow(): Promise<void> {
    await this.#renew();
    const own = `fieldSelector=${encodeURIComponent(`spec.nodeName=${NODE_NAME}`)}`;
    const pods = await this.#list<PodObject>(`/api/v1/pods?${own}`);
    for (const pod of pods) await this.#followPod(pod);
    const listed = new Set(pods.map(({ metadata }) => metadata.uid));
    for (const [uid, living] of this.#pods) {
      if (listed.has(uid)) continue;
      void living.cut().then(() => this.#pods.delete(uid));
    }
  }

  async #followPod(pod: PodObject): Promise<void> {
    const { uid, deletionTimestamp } = pod.metadata;
    const living = this.#pods.get(uid);
    if (living !== undefined) {
      living.update(pod);
      void living.ended?.then(() => this.#delete(pod));
    } else if (deletionTimestamp !== undefined) await this.#delete(pod);
    else if (!["Succeeded", "Failed"].includes(pod["status"]?.phase)) {
      const env = apiServerIn(this.#known);
      if (env !== undefined) this.#pods.set(uid, new LivingPod(pod, { ...this.#options, env }));
    }
  }

  /** The pod has ended: its object may go. */
  async #delete({ metadata: { namespace, name, uid } }: PodObject): Promise<void> {
    const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
    const options = { gracePeriodSeconds: 0, preconditions: { uid } };
    await this.#options.client.call("DELETE", path, options).catch(() => undefined);
  }

  /** By its lease the node stays ready. */
  async #renew(): Promise<void> {
    if (performance.now() - this.#leased < LEASE_MS) return;
    const lease = {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name: NODE_NAME, namespace: NODES },
      spec: {
        holderIdentity: NODE_NAME,
        leaseDurationSeconds: LEASE_SECONDS,
        renewTime: new Date().toISOString().replace("Z", "000Z"),
      },
    };
    await this.#options.client.apply([lease]);
    this.#leased = performance.now();
  }

  async #list<T>(path: string): Promise<readonly T[]> {
    const { status, body } = await this.#options.client.call("GET", path);
    if (status !== 200) throw new Error(`${path}: ${status}`);
    return body.items;
  }
}

/** Variables by which programs find the API server in a cluster; undefined while its Service is not there. */
function apiServerIn(
  services: readonly ServiceObject[],
): Readonly<Record<string, string>> | undefined {
  const service = services.find(
    ({ metadata }) => metadata.namespace === "default" && metadata.name === "kubernetes",
  );
  const address = service?.spec.clusterIP;
  const port = service?.spec.ports?.[0]?.port;
  if (address === undefined || port === undefined) return undefined;
  return { KUBERNETES_SERVICE_HOST: address, KUBERNETES_SERVICE_PORT: `${port}` };
}
