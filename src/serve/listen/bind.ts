// Opens the listening socket: TCP of either family, or a Unix socket, whose file a dead process may have left behind.

import { lstat, unlink } from "node:fs/promises";
import { createConnection, type ListenOptions, type Server } from "node:net";
import { Fault, systemErrorText } from "#base/fault.ts";
import { joinHostPort, whyNotBound } from "#base/net/host-port.ts";
import type { Binding } from "./address.ts";

/** Starts to listen, or throws a Fault that says why it cannot. */
export async function bind(server: Server, binding: Binding): Promise<void> {
  const { key } = binding;
  if (binding.kind === "unix") {
    await removeStale(key, binding.path);
    return listen(server, key, { path: binding.path });
  }
  const { host, port, ipv6Only } = binding;
  return listen(server, key, host === undefined ? { port } : { host, port, ipv6Only });
}

function listen(server: Server, key: string, options: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (cause: Error & { readonly code?: string }) => {
      server.off("listening", listening);
      reject(listenFault(key, options, cause));
    };
    const listening = () => {
      server.off("error", failed);
      resolve();
    };
    server.once("error", failed);
    server.once("listening", listening);
    server.listen(options);
  });
}

/** An address in use may be free at the next start, but an unusable path is an invalid setting. */
function listenFault(
  key: string,
  options: ListenOptions,
  cause: Error & { readonly code?: string },
): Fault {
  const inUse = cause.code === "EADDRINUSE";
  const kind = options.path === undefined || inUse ? "UNAVAILABLE" : "INVALID_ARGUMENT";
  return new Fault(kind, `cannot listen on ${key}: ${whyNotBound(addressOf(options), cause)}`);
}

function addressOf({ path, host = "", port }: ListenOptions): string {
  return path ?? joinHostPort(host, port ?? 0);
}

/** Removes a socket file on which nothing listens. Any other file in its place is left alone and reported. */
async function removeStale(key: string, path: string): Promise<void> {
  const found = await lstat(path).catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code === "ENOENT") return undefined;
    const why = systemErrorText(thrown);
    throw new Fault("INVALID_ARGUMENT", `${key}: the path cannot be read: ${why}`);
  });
  if (found === undefined) return;
  if (!found.isSocket()) {
    const found = "the path is taken by a file that is not a socket";
    throw new Fault("INVALID_ARGUMENT", `${key}: ${found}`);
  }
  if (await hasListener(path)) {
    throw new Fault("UNAVAILABLE", `${key}: another process listens on this socket`);
  }
  await unlink(path);
}

function hasListener(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createConnection({ path });
    const done = (alive: boolean) => {
      probe.destroy();
      resolve(alive);
    };
    probe.once("connect", () => done(true));
    // Only a refused connection proves that nothing listens: missing permission or a full backlog does not.
    probe.once("error", (thrown: NodeJS.ErrnoException) => done(thrown.code !== "ECONNREFUSED"));
  });
}
