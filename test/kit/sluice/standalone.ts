// Starts Sluice as people run it: in this process, where a test wants to look inside, or as the real
// command in a process of its own.

import { chmodSync } from "node:fs";
import { join } from "node:path";
import { execPath } from "node:process";
import type { TestContext } from "node:test";
import { seededChance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Scope } from "#base/scope.ts";
import type { Port } from "#serve/port.ts";
import { startStandalone } from "#standalone/standalone.ts";
import { type Files, folderOf } from "../folder.ts";
import { processContext } from "../process-context.ts";
import { type Child, child } from "../servers/child.ts";
import { configOf } from "./config.ts";

const SLUICE = join(import.meta.dirname, "../../../src/cli/sluice.js");

type Env = Readonly<Record<string, string>>;

export interface StandaloneOptions {
  /** Policy documents by file name. */
  readonly policies: Files;
  /** On top of a free port of the loopback interface, no debug port and a quick drain. */
  readonly env?: Env;
}

export interface InProcessOptions extends StandaloneOptions {
  /** Instead of the real clock. */
  readonly clock?: Clock;
  /** Variables of the controller's part. */
  readonly controller?: Env;
  /** Other variables of the process. */
  readonly variables?: Env;
}

export interface Standalone {
  /** `host:port` or `unix:/path`. */
  readonly address: string;
  /** The directory of the policies; edits in it take effect. */
  readonly policies: string;
}

const BASE: Env = {
  SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
  SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
  SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
  SVC_AGENT_OTEL_PORTS_PPROF_PORT: "0",
  SVC_AGENT_OTEL_PORTS_ZPAGES_PORT: "0",
  SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "0s",
};

/** In this process; drained when the test ends. */
export async function standalone(
  test: TestContext,
  options: InProcessOptions,
): Promise<Standalone & { readonly port: Port }> {
  const quiet = { SVC_AGENT_LOG_LEVEL: "error" };
  const scope = new Scope((name, thrown) => {
    throw new Error(`stop of ${name} failed`, { cause: thrown });
  });
  // Stops before the folder is removed, which would be logged as a fault of the policies.
  test.after(() => scope.close("drain"));
  const policies = folderOf(test, options.policies);
  const { main: port } = await startStandalone({
    config: {
      agent: configOf("agent", { ...BASE, ...quiet, ...options.env }),
      controller: configOf("controller", options.controller),
    },
    policies: [policies],
    chance: seededChance(1),
    context: processContext(scope, {
      ...(options.clock === undefined ? {} : { clock: options.clock }),
      ...(options.variables === undefined ? {} : { env: options.variables }),
    }),
  });
  return { port, policies, address: port.address };
}

export interface StandaloneProcess extends Standalone {
  readonly child: Child;
}

export interface ProcessOptions extends StandaloneOptions {
  /** Further arguments of the command. */
  readonly args?: readonly string[];
  /** User and group id to run as, which only root may set. */
  readonly uid?: number;
  readonly cwd?: string;
}

/** The real command; killed when the test ends. */
export async function standaloneProcess(
  test: TestContext,
  { policies: files, env = {}, args = [], uid, cwd }: ProcessOptions,
): Promise<StandaloneProcess> {
  const policies = folderOf(test, files);
  if (uid !== undefined) chmodSync(policies, 0o755);
  const own = child(test, execPath, [SLUICE, "standalone", "--policies", policies, ...args], {
    cwd: cwd ?? folderOf(test),
    env: { PATH: process.env["PATH"], ...BASE, ...env },
    ...(uid === undefined ? {} : { uid, gid: uid }),
  });
  const listening = () => /"message":"listening on ([^"]+)"/.exec(own.out() + own.err())?.[1];
  await own.until("sluice listens", () => listening() !== undefined);
  return { child: own, policies, address: listening() ?? "" };
}
