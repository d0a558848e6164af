// Finds an offset by which all ports of the demos are free, so that tests can run beside each other.

import { createServer, type Server } from "node:net";

const PORTS = [8080, 9000, 9090, 9901, 10_000];

/** Listens on the port; undefined when it is taken. */
export function listen(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

export const close = (server: Server) => new Promise((resolve) => server.close(resolve));

export async function areFree(shift: number): Promise<boolean> {
  const servers = await Promise.all(PORTS.map((port) => listen(port + shift)));
  for (const server of servers) if (server !== undefined) await close(server);
  return servers.every((server) => server !== undefined);
}

/** The first such offset from `from` on. Test files run in parallel, so each starts at another one. */
export async function freeShift(from = 0): Promise<number> {
  for (let shift = from; shift < from + 20_000; shift += 111)
    if (await areFree(shift)) return shift;
  throw new Error("no free ports");
}
