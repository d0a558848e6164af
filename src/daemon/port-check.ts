// The check that a port of this process accepts connections.

import { createConnection } from "node:net";
import { Fault, systemErrorText } from "#base/fault.ts";
import { splitHostPort } from "#base/net/host-port.ts";

/**
 * Connects to an address that this process listens on, and closes the connection at once. Throws UNAVAILABLE when it
 * cannot connect, and whatever aborts `signal`.
 */
export function checkPort(address: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(target(address));
    const end = (settle: () => void) => {
      signal.removeEventListener("abort", aborted);
      socket.destroy();
      settle();
    };
    const aborted = () => end(() => reject(signal.reason));
    socket.once("connect", () => end(() => resolve(`${address} accepts connections`)));
    socket.once("error", (thrown) => {
      const why = systemErrorText(thrown);
      end(() => reject(new Fault("UNAVAILABLE", `cannot connect to ${address}: ${why}`)));
    });
    signal.addEventListener("abort", aborted);
    if (signal.aborted) aborted();
  });
}

/** The address to connect to for a bound one, which may be that of every interface. */
function target(address: string): { path: string } | { host: string; port: number } {
  if (address.startsWith("unix:")) return { path: address.slice("unix:".length) };
  const { host, port } = splitHostPort(address);
  const every: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };
  return { host: every[host] ?? host, port: Number(port) };
}
