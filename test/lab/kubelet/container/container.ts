// One container of a pod: its process is started, probed, started again after it ended, and ended gracefully.

import { setTimeout as sleep } from "node:timers/promises";
import type { ContainerSpec, Probe, RestartPolicy } from "../objects.ts";
import { callHandler, type ProbeTarget, watchProbe } from "./probe.ts";
import type { ContainerProcess, Ran } from "./process.ts";

export type ContainerState =
  | { readonly kind: "waiting"; readonly reason: string; readonly message?: string }
  | { readonly kind: "running"; readonly startedAt: string }
  | {
      readonly kind: "terminated";
      readonly exitCode: number;
      readonly reason: string;
      readonly startedAt: string;
      readonly finishedAt: string;
    };

export interface ContainerOptions {
  readonly spec: ContainerSpec;
  readonly restarts: RestartPolicy;
  /** Starts the process. Rejects where something that the pod names does not exist yet. */
  readonly start: () => Promise<ContainerProcess>;
  /** The pod's address. */
  readonly address: () => string;
  /** Called after each change of what the status of the pod shows. */
  readonly changed: () => void;
}

const MS = 1_000;
/** Shorter than the ten seconds and five minutes of a kubelet: tests wait for them. */
const BACK_OFF_MS = 1_000;
const MAX_BACK_OFF_MS = 30_000;
/** Even without any grace left, a process gets this long. */
const MIN_GRACE_MS = 2_000;
const CONFIG_RETRY_MS = 500;

export class Container {
  readonly spec: ContainerSpec;
  readonly #options: ContainerOptions;
  readonly #ending = new AbortController();
  /** Resolves once nothing of the container runs and nothing will be started. */
  readonly finished: Promise<void>;
  #finish: () => void = () => {};
  #process: ContainerProcess | undefined;
  #waiters: (() => void)[] = [];
  #hasBegun = false;
  state: ContainerState = { kind: "waiting", reason: "PodInitializing" };
  lastState: ContainerState | undefined;
  restartCount = 0;
  /** True if the start-up probe has passed, or there is none and the process runs. */
  isStarted = false;
  isReady = false;

  constructor(options: ContainerOptions) {
    this.spec = options.spec;
    this.#options = options;
    this.finished = new Promise((resolve) => {
      this.#finish = resolve;
    });
  }

