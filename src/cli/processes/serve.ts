// Runs a process that serves until a signal stops it; its store and its directories of policies.

import { readdir } from "node:fs/promises";
import { resolve } from "node:path";
import { env } from "node:process";
import { Fault, systemErrorText } from "#base/fault.ts";
import type { Loaded } from "#config/load.ts";
import { type ProcessOptions, type ProcessSettings, stopTimeLimit } from "#daemon/process.ts";
import { realChance, realClock } from "#runtime/life/clock.ts";
import { operatingSystem } from "#runtime/life/operating-system.ts";
import { run } from "#runtime/life/run.ts";
import type { OpenStore } from "#store/store.ts";

type Start = (options: Pick<ProcessOptions, "context" | "chance">) => Promise<unknown>;

/** Resolves to the exit code. `settings` are those of the process itself. */
export function serve(settings: ProcessSettings, start: Start): Promise<number> {
  const main = async (context: ProcessOptions["context"]) => {
    await start({ context, chance: realChance() });
    return undefined;
  };
  return run(main, operatingSystem(realClock()), { stopMs: stopTimeLimit(settings) });
}

/**
 * The store that an agent and a controller in separate processes share. Loads the etcd client, which other commands do not
 * need. @throws Fault INVALID_ARGUMENT when no server is configured
 */
export async function sharedStore({
  process,
  config,
}: Loaded<"agent" | "controller">): Promise<OpenStore> {
  const { etcd: settings, client } = config;
  if (settings.endpoints.length === 0) {
    const other = process === "agent" ? "a controller" : "its agents";
    const needs = `the ${process} shares its store with ${other}: wanted the address of an etcd server in etcd.endpoints`;
    const remedy = "`sluice standalone --policies DIR` runs agent and controller in one process";
    throw new Fault("INVALID_ARGUMENT", `${needs}, got none; ${remedy}`);
  }
  const { etcdStore } = await import("#store/etcd.ts");
  const proxy = { settings: client.proxy, env };
  return (context) => etcdStore({ settings, proxy, ...context });
}

/** The directories of `--policies`, each once. @throws Fault INVALID_ARGUMENT when one cannot be read */
export async function policyDirectories(paths: readonly string[] = []): Promise<readonly string[]> {
  // Checked before anything starts, because only here the message can name the flag.
  for (const path of paths) {
    await readdir(path).catch((thrown: unknown) => {
      const wanted = `--policies: wanted a directory that can be read at ${path}`;
      throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${systemErrorText(thrown)}`);
    });
  }
  // The same directory twice would seem to have every policy twice.
  return [...new Map(paths.map((path) => [resolve(path), path])).values()];
}
