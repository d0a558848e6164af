// Validates and compiles documents without blocking the process: in standalone, a large policy would occupy the
// thread that answers checks for seconds, so it is compiled on another thread.

import { Worker } from "node:worker_threads";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { compileSet, type PolicySet, type PolicyText } from "#policy/set.ts";
import type { Dialect } from "#promql/result.ts";
import { sha256 } from "./digest.ts";

/** A message to the worker. */
export interface CompileRequest {
  readonly texts: readonly PolicyText[];
  readonly queries: Dialect;
}

/** The worker's answer, sent as a structured clone: a PolicySet is plain data. */
export type CompileReply = { readonly set: PolicySet } | { readonly thrown: string };

export interface CompilerOptions {
  readonly queries: Dialect;
  readonly clock: Clock;
  /** The module that the worker runs. */
  readonly entry?: URL;
  readonly heapMb?: number;
}

interface Job {
  readonly texts: readonly PolicyText[];
  readonly done: (set: PolicySet) => void;
  readonly failed: (fault: Fault) => void;
}

/**
 * Texts up to this size in all, in UTF-16 units, are compiled on this thread: that takes some ten milliseconds at
 * most, while starting another thread takes longer and some 40 MB.
 */
const SMALL = 8 * 1024;

/** Milliseconds that a worker without work is kept: edits come in bursts, and between them it only costs memory. */
const IDLE_MS = 10_000;

/** Milliseconds that a document may take. The largest one takes some ten seconds on a slow machine. */
const LONGEST_MS = 120_000;

/** Heap of the worker. The largest document needs less than half of it. */
const HEAP_MB = 1_024;

const ENTRY = new URL("./compiler-worker.ts", import.meta.url);

/** Compiles on one worker thread, one job at a time, in order. Small texts are compiled on this thread. */
export class Compiler {
  readonly #options: CompilerOptions;
  readonly #jobs: Job[] = [];
  #running: Job | undefined;
  #worker: Worker | undefined;
  /** Cancels the alarm of the running job, or of the idle worker. */
  #disarm: () => void = () => undefined;
  #closed = false;

  constructor(options: CompilerOptions) {
    this.#options = options;
  }

  /**
   * Compiles texts into a set. Small texts are compiled at once, even while larger ones wait.
   * @throws Fault RESOURCE_EXHAUSTED when compiling takes too much memory or time, UNAVAILABLE after `close`.
   */
  async compile(texts: readonly PolicyText[]): Promise<PolicySet> {
    if (this.#closed) throw stopping();
    if (sizeOf(texts) <= SMALL) {
      return compileSet(texts, { digest: sha256, queries: this.#options.queries });
    }
    return new Promise((done, failed) => {
      this.#jobs.push({ texts, done, failed });
      this.#next();
    });
  }

  /** Fails everything that is not done yet. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const { failed } of this.#jobs.splice(0)) failed(stopping());
    this.#takeRunning()?.failed(stopping());
    this.#disarm();
    await this.#endWorker();
  }

  #next(): void {
    if (this.#running !== undefined) return;
    this.#disarm();
    const { clock, queries } = this.#options;
    const job = this.#jobs.shift();
    if (job === undefined) {
      // An idle worker must not keep the process alive.
      this.#worker?.unref();
      if (this.#worker !== undefined) {
        this.#disarm = clock.alarm(IDLE_MS, () => void this.#endWorker());
      }
      return;
    }
    this.#running = job;
    const worker = this.#worker ?? this.#start();
    worker.ref();
    this.#disarm = clock.alarm(LONGEST_MS, () => {
      const seconds = LONGEST_MS / 1_000;
      this.#workerFailed(
        worker,
        `wanted a document that compiles within ${seconds} s, got a longer one`,
      );
    });
    worker.postMessage({ texts: job.texts, queries } satisfies CompileRequest);
  }

  #start(): Worker {
    const { entry = ENTRY, heapMb = HEAP_MB } = this.#options;
    const worker = new Worker(entry, {
      name: "sluice-compiler",
      // It only computes and needs nothing that this process was started with.
      execArgv: [],
      env: {},
      argv: [],
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
    });
    const failed = (cause?: unknown) => {
      const wanted = `wanted a document that compiles within ${heapMb} MiB of memory`;
      this.#workerFailed(worker, `${wanted}, got one whose compiler stopped`, cause);
    };
    worker.on("message", (reply: CompileReply) => this.#receive(worker, reply));
    worker.on("messageerror", failed);
    worker.on("error", failed);
    worker.on("exit", () => failed());
    this.#worker = worker;
    return worker;
  }

  #receive(worker: Worker, reply: CompileReply): void {
    if (worker !== this.#worker) return;
    const job = this.#takeRunning();
    if ("set" in reply) job?.done(reply.set);
    else {
      const cause = new Error(reply.thrown);
      job?.failed(new Fault("INTERNAL", "internal error", { cause }));
    }
    this.#next();
  }

  /** The worker cannot be used any more; the next job gets another one. */
  #workerFailed(worker: Worker, why: string, cause?: unknown): void {
    if (worker !== this.#worker) return;
    const job = this.#takeRunning();
    void this.#endWorker();
    if (job !== undefined) {
      const message = `${nameOf(job.texts)}: ${why}`;
      job.failed(new Fault("RESOURCE_EXHAUSTED", message, { cause }));
    }
    this.#next();
  }

  #takeRunning(): Job | undefined {
    const job = this.#running;
    this.#running = undefined;
    return job;
  }

  async #endWorker(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    await worker?.terminate();
  }
}

function sizeOf(texts: readonly PolicyText[]): number {
  return texts.reduce((sum, { text }) => sum + text.length, 0);
}

/** Names the largest of several texts, which is the likeliest cause. */
function nameOf(texts: readonly PolicyText[]): string {
  const [largest, ...others] = texts.toSorted(
    (left, right) => right.text.length - left.text.length,
  );
  const source = largest?.source ?? "";
  return others.length === 0 ? source : `${source} or one of ${others.length} others`;
}

function stopping(): Fault {
  return new Fault("UNAVAILABLE", "the controller is stopping");
}
