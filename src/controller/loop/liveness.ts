// The liveness check of circuits: fails when a tick is long overdue.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { ControllerConfig } from "#config/tree.ts";
import { JobGroup } from "#runtime/life/jobs.ts";
import type { StatusNode } from "#runtime/status/status.ts";
import type { PolicyLoop } from "./policy-loop.ts";

/** A policy is stalled when its tick is late by this many intervals and at least this many ms. */
const STALLED_INTERVALS = 2;
const STALLED_MS = 10_000;

/** Starts the check. The returned function ends it. */
export function watchTicks(
  { scheduler, service }: ControllerConfig["liveness"],
  clock: Clock,
  root: StatusNode,
  loops: ReadonlyMap<string, Pick<PolicyLoop, "circuit" | "due">>,
): () => void {
  const groups = root.at("system", "liveness").at("job-group", "job_groups");
  const jobs = new JobGroup(scheduler, clock, groups.at("job-group", "circuit_jobs"));
  jobs.add({
    name: "circuits",
    settings: service,
    run() {
      const now = clock.now();
      const stalled = [...loops].flatMap(([name, { circuit, due }]) => {
        if (circuit === undefined) return [];
        const limit = Math.max(STALLED_MS, STALLED_INTERVALS * circuit.plan.intervalMs);
        return now - due > limit ? [name] : [];
      });
      if (stalled.length === 0) return "OK";
      throw new Fault("UNAVAILABLE", `circuits that are stalled: ${stalled.join(", ")}`);
    },
  });
  return () => jobs.close();
}
