// Starts server processes on a core of their own, keeps the load on another core, and reads from outside how much
// processor time and memory each server uses.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import { dial, type Target } from "../load/connection.ts";
import { goServer } from "./go/build.ts";
import {
  cpuSeconds,
  peakResidentBytes,
  privateBytes,
  resetPeakResident,
  residentBytes,
} from "./usage.ts";

export const SERVER_CORE = "0";
const LOAD_CORE = "1";
const NOOP = join(import.meta.dirname, "no-op.ts");
const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 8_000;

/** Lets signals end this process by an exit, which runs the handlers that kill the servers. */
export function killServersOnSignal(): void {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
  process.setMaxListeners(0);
}

/** Pins this process, which sends the load, and its children to the load's core. */
export function pinLoad(): void {
  killServersOnSignal();
  execFileSync("taskset", ["-a", "-c", "-p", LOAD_CORE, String(process.pid)], { stdio: "ignore" });
}

/** A server process that accepts connections. */
export interface Running {
  readonly target: Target;
  /** CPU seconds of all threads since the process started. */
  cpu(): number;
  /** Resident bytes now. */
  resident(): number;
  /** Bytes of memory that no other process shares. */
  private(): number;
  /** Peak of resident bytes since the last call. */
  peak(): number;
  stop(): Promise<void>;
}

/** Starts Node with these arguments on the servers' core, or others (`0-1`), with an IPC channel. */
export function spawnPinned(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cores = SERVER_CORE,
) {
  const child = spawn("taskset", ["-c", cores, process.execPath, ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  killOnExit(child);
  return child;
}

/** Kills the child when this process ends, however it ends. */
export function killOnExit(child: ChildProcess): void {
  const kill = () => child.kill("SIGKILL");
  process.on("exit", kill);
  child.once("exit", () => process.off("exit", kill));
}

export type Noop = "own" | "grpc-js" | "http2" | "http" | "grpc-go";

/** Starts a server that answers every request with this many bytes and decides nothing. */
export async function startNoop(kind: Noop, target: Target, reply: number): Promise<Running> {
  if (kind !== "grpc-go")
    return accepting(spawnPinned([NOOP, kind, target, String(reply)]), target);
  const child = spawn("taskset", ["-c", SERVER_CORE, goServer("grpc-go"), target, String(reply)], {
    env: { ...process.env, GOMAXPROCS: "1" },
    stdio: ["ignore", "ignore", "inherit"],
  });
  killOnExit(child);
  return accepting(child, target);
}

/** Waits until the child accepts connections at `target`. */
export async function accepting(child: ChildProcess, target: Target): Promise<Running> {
  await reachable(target, child);
  const { pid } = child;
  if (pid === undefined) throw new Error("the server has no process");
  return {
    target,
    cpu: () => cpuSeconds(pid),
    resident: () => residentBytes(pid),
    private: () => privateBytes(pid),
    peak() {
      const bytes = peakResidentBytes(pid);
      resetPeakResident(pid);
      return bytes;
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS).unref();
      await ended;
    },
  };
}

async function reachable(target: Target, child: ChildProcess): Promise<void> {
  const end = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < end && child.exitCode === null) {
    const socket = await dial(target).catch(() => undefined);
    if (socket !== undefined) {
      socket.destroy();
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`no server at ${target}`);
}

/** A loopback address whose port was free a moment ago. */
export async function freeTarget(): Promise<Target> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  server.close();
  await once(server, "close");
  return `127.0.0.1:${address.port}`;
}

/** Body of the reply to a GET, or to a POST of `body`. Rejects when the status is not 200. */
export async function fetchBody(target: Target, path: string, body?: Buffer): Promise<string> {
  const where = target.startsWith("unix:")
    ? { socketPath: target.slice("unix:".length) }
    : { host: "127.0.0.1", port: target.slice(target.lastIndexOf(":") + 1) };
  const call = request({
    ...where,
    path,
    method: body === undefined ? "GET" : "POST",
    headers: { "content-type": "application/json" },
    agent: false,
  });
  // `once` below rejects on the first error event; a reply that breaks off emits a second one.
  call.on("error", () => undefined);
  call.end(body);
  const [reply] = await once(call, "response");
  let text = "";
  for await (const part of reply) text += part;
  if (reply.statusCode !== 200) throw new Error(`${path} answered ${reply.statusCode}`);
  return text;
}
