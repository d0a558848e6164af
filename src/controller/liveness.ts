// Looks again and again whether circuits still tick: a loop that stands still for long is what a probe of the
// process's life should know.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { JobGroup } from "#host/jobs.ts";
import type { StatusNode } from "#host/status.ts";
import type { Roster } from "./roster.ts";
import type { ControllerSettings } from "./settings.ts";

/** A tick that is late by so many intervals, and by at least so many ms, is a standstill. */
const STILL_INTERVALS = 2;
const STILL_MS = 10_000;

/** The returned function ends it. */
export function watchTicks(
  { scheduler, service }: ControllerSettings["liveness"],
  clock: Clock,
  root: StatusNode,
  { loops }: Pick<Roster, "loops">,
): () => void {
  const groups = root.at("system", "liveness").at("job-group", "job_groups");
  const jobs = new JobGroup(scheduler, clock, groups.at("job-group", "circuit_jobs"));
  jobs.add({
    name: "circuits",
    settings: service,
    run() {
      const now = clock.now();
      const still = [...loops].flatMap(([name, { circuit, due }]) => {
        if (circuit === undefined) return [];
        const most = Math.max(STILL_MS, STILL_INTERVALS * circuit.plan.intervalMs);
        return now - due > most ? [name] : [];
      });
      if (still.length === 0) return "OK";
      throw new Fault("UNAVAILABLE", `circuits that stand still: ${still.join(", ")}`);
    },
  });
  return () => jobs.close();
}
