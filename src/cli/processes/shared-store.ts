// The store that an agent and a controller in separate processes share.

import { Fault } from "#base/fault.ts";
import type { ProcessName } from "#config/tree.ts";
import type { Store } from "#store/store.ts";

/** Throws a Fault INVALID_ARGUMENT as long as there is no store that processes can share. */
export function openSharedStore(process: ProcessName): Store {
  const other = process === "agent" ? "a controller" : "its agents";
  const needs = `the ${process} needs a store that it shares with ${other} (etcd.endpoints)`;
  const remedy = "`sluice standalone --policies DIR` runs agent and controller in one process";
  throw new Fault(
    "INVALID_ARGUMENT",
    `${needs}, and this version cannot connect to etcd yet; ${remedy}`,
  );
}
