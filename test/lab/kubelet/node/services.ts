// Stands in for kube-proxy: the addresses of Services lead to their ready endpoints. Each port of a Service is a listener of
// this process on the Service's address, which passes connections on. So a Service sees the node's address as its client.

import { createServer, connect as open, type Server, type Socket } from "node:net";
import type { EndpointSliceObject, ServiceObject } from "../objects.ts";
import { NODE_ADDRESS, type NodeNetwork } from "./network.ts";

const OF_SERVICE = "kubernetes.io/service-name";

interface Target {
  readonly host: string;
  readonly port: number;
}

interface Listener {
  readonly server: Server;
  readonly sockets: Set<Socket>;
  targets: readonly Target[];
  next: number;
}

export class Services {
  readonly #network: NodeNetwork;
  /** By `address:port` of the Service. */
  readonly #listeners = new Map<string, Listener>();
  #all: readonly ServiceObject[] = [];
  #slices: readonly EndpointSliceObject[] = [];

  constructor(network: NodeNetwork) {
    this.#network = network;
  }

  /** Makes the listeners those of these Services. */
  async follow(
    services: readonly ServiceObject[],
    slices: readonly EndpointSliceObject[],
  ): Promise<void> {
    this.#all = services;
    this.#slices = slices;
    const wanted = new Set<string>();
    for (const service of services) {
      const address = service.spec.clusterIP ?? "None";
      if (address === "None" || address === "") continue;
      for (const { name, port, protocol = "TCP" } of service.spec.ports ?? []) {
        if (protocol !== "TCP") continue;
        const key = `${address}:${port}`;
        wanted.add(key);
        const listener = this.#listeners.get(key) ?? (await this.#listen(address, port));
        listener.targets = this.#targetsOf(service, name ?? "");
      }
    }
    for (const key of this.#listeners.keys()) if (!wanted.has(key)) await this.#remove(key);
  }

  /** Addresses that `NAME.NAMESPACE.svc` has, undefined where there is no such Service. */
  addressesOf(name: string, namespace: string): readonly string[] | undefined {
    const service = this.#all.find(
      ({ metadata }) => metadata.name === name && metadata.namespace === namespace,
    );
    if (service === undefined) return undefined;
    const address = service.spec.clusterIP ?? "None";
    if (address !== "None") return [address];
    return this.#slicesOf(service).flatMap(({ endpoints }) =>
      (endpoints ?? []).filter(isReady).flatMap(({ addresses }) => addresses),
    );
  }

  async close(): Promise<void> {
    for (const key of this.#listeners.keys()) await this.#remove(key);
  }

  #slicesOf({ metadata }: ServiceObject): readonly EndpointSliceObject[] {
    return this.#slices.filter(
      (slice) =>
        slice.metadata.namespace === metadata.namespace &&
        slice.metadata.labels?.[OF_SERVICE] === metadata.name,
    );
  }

  /** The ready endpoints, or those that still serve while they end where none is ready, as kube-proxy chooses. */
  #targetsOf(service: ServiceObject, portName: string): readonly Target[] {
    const ready: Target[] = [];
    const serving: Target[] = [];
    for (const { endpoints, ports } of this.#slicesOf(service)) {
      const port = ports?.find(({ name }) => (name ?? "") === portName)?.port;
      if (port === undefined) continue;
      for (const endpoint of endpoints ?? []) {
        const targets = endpoint.addresses.map((host) => ({ host: reachable(host), port }));
        if (isReady(endpoint)) ready.push(...targets);
        else if (endpoint.conditions?.serving === true) serving.push(...targets);
      }
    }
    return ready.length > 0 ? ready : serving;
  }

  async #listen(address: string, port: number): Promise<Listener> {
    const sockets = new Set<Socket>();
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      const target = listener.targets[listener.next++ % listener.targets.length];
      if (target === undefined) {
        client.resetAndDestroy();
        return;
      }
      const upstream = open({ ...target, allowHalfOpen: true, noDelay: true });
      for (const [from, to] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        sockets.add(from);
        from.pipe(to);
        from.on("error", () => to.resetAndDestroy());
        from.once("close", () => {
          sockets.delete(from);
          to.destroySoon();
        });
      }
    });
    const listener: Listener = { server, sockets, targets: [], next: 0 };
    await this.#network.addAddress(address);
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, address, resolve);
    });
    this.#listeners.set(`${address}:${port}`, listener);
    return listener;
  }

  async #remove(key: string): Promise<void> {
    const listener = this.#listeners.get(key);
    this.#listeners.delete(key);
    for (const socket of listener?.sockets ?? []) socket.destroy();
    await new Promise((resolve) => listener?.server.close(resolve));
    const address = key.slice(0, key.lastIndexOf(":"));
    const others = [...this.#listeners.keys()].some((each) => each.startsWith(`${address}:`));
    if (!others) await this.#network.removeAddress(address);
  }
}

/** The API server says that it has the node's address, and listens on loopback. */
function reachable(host: string): string {
  return host === NODE_ADDRESS ? "127.0.0.1" : host;
}

function isReady({ conditions }: { readonly conditions?: { readonly ready?: boolean } }): boolean {
  return conditions?.ready !== false;
}
