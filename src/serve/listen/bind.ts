// Opens the one listening socket: TCP of either family, or a Unix socket whose file may be left over from a
// process that died.

import { lstat, unlink } from "node:fs/promises";
import { createConnection, type ListenOptions, type Server } from "node:net";
import { Fault } from "#base/fault.ts";
import { reasonOf } from "#base/reason.ts";
import type { Binding } from "./address.ts";

/** Listens, or throws a Fault that says why not. */
export async function bind(server: Server, binding: Binding): Promise<void> {
  if (binding.kind === "unix") {
    await removeStale(binding.path);
    return listen(server, { path: binding.path });
  }
  const { host, port, ipv6Only } = binding;
  return listen(server, host === undefined ? { port } : { host, port, ipv6Only });
}

function listen(server: Server, options: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (cause: Error & { readonly code?: string }) => {
      server.off("listening", listening);
      reject(unusable(options, cause));
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

/** An address in use may be free at the next start; a path where no socket can be made is a wrong setting. */
function unusable(options: ListenOptions, cause: Error & { readonly code?: string }): Fault {
  const { code = cause.message } = cause;
  const inUse = code === "EADDRINUSE";
  const remedy = "stop what listens there, or set another";
  const why = inUse ? `the address is in use (${addressOf(options)}); ${remedy}` : code;
  const kind = options.path === undefined || inUse ? "UNAVAILABLE" : "INVALID_ARGUMENT";
  return new Fault(kind, `cannot listen on server.listener.addr: ${why}`);
}

function addressOf({ path, host = "", port }: ListenOptions): string {
  return path ?? `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** Removes a socket file that nobody answers on. Anything else in its place is left alone and refused. */
async function removeStale(path: string): Promise<void> {
  const found = await lstat(path).catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code === "ENOENT") return undefined;
    const why = reasonOf(thrown);
    throw new Fault("INVALID_ARGUMENT", `server.listener.addr: the path cannot be read: ${why}`);
  });
  if (found === undefined) return;
  if (!found.isSocket()) {
    const found = "a file that is no socket is in its place";
    throw new Fault("INVALID_ARGUMENT", `server.listener.addr: ${found}`);
  }
  if (await answers(path)) {
    throw new Fault("UNAVAILABLE", "server.listener.addr: another process listens on this socket");
  }
  await unlink(path);
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createConnection({ path });
    const done = (alive: boolean) => {
      probe.destroy();
      resolve(alive);
    };
    probe.once("connect", () => done(true));
    // Only a refusal proves that nobody is there: no permission or a full backlog do not.
    probe.once("error", (thrown: NodeJS.ErrnoException) => done(thrown.code !== "ECONNREFUSED"));
  });
}
