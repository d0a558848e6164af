// The store that an agent and a controller in separate processes share.

import { env } from "node:process";
import { Fault } from "#base/fault.ts";
import type { Loaded } from "#config/load.ts";
import type { OpenStore } from "#store/store.ts";

/** Throws a Fault INVALID_ARGUMENT when no server is configured. Loads the client, which other commands do not need. */
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
