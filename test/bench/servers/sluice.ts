// Starts `sluice standalone` of this checkout or another one as a server under test, and queries it.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Target } from "../load/connection.ts";
import { accepting, fetchBody, type Running, spawnPinned } from "./processes.ts";

const HERE = join(import.meta.dirname, "../../..");
const PROBE = join(import.meta.dirname, "probe.ts");
/** Time in which a server takes down the connections of the last run. */
const SETTLE_MS = 1_000;

export interface Sluice extends Running {
  /** Number of checks decided so far, by the server's own counters. */
  decided(): Promise<number>;
  /** Bytes of heap, ArrayBuffers and other memory that the process holds after a full collection. */
  held(): Promise<number>;
  /** Runs a command of `probe.ts` in the server's process and returns its answer. */
  probe(command: string): Promise<unknown>;
}

export type Transport = "own" | "grpc-js";

export interface SluiceOptions {
  readonly target: Target;
  /** Directory of policies. */
  readonly policies: string;
  readonly transport?: Transport;
  /** Root of the checkout to run. `SLUICE_BENCH_TREE` or this checkout by default. */
  readonly tree?: string;
  /** Further flags of the runtime. */
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Cores on which it runs, `0-1`. That of the servers by default. */
  readonly cores?: string;
}

/** Flags, arguments and environment of a standalone Sluice with default settings. */
export function sluiceCommand({ target, policies, transport = "own", tree: given }: SluiceOptions) {
  const tree = given ?? process.env["SLUICE_BENCH_TREE"] ?? HERE;
  // Checkouts from before Sluice had its own transport do not know the key that selects it.
  const hasTransports = ["src/h2", "src/serve/h2"].some((room) => existsSync(join(tree, room)));
  if (!hasTransports && transport === "own")
    process.stderr.write(`${tree} has no transport of its own\n`);
  const command = npmCommand(tree);
  const entry = command.find((word) => word.startsWith("src/")) ?? "";
  return {
    flags: command.filter((word) => word.startsWith("--")),
    args: [join(tree, entry), "standalone", "--policies", policies],
    env: {
      SVC_AGENT_SERVER_LISTENER_ADDR: target,
      SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
      SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
      SVC_AGENT_OTEL_PORTS_PPROF_PORT: "0",
      SVC_AGENT_OTEL_PORTS_ZPAGES_PORT: "0",
      SVC_AGENT_LOG_LEVEL: "error",
      // Benches ask for more than can be judged on purpose, and a check that is shed costs less.
      ...(existsSync(join(tree, "src/flow/overload"))
        ? { SVC_AGENT_FLOW_CONTROL_OVERLOAD_MAX_DELAY: "1h" }
        : {}),
      ...(hasTransports ? { SVC_AGENT_SERVER_GRPC_TRANSPORT: transport } : {}),
    },
  };
}

/** The words of the checkout's own npm script, which starts Node with its flags and the entry of the command. */
function npmCommand(tree: string): readonly string[] {
  const { scripts } = JSON.parse(readFileSync(join(tree, "package.json"), "utf8"));
  return String(scripts.sluice).split(" ");
}

/** Starts Sluice with the probe loaded, which adds about a megabyte to its memory. */
export async function startSluice(options: SluiceOptions): Promise<Sluice> {
  const { target } = options;
  const command = sluiceCommand(options);
  const fromEnv = (process.env["SLUICE_BENCH_NODE_FLAGS"] ?? "").split(" ").filter(Boolean);
  const flags = [...command.flags, ...fromEnv, ...(options.flags ?? [])];
  const args = [...flags, "--expose-gc", "--import", PROBE, ...command.args];
  const child = spawnPinned(args, { ...command.env, ...options.env }, options.cores);
  const probe = async (what: string): Promise<unknown> => {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const ended = () => reject(new Error(`the server ended before it answered ${what}`));
    child.once("message", resolve);
    child.once("exit", ended);
    child.send(what);
    return promise.finally(() => child.off("message", resolve).off("exit", ended));
  };
  return {
    ...(await accepting(child, target)),
    probe,
    decided: () => decisions(target),
    async held() {
      await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
      return Number(await probe("held"));
    },
  };
}

/** Starts Sluice exactly as an operator would, for figures about its memory. */
export async function startPlainSluice(options: SluiceOptions): Promise<Running> {
  const { flags, args, env } = sluiceCommand(options);
  return accepting(spawnPinned([...flags, ...args], env), options.target);
}

async function decisions(target: Target): Promise<number> {
  const page = await fetchBody(target, "/metrics");
  let sum = 0;
  for (const [, count] of page.matchAll(/^flowcontrol_decisions_total\{.*\} (\S+)/gm))
    sum += Number(count);
  return sum;
}
