// Finds an offset by which all ports of the demos are free, so that tests can run beside each other.

import { createServer, type Server } from "node:net";

/** Ports of the demos with one agent. */
const SIDECAR = [8080, 9000, 9901, 10_000];

/** Ports of the demo of a fleet: etcd, Redis, controllers, agents, the service, and each Envoy with its admin port. */
export const FLEET = [
  2379, 2380, 6379, 8081, 8082, 8083, 8091, 8092, 9000, 9911, 9912, 9913, 10_001, 10_002, 10_003,
];

/** Listens on the port; undefined when it is taken. */
export function listen(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

export const close = (server: Server) => new Promise((resolve) => server.close(resolve));

export async function areFree(shift: number, ports = SIDECAR): Promise<boolean> {
  const servers = await Promise.all(ports.map((port) => listen(port + shift)));
  for (const server of servers) if (server !== undefined) await close(server);
  return servers.every((server) => server !== undefined);
}

/** The first such offset from `from` on. Test files run in parallel, so each starts at another one. */
export async function freeShift(from = 0, ports = SIDECAR): Promise<number> {
  for (let shift = from; shift < from + 20_000; shift += 111)
    if (await areFree(shift, ports)) return shift;
  throw new Error("no free ports");
}
