// Liveness and readiness: the two branches of the status tree that probes query, and the job groups that fill them.

import type { Clock } from "#base/clock.ts";
import type { Stop } from "#base/scope.ts";
import { HealthChecks, JobGroup, type JobGroupSettings, type JobSettings } from "../life/jobs.ts";
import { StatusNode } from "./status.ts";

/** `liveness.*` or `readiness.*` of the configuration. */
export interface ProbeSettings {
  readonly scheduler: JobGroupSettings;
  readonly service: JobSettings;
}

export interface Probe {
  readonly jobs: JobGroup;
  /** The checks that the job `service` makes. */
  readonly checks: HealthChecks;
}

export type Phase = "starting" | "running" | "stopping";

export class Health {
  readonly root: StatusNode;
  readonly liveness: Probe;
  readonly readiness: Probe;
  #phase: Phase = "starting";

  constructor(
    clock: Clock,
    settings: { readonly liveness: ProbeSettings; readonly readiness: ProbeSettings },
  ) {
    this.root = new StatusNode(clock);
    this.liveness = probe(this.root, "liveness", settings.liveness, clock);
    this.readiness = probe(this.root, "readiness", settings.readiness, clock);
    this.enter("starting");
  }

  /** Registers something that must be ready before traffic arrives. It starts as not ready. */
  component(name: string): StatusNode {
    const node = this.root.at("system", "readiness").at("component", name);
    node.fail(`${name} is not ready yet`);
    return node;
  }

  get phase(): Phase {
    return this.#phase;
  }

  /** The process is ready only while running: when it stops, readiness fails before the port stops accepting. */
  enter(phase: Phase): void {
    this.#phase = phase;
    const node = this.root.at("system", "readiness").at("component", "platform");
    if (phase === "running") node.ok("platform running");
    else node.fail(`platform ${phase}`);
  }

  readonly close: Stop = () => {
    this.liveness.jobs.close();
    this.readiness.jobs.close();
  };
}

function probe(
  root: StatusNode,
  name: "liveness" | "readiness",
  settings: ProbeSettings,
  clock: Clock,
): Probe {
  const groups = root.at("system", name).at("job-group", "job_groups");
  const status = groups.at("job-group", name);
  const jobs = new JobGroup(settings.scheduler, clock, status);
  const checks = new HealthChecks(status.at("executor", "service"));
  jobs.add({ name: "service", settings: settings.service, run: (signal) => checks.run(signal) });
  return { jobs, checks };
}
