// A port for a process that must be told its number.

import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/**
 * Below the ports that the system gives to connections and to servers that take any, so that none of these takes a port
 * before the process that is told it. The bus of a node of Redis Cluster is 10 000 above its port: below those of the system, too, and above all that are
 * given away.
 */
const FIRST = 10_000;
const COUNT = 10_000;

/** Ports that this process has given away, or found in use. */
const given = new Set<number>();

/** A port of 127.0.0.1 that is free. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + randomInt(COUNT);
    if (given.has(port)) continue;
    // At once, so that a call that runs beside this one tries others.
    given.add(port);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
  });
}
