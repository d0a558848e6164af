// How far the demos' ports must move to be free.

import { createServer, type Server } from "node:net";

const PORTS = [8080, 9000, 9090, 9901, 10_000];

/** Undefined where the port is taken. */
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

/** Test files run beside each other: each begins to look elsewhere. */
export async function freeShift(from = 0): Promise<number> {
  for (let shift = from; shift < from + 20_000; shift += 111)
    if (await areFree(shift)) return shift;
  throw new Error("no free ports");
}
