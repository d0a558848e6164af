// Liveness and readiness: the two branches of the status tree that probes query, the checks that fill them, and the health
// of the process, which is both together.

import type { Clock } from "#base/clock.ts";
import type { Stop } from "#base/scope.ts";
import { type Job, JobGroup, type JobGroupSettings, type JobSettings } from "../life/jobs.ts";
import { StatusNode } from "./status.ts";

/** `liveness.*` or `readiness.*` of the configuration. */
export interface ProbeSettings {
  /** The most checks that run at once. */
  readonly scheduler: JobGroupSettings;
  /** When each check runs and for how long. */
  readonly service: JobSettings;
}

/** Liveness or readiness. */
export interface Probe {
  readonly settings: ProbeSettings;
  /** Jobs with settings of their own may join. Each job has a node `executor:<name>`. */
  readonly jobs: JobGroup;
  /** Adds a check, which runs by `settings.service`. The returned function stops and removes it. */
  check(name: string, run: Job["run"]): () => void;
}

/** Something that must be there before traffic arrives, and whose later loss the process survives. */
export interface Dependency {
  /** It is there, and the process is ready as far as this is concerned. */
  ok(message: string): void;
  /**
   * It is not there, or does not do all that it should. Before the first `ok` the process is not ready. Later it stays
   * ready: a store that is away for a minute must not take every protected service out of its load balancer.
   */
  degraded(message: string): void;
}

export type Phase = "starting" | "running" | "stopping";

export class Health {
  readonly root: StatusNode;
  readonly liveness: Probe;
  readonly readiness: Probe;
  readonly #ready: StatusNode;
  readonly #live: StatusNode;
  readonly #degraded = new Map<string, boolean>();
  /** By dependency: what to do when something stands in for it. */
  readonly #standIns = new Map<string, () => void>();
  readonly #listeners: ((healthy: boolean) => void)[] = [];
  #phase: Phase = "starting";
  #healthy = false;

  constructor(
    clock: Clock,
    settings: { readonly liveness: ProbeSettings; readonly readiness: ProbeSettings },
  ) {
    this.root = new StatusNode(clock);
    this.#live = this.root.at("system", "liveness");
    this.#ready = this.root.at("system", "readiness");
    this.liveness = probe(this.#live, "liveness", settings.liveness, clock);
    this.readiness = probe(this.#ready, "readiness", settings.readiness, clock);
    this.enter("starting");
    for (const branch of [this.#live, this.#ready]) branch.onChange(() => this.#compare());
  }

  /** Registers something that must be there before traffic arrives. It starts as not ready. */
  dependency(name: string): Dependency {
    const node = this.#ready.at("component", name);
    node.fail(`${name} is not ready yet`);
    this.#degraded.set(name, false);
    let why = "it has not answered yet";
    let isNeeded = true;
    const show = () => {
      if (isNeeded) node.fail(`${name} is not ready yet: ${why}`);
      else node.ok(`degraded: ${why}`);
    };
    this.#standIns.set(name, () => {
      isNeeded = false;
      this.#degraded.set(name, true);
      show();
    });
    return {
      ok: (message) => {
        isNeeded = false;
        this.#degraded.set(name, false);
        node.ok(message);
      },
      degraded: (message) => {
        this.#degraded.set(name, true);
        why = message;
        show();
      },
    };
  }

  /** Something stands in for a dependency that has never been there: from now on the process is ready without it. */
  doWithout(name: string): void {
    this.#standIns.get(name)?.();
  }

  /** The dependencies by name, and whether each is degraded. */
  get degraded(): ReadonlyMap<string, boolean> {
    return this.#degraded;
  }

  get phase(): Phase {
    return this.#phase;
  }

  /** True if the process is alive and ready: the answer of gRPC health for the process and all of its services. */
  get healthy(): boolean {
    return this.#healthy;
  }

  /** Calls `listener` whenever `healthy` has changed. */
  onChange(listener: (healthy: boolean) => void): void {
    this.#listeners.push(listener);
  }

  /** The process is ready only while running: when it stops, readiness fails before the port stops accepting. */
  enter(phase: Phase): void {
    this.#phase = phase;
    const node = this.#ready.at("component", "platform");
    if (phase === "running") node.ok("platform running");
    else node.fail(`platform ${phase}`);
  }

  readonly close: Stop = () => {
    this.liveness.jobs.close();
    this.readiness.jobs.close();
  };

  #compare(): void {
    const healthy = this.#live.firstError() === undefined && this.#ready.firstError() === undefined;
    if (healthy === this.#healthy) return;
    this.#healthy = healthy;
    for (const listener of this.#listeners) listener(healthy);
  }
}

function probe(
  branch: StatusNode,
  name: "liveness" | "readiness",
  settings: ProbeSettings,
  clock: Clock,
): Probe {
  const status = branch.at("job-group", "job_groups").at("job-group", name);
  const jobs = new JobGroup(settings.scheduler, clock, status);
  return {
    settings,
    jobs,
    check: (check, run) => jobs.add({ name: check, settings: settings.service, run }),
  };
}
