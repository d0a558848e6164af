// Starts servers on the core that is theirs, and reads from outside what they did and what they use.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import { grpcGo } from "./grpc-go/build.ts";
import { dial, type Target } from "./lane.ts";

const SERVER_CORE = "0";
const LOAD_CORE = "1";
const HERE = join(import.meta.dirname, "../..");
const NOOP = join(import.meta.dirname, "noop.ts");
const PROBE = join(import.meta.dirname, "probe.ts");
const PATIENCE_MS = 60_000;
const SETTLE_MS = 1_000;

/** This process sends the load: it and its children stay on the other core. */
export function takeLoadCore(): void {
  // Ended from outside, it ends what it started.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
  process.setMaxListeners(0);
  execFileSync("taskset", ["-a", "-c", "-p", LOAD_CORE, String(process.pid)], { stdio: "ignore" });
}

export interface Running {
  readonly target: Target;
  /** CPU seconds so far. */
  cpu(): number;
  /** Resident bytes. */
  resident(): number;
  /** Most resident bytes since this was asked last. */
  peak(): number;
  stop(): Promise<void>;
}

export interface Sluice extends Running {
  /** Checks decided so far, by the server's own counters. */
  decided(): Promise<number>;
  /** Bytes of heap, ArrayBuffers and other memory that the process holds after a full collection. */
  held(): Promise<number>;
  /** What `probe.ts` answers. */
  ask(what: string): Promise<unknown>;
}

export function pinned(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = spawn("taskset", ["-c", SERVER_CORE, process.execPath, ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  leash(child);
  return child;
}

/** Nothing outlives the bench, however it ends. */
export function leash(child: ChildProcess): void {
  const kill = () => child.kill("SIGKILL");
  process.on("exit", kill);
  child.once("exit", () => process.off("exit", kill));
}

export type Noop = "own" | "grpc-js" | "http2" | "http" | "grpc-go";

export async function startNoop(kind: Noop, target: Target, reply: number): Promise<Running> {
  if (kind !== "grpc-go") return answering(pinned([NOOP, kind, target, String(reply)]), target);
  const child = spawn("taskset", ["-c", SERVER_CORE, grpcGo(), target, String(reply)], {
    env: { ...process.env, GOMAXPROCS: "1" },
    stdio: ["ignore", "ignore", "inherit"],
  });
  leash(child);
  return answering(child, target);
}

export type Transport = "own" | "grpc-js";

/** What a standalone Sluice is started with; the rest is as it is by default. */
export function sluiceCommand(target: Target, policies: string, transport: Transport = "own") {
  // Another checkout can be measured, too: two commits are compared by their ratios to the same no-op.
  const tree = process.env["SLUICE_BENCH_TREE"] ?? HERE;
  const chooses = existsSync(join(tree, "src/serve/h2"));
  if (!chooses && transport === "own")
    process.stderr.write(`${tree} has no transport of its own\n`);
  return {
    flags: runtimeFlags(tree),
    args: [join(tree, "src/cli/sluice.ts"), "standalone", "--policies", policies],
    env: {
      SVC_AGENT_SERVER_LISTENER_ADDR: target,
      SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
      SVC_AGENT_LOG_LEVEL: "error",
      ...(chooses ? { SVC_AGENT_SERVER_GRPC_TRANSPORT: transport } : {}),
    },
  };
}

/** Those that its own script starts it with. */
function runtimeFlags(tree: string): readonly string[] {
  const { scripts } = JSON.parse(readFileSync(join(tree, "package.json"), "utf8"));
  return String(scripts.sluice)
    .split(" ")
    .filter((word) => word.startsWith("--"));
}

export interface SluiceOptions {
  readonly target: Target;
  readonly policies: string;
  readonly transport?: Transport;
  /** Of the runtime. */
  readonly flags?: readonly string[];
}

export async function startSluice(options: SluiceOptions): Promise<Sluice> {
  const { target, policies, transport } = options;
  const command = sluiceCommand(target, policies, transport);
  const given = (process.env["SLUICE_BENCH_NODE_FLAGS"] ?? "").split(" ").filter(Boolean);
  const flags = [...command.flags, ...given, ...(options.flags ?? [])];
  const child = pinned([...flags, "--expose-gc", "--import", PROBE, ...command.args], command.env);
  const ask = async (what: string): Promise<unknown> => {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const ended = () => reject(new Error(`the server ended before it told ${what}`));
    child.once("message", resolve);
    child.once("exit", ended);
    child.send(what);
    return promise.finally(() => child.off("message", resolve).off("exit", ended));
  };
  return {
    ...(await answering(child, target)),
    ask,
    decided: () => decisions(target),
    async held() {
      // Connections of the last run are still being taken down.
      await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
      return Number(await ask("held"));
    },
  };
}

async function answering(child: ChildProcess, target: Target): Promise<Running> {
  await reachable(target, child);
  const { pid } = child;
  if (pid === undefined) throw new Error("the server has no process");
  return {
    target,
    cpu: () => cpuSeconds(pid),
    resident: () => residentBytes(pid, "VmRSS"),
    peak() {
      const bytes = residentBytes(pid, "VmHWM");
      writeFileSync(`/proc/${pid}/clear_refs`, "5");
      return bytes;
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      setTimeout(() => child.kill("SIGKILL"), 8_000).unref();
      await ended;
    },
  };
}

/** Resolves when the address takes connections. */
async function reachable(target: Target, child: ChildProcess): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
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

/** A port that was free a moment ago. */
export async function freeTarget(): Promise<Target> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  server.close();
  await once(server, "close");
  return `127.0.0.1:${address.port}`;
}

/** Body of a reply, or undefined where nobody listens yet. */
export async function ask(target: Target, path: string, body?: Buffer): Promise<string> {
  const where = target.startsWith("unix:")
    ? { socketPath: target.slice("unix:".length) }
    : { host: "127.0.0.1", port: target.slice(target.lastIndexOf(":") + 1) };
  const asked = request({
    ...where,
    path,
    method: body === undefined ? "GET" : "POST",
    headers: { "content-type": "application/json" },
    agent: false,
  });
  // A reply that breaks off is told twice; once is waited for.
  asked.on("error", () => undefined);
  asked.end(body);
  const [reply] = await once(asked, "response");
  let text = "";
  for await (const part of reply) text += part;
  if (reply.statusCode !== 200) throw new Error(`${path} answered ${reply.statusCode}`);
  return text;
}

async function decisions(target: Target): Promise<number> {
  const page = await ask(target, "/metrics");
  let sum = 0;
  for (const [, count] of page.matchAll(/^flowcontrol_decisions_total\{.*\} (\S+)/gm))
    sum += Number(count);
  return sum;
}

/** On the processor, all threads. */
function cpuSeconds(pid: number): number {
  let sum = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const [spent = ""] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ");
    sum += Number(spent);
  }
  return sum / 1e9;
}

function residentBytes(pid: number, what: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`${what}:\\s+(\\d+) kB`).exec(status)?.[1]) * 1_024;
}
