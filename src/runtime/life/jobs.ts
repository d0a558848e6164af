// Periodic jobs in groups, such as health checks. The status tree shows the result of the last run of each job: a message, an
// error, or a timeout.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { StatusNode } from "../status/status.ts";

/** `JobConfig` of the configuration; durations in milliseconds. */
export interface JobSettings {
  /** Time between runs. With 0 or less the job never runs. */
  readonly execution_period: number;
  /** Time limit of one run. 0 or less means no limit. */
  readonly execution_timeout: number;
  readonly initially_healthy: boolean;
}

/** `JobGroupConfig` of the configuration. */
export interface JobGroupSettings {
  /** Run one job at a time. */
  readonly blocking_execution: boolean;
  /** Number of jobs that may run at once, 0 for no limit. Ignored with `blocking_execution`. */
  readonly worker_limit: number;
}

export interface Job {
  readonly name: string;
  readonly settings: JobSettings;
  /** Returns the message for the status, or throws. `signal` aborts when the run times out or the job is stopped. */
  run(signal: AbortSignal): string | Promise<string>;
}

interface Scheduled {
  readonly job: Job;
  readonly status: StatusNode;
  state: "idle" | "queued" | "running" | "stopped";
  /** Cancels the alarm for the next run. */
  disarm: () => void;
  abort: AbortController | undefined;
}

export class JobGroup {
  readonly #clock: Clock;
  readonly #status: StatusNode;
  readonly #maxRunning: number;
  readonly #jobs = new Map<string, Scheduled>();
  readonly #queue: Scheduled[] = [];
  #running = 0;

  /** `status` is the node of the group; each job gets a node `executor:<name>` below it. */
  constructor(settings: JobGroupSettings, clock: Clock, status: StatusNode) {
    const { blocking_execution, worker_limit } = settings;
    this.#maxRunning = blocking_execution
      ? 1
      : worker_limit > 0
        ? worker_limit
        : Number.POSITIVE_INFINITY;
    this.#clock = clock;
    this.#status = status;
  }

  /** Runs the job now and then once per period, never twice at once. The returned function stops and removes it. */
  add(job: Job): () => void {
    if (this.#jobs.has(job.name)) throw new Fault("ALREADY_EXISTS", "a job of this name exists");
    const status = this.#status.at("executor", job.name);
    const disarm = () => undefined;
    const scheduled: Scheduled = { job, status, state: "idle", disarm, abort: undefined };
    this.#jobs.set(job.name, scheduled);
    if (job.settings.execution_period <= 0) status.ok("never runs: its period is not above 0");
    else {
      if (job.settings.initially_healthy) status.ok("not run yet");
      else status.fail("not run yet");
      this.#due(scheduled);
    }
    return () => this.#remove(scheduled);
  }

  close(): void {
    for (const scheduled of [...this.#jobs.values()]) this.#stop(scheduled);
    this.#jobs.clear();
  }

  #remove(scheduled: Scheduled): void {
    if (this.#jobs.get(scheduled.job.name) !== scheduled) return;
    this.#stop(scheduled);
    this.#jobs.delete(scheduled.job.name);
    this.#status.remove("executor", scheduled.job.name);
  }

  #stop(scheduled: Scheduled): void {
    scheduled.state = "stopped";
    scheduled.disarm();
    scheduled.abort?.abort(new Fault("CANCELLED", "the job was stopped"));
  }

  #due(scheduled: Scheduled): void {
    const period = scheduled.job.settings.execution_period;
    scheduled.disarm = this.#clock.alarm(period, () => this.#due(scheduled));
    if (scheduled.state !== "idle") return;
    scheduled.state = "queued";
    this.#queue.push(scheduled);
    this.#work();
  }

  #work(): void {
    while (this.#running < this.#maxRunning) {
      const next = this.#queue.shift();
      if (next === undefined) return;
      if (next.state === "queued") void this.#execute(next);
    }
  }

  async #execute(scheduled: Scheduled): Promise<void> {
    const { job, status } = scheduled;
    const abort = new AbortController();
    scheduled.state = "running";
    scheduled.abort = abort;
    this.#running++;
    const limit = job.settings.execution_timeout;
    const late = () => {
      const fault = new Fault("DEADLINE_EXCEEDED", `did not end within ${limit} ms`);
      status.fail(fault.message);
      abort.abort(fault);
    };
    const disarm = limit > 0 ? this.#clock.alarm(limit, late) : () => undefined;
    let report: () => void;
    try {
      const message = await job.run(abort.signal);
      report = () => status.ok(message);
    } catch (thrown) {
      // Everyone who reaches the port can read the status, so only the message of a Fault is shown.
      report = () => status.fail(Fault.from(thrown).message);
    }
    disarm();
    // A run that timed out was reported already; a late result does not replace that report.
    if (!abort.signal.aborted) report();
    scheduled.abort = undefined;
    this.#running--;
    scheduled.state = "idle";
    this.#work();
  }
}
