// A Sluice process without an agent or a controller, on free ports, for tests of what every process does.

import type { TestContext } from "node:test";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import type { ProcessName } from "#config/tree.ts";
import { openPorts } from "#daemon/ports.ts";
import { type ProcessPart, startProcess } from "#daemon/process.ts";
import type { ProcessContext } from "#runtime/life/run.ts";
import { memoryStore } from "#store/memory.ts";
import { type FakeClock, fakeClock } from "./clock.ts";
import { processContext } from "./process-context.ts";
import { configOf } from "./sluice/config.ts";
import { memoryLog } from "./sluice/log.ts";

/** Variables, without their prefix, with which a process opens only its main port, on a free number. */
export const NO_OTHER_PORTS: Readonly<Record<string, string>> = {
  SERVER_LISTENER_ADDR: "127.0.0.1:0",
  SERVER_DRAIN_ACCEPT_FOR: "0s",
  OTEL_PORTS_DEBUG_PORT: "0",
  OTEL_PORTS_HEALTH_CHECK_PORT: "0",
  OTEL_PORTS_PPROF_PORT: "0",
  OTEL_PORTS_ZPAGES_PORT: "0",
};

/** These variables with the prefix of a process, over those of `NO_OTHER_PORTS`. */
export function variables(
  name: ProcessName,
  changed: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const prefixed = Object.entries({ ...NO_OTHER_PORTS, ...changed }).map(
    ([key, value]) => [`SVC_${name.toUpperCase()}_${key}`, value] as const,
  );
  return Object.fromEntries(prefixed);
}

export interface ProcessOnOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly clock?: FakeClock;
  /** Seed of the random id of the process. */
  readonly seed?: number;
  readonly parts?: readonly ProcessPart[];
  /** True if a key was set by a person; by default as the configuration says. */
  readonly chosen?: (path: string) => boolean;
  readonly context?: Partial<ProcessContext>;
  /** Called when the process has started, before its ports open. */
  readonly prepare?: (process: ReturnType<typeof startProcess>) => void;
}

/** `env`: variables without prefix. The process stops with the test. */
export async function processOn(
  t: TestContext,
  name: ProcessName,
  {
    env,
    clock = fakeClock(),
    parts = [],
    seed = 1,
    context,
    chosen,
    prepare,
  }: ProcessOnOptions = {},
) {
  const scope = new Scope((what, cause) => {
    throw new Error(`stop of ${what} failed`, { cause });
  });
  t.after(() => scope.close("cut"));
  const log = memoryLog();
  const started = startProcess({
    configs: [configOf(name, variables(name, env))],
    store: memoryStore(),
    context: processContext(scope, { clock, ...context }),
    chance: seededChance(seed),
    log: { ...log, close: async () => undefined },
  });
  const process = chosen === undefined ? started : { ...started, isChosen: chosen };
  prepare?.(process);
  const ports = await openPorts(process, parts);
  return { process, ports, clock, scope, lines: log.lines, address: ports.main.address };
}