  /** Runs until the container ends for good. */
  async run(): Promise<void> {
    this.#hasBegun = true;
    let backOff = BACK_OFF_MS;
    while (!this.#ending.signal.aborted) {
      await this.#live();
      if (this.#ending.signal.aborted || !this.#isStartedAgain()) break;
      if (this.state.kind === "terminated") {
        this.lastState = this.state;
        const message = `back-off ${backOff} ms restarting failed container ${this.spec.name}`;
        this.#set({ kind: "waiting", reason: "CrashLoopBackOff", message });
        await this.#pause(backOff);
        backOff = Math.min(backOff * 2, MAX_BACK_OFF_MS);
        this.restartCount++;
      } else await this.#pause(CONFIG_RETRY_MS);
    }
    this.#finish();
    this.#wake();
  }

  /** Resolves once the container has started, or has ended for good. */
  async started(): Promise<void> {
    const over = this.finished.then(() => true);
    while (!this.isStarted) {
      const next = new Promise<boolean>((resolve) => this.#waiters.push(() => resolve(false)));
      if (await Promise.race([next, over])) return;
    }
  }

  /** Runs a command in the container. */
  async exec(command: readonly string[], timeoutMs?: number): Promise<Ran> {
    if (this.#process === undefined) throw new Error(`container ${this.spec.name} does not run`);
    return this.#process.run(command, timeoutMs);
  }

  /**
   * Ends the container: `preStop`, then its turn among the containers of the pod, then SIGTERM, and SIGKILL when the grace
   * time is over.
   */
  async end(graceSeconds: number, turn: Promise<unknown>): Promise<void> {
    if (!this.#hasBegun) return;
    const deadline = performance.now() + graceSeconds * MS;
    const left = () => deadline - performance.now();
    const { preStop } = this.spec.lifecycle ?? {};
    if (preStop !== undefined && this.#process !== undefined && left() > 0)
      await callHandler(preStop, this.#target, Math.ceil(left()));
    await within(turn, left());
    this.#ending.abort();
    await this.#kill(Math.max(left(), MIN_GRACE_MS));
    await this.finished;
  }

  /** Ends it at once. */
  async cut(): Promise<void> {
    if (!this.#hasBegun) return;
    this.#ending.abort();
    this.#process?.kill("SIGKILL");
    await this.finished;
  }

  get #target(): ProbeTarget {
    return {
      container: this.spec,
      address: this.#options.address(),
      run: (command, timeoutMs) => this.exec(command, timeoutMs),
    };
  }

  /** One life of the process. */
  async #live(): Promise<void> {
    let own: ContainerProcess;
    try {
      own = await this.#options.start();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#set({ kind: "waiting", reason: "CreateContainerConfigError", message });
      return;
    }
    if (this.#ending.signal.aborted) own.kill("SIGKILL");
    this.#process = own;
    const startedAt = now();
    const life = new AbortController();
    this.#set({ kind: "running", startedAt });
    const probing = this.#probe(life.signal);
    const { exitCode, signal } = await own.ended;
    life.abort();
    this.#process = undefined;
    await probing;
    this.isStarted = false;
    this.isReady = false;
    const reason = exitCode === 0 && signal === undefined ? "Completed" : "Error";
    this.#set({ kind: "terminated", exitCode, reason, startedAt, finishedAt: now() });
  }

  async #probe(signal: AbortSignal): Promise<void> {
    const { startupProbe, readinessProbe, livenessProbe } = this.spec;
    if (startupProbe !== undefined && !(await this.#startsUp(startupProbe, signal))) return;
    if (signal.aborted) return;
    this.isStarted = true;
    this.isReady = readinessProbe === undefined;
    this.#changed();
    const ready = (passes: boolean) => {
      this.isReady = passes;
      this.#changed();
    };
    const live = (passes: boolean) => {
      if (!passes) void this.#kill(MIN_GRACE_MS);
    };
    // An ending container may become unready, and is no longer asked whether it lives.
    const alive = AbortSignal.any([signal, this.#ending.signal]);
    await Promise.all([
      readinessProbe && watchProbe(readinessProbe, this.#target, signal, ready),
      livenessProbe && watchProbe(livenessProbe, this.#target, alive, live),
    ]);
  }

  /** True if the probe passes before the process ends; it is killed when the probe fails. */
  async #startsUp(probe: Probe, signal: AbortSignal): Promise<boolean> {
    const over = new AbortController();
    const until = AbortSignal.any([signal, this.#ending.signal, over.signal]);
    let hasPassed = false;
    await watchProbe(probe, this.#target, until, (passes) => {
      hasPassed = passes;
      if (!passes) void this.#kill(MIN_GRACE_MS);
      over.abort();
    });
    return hasPassed;
  }

  async #kill(graceMs: number): Promise<void> {
    const own = this.#process;
    if (own === undefined) return;
    own.kill("SIGTERM");
    await within(own.ended, graceMs);
    own.kill("SIGKILL");
    await own.ended;
  }

  #isStartedAgain(): boolean {
    const { state } = this;
    if (state.kind !== "terminated") return true;
    const { restarts } = this.#options;
    return restarts === "Always" || (restarts === "OnFailure" && state.exitCode !== 0);
  }

  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#ending.signal }).catch(() => {});
  }

  #set(state: ContainerState): void {
    this.state = state;
    this.#changed();
  }

  #changed(): void {
    this.#wake();
    this.#options.changed();
  }

  #wake(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }
}

/** Waits for a promise, but not for longer than this. */
async function within(promise: Promise<unknown>, ms: number): Promise<void> {
  const over = new AbortController();
  const timeout = sleep(Math.max(ms, 0), undefined, { signal: over.signal }).catch(() => {});
  await Promise.race([promise, timeout]);
  over.abort();
}

/** As the API writes times. */
export function now(): string {
  return `${new Date().toISOString().slice(0, 19)}Z`;
}
