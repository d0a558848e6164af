// Periodic jobs in groups. What a run gives, a message, an error or no end in time, stands in the job's
// node of the status tree.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { StatusNode } from "./status.ts";

/** JobConfig; milliseconds. */
export interface JobSettings {
  /** 0 or less: never runs. */
  readonly execution_period: number;
  /** 0 or less: may take as long as it likes. */
  readonly execution_timeout: number;
  readonly initially_healthy: boolean;
}

/** JobGroupConfig. */
export interface JobGroupSettings {
  /** One job at a time. */
  readonly blocking_execution: boolean;
  /** Most jobs at a time, 0 for no limit. Ignored when blocking. */
  readonly worker_limit: number;
}

export interface Job {
  readonly name: string;
  readonly settings: JobSettings;
  /** Gives the message that its status shows; throws what is wrong. `signal` ends it when it is late or stopped. */
  run(signal: AbortSignal): string | Promise<string>;
}

interface Scheduled {
  readonly job: Job;
  readonly status: StatusNode;
  state: "idle" | "queued" | "running" | "stopped";
  /** Takes back the alarm of the next run. */
  disarm: () => void;
  abort: AbortController | undefined;
}

export class JobGroup {
  readonly #clock: Clock;
  readonly #status: StatusNode;
  readonly #most: number;
  readonly #jobs = new Map<string, Scheduled>();
  readonly #queue: Scheduled[] = [];
  #running = 0;

  /** `status` is the node of the group: its jobs stand below as `executor:<name>`. */
  constructor(settings: JobGroupSettings, clock: Clock, status: StatusNode) {
    const { blocking_execution, worker_limit } = settings;
    this.#most = blocking_execution
      ? 1
      : worker_limit > 0
        ? worker_limit
        : Number.POSITIVE_INFINITY;
    this.#clock = clock;
    this.#status = status;
  }

  /** Runs the job now and then once per period, never twice at a time. The returned function stops and removes it. */
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
    while (this.#running < this.#most) {
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
    let tell: () => void;
    try {
      const message = await job.run(abort.signal);
      tell = () => status.ok(message);
    } catch (thrown) {
      tell = () => status.fail(messageOf(thrown));
    }
    disarm();
    // A run that ended after its time was already told of, and stays so until the next one.
    if (!abort.signal.aborted) tell();
    scheduled.abort = undefined;
    this.#running--;
    scheduled.state = "idle";
    this.#work();
  }
}

/** Something that one look tells: it returns its message or throws what is wrong. */
export type Check = (signal: AbortSignal) => string | Promise<string>;

/** The umbrella job of a group: one job that looks at everything registered with it. */
export class Checks {
  readonly #status: StatusNode;
  readonly #checks = new Map<string, Check>();

  /** Each check stands below `status` as `check:<name>`. */
  constructor(status: StatusNode) {
    this.#status = status;
  }

  /** The returned function takes the check away. */
  add(name: string, check: Check): () => void {
    this.#checks.set(name, check);
    return () => {
      if (this.#checks.get(name) !== check) return;
      this.#checks.delete(name);
      this.#status.remove("check", name);
    };
  }

  /** All checks are made, also after one fails; throws the names of those that did. */
  async run(signal: AbortSignal): Promise<string> {
    const failed: string[] = [];
    for (const [name, check] of [...this.#checks]) {
      let tell: (node: StatusNode) => void;
      try {
        const message = await check(signal);
        tell = (node) => node.ok(message);
      } catch (thrown) {
        failed.push(name);
        tell = (node) => node.fail(messageOf(thrown));
      }
      if (this.#checks.get(name) === check) tell(this.#status.at("check", name));
    }
    if (failed.length > 0) throw new Fault("UNAVAILABLE", `failed: ${failed.join(", ")}`);
    return "OK";
  }
}

/** Status is open to whoever reaches the port: only a Fault's message is fit for it. */
function messageOf(thrown: unknown): string {
  return Fault.from(thrown).message;
}
