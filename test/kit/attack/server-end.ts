// The server's ends of connections to ports in this process: what has arrived there, and what became of them. It keeps all
// sockets of the process.

import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { until } from "../until.ts";

/** The server's ends of connections in this process, by the port of the peer. */
const accepted = new Map<number | undefined, Socket>();

/** Number of connections that were accepted by a port in this process. */
const acceptedBy = new Map<number | undefined, number>();

subscribe("net.server.socket", (message) => {
  const { socket } = message as { readonly socket: Socket };
  accepted.set(socket.remotePort, socket);
  acceptedBy.set(socket.localPort, connectionsTo(socket.localPort) + 1);
});

/** Number of connections that a port in this process has accepted. */
export function connectionsTo(port: number | undefined): number {
  return acceptedBy.get(port) ?? 0;
}

/** The server's end of a connection to a port in this process; undefined until it is accepted. */
export function serverEnd(client: Socket): Socket | undefined {
  return accepted.get(client.localPort);
}

/** Resolves once the server, which is in this process, has read all that was written, or has ended the connection. */
export async function arrived(client: Socket): Promise<void> {
  await until("what was written is read", () => {
    if (client.connecting) return false;
    const server = serverEnd(client);
    if (client.destroyed || client.readableEnded || server?.destroyed === true) return true;
    return client.writableLength === 0 && server?.bytesRead === client.bytesWritten;
  });
}

/** Turns of the event loop in which a server in this process reads what the system has for it, and acts upon it. */
const TURNS = 10;

/** Resolves once the server, which is in this process, could have read all that was written, whether or not it did. */
export async function offered(client: Socket): Promise<void> {
  const written = () => !client.connecting && client.writableLength === 0;
  await until("all is written", () => client.destroyed || written());
  for (let turns = 0; turns < TURNS; turns++) await turn();
}
