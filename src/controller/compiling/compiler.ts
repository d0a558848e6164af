// Validates and compiles documents without blocking the process: in standalone, a large policy would occupy the
// thread that answers checks for seconds, so it is compiled on another thread.

import { setImmediate } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { Slices } from "#host/life/slices.ts";
import { compileSet, type PolicySet, type PolicyText } from "#policy/set.ts";
import type { Dialect } from "#promql/result.ts";
import { sha256 } from "./digest.ts";

/** A message to the worker. */
export interface CompileRequest {
  readonly texts: readonly PolicyText[];
  readonly queries: Dialect;
}

/** The worker's answer, one set for each text, sent as a structured clone: a PolicySet is plain data. */
export type CompileReply = { readonly sets: readonly PolicySet[] } | { readonly thrown: string };

export interface CompilerOptions {
  readonly queries: Dialect;
  readonly clock: Clock;
  /** The module that the worker runs. */
  readonly entry?: URL;
  readonly heapMb?: number;
}

interface Job {
  readonly texts: readonly PolicyText[];
  readonly done: (sets: readonly PolicySet[]) => void;
  readonly failed: (fault: Fault) => void;
}

/**
 * A text up to this size, in UTF-16 units, is compiled on this thread: that takes some ten milliseconds at most, while
 * starting another thread takes longer and some 40 MB.
 */
const SMALL = 8 * 1024;

/** Small texts up to this size in all are compiled on this thread, one after the other. */
const FEW = 64 * 1024;

/** Size of the texts that the worker is given at once: reading its answer must not hold up checks. */
const BATCH = 16 * 1024;

/** Milliseconds that a worker without work is kept: edits come in bursts, and between them it only costs memory. */
const IDLE_MS = 10_000;

/** Milliseconds that a document may take. The largest one takes some ten seconds on a slow machine. */
const LONGEST_MS = 120_000;

/** Heap of the worker. The largest document needs less than half of it. */
const HEAP_MB = 1_024;

const ENTRY = new URL("./compiler-worker.ts", import.meta.url);

/** Compiles on one worker thread, one job at a time, in order. A few small texts are compiled on this thread. */
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
   * Compiles each text to a set of its own. Conflicts between texts are not looked for. Small texts are compiled at
   * once, even while larger ones wait, and checks are answered between two of them.
   * @throws Fault RESOURCE_EXHAUSTED when compiling takes too much memory or time, UNAVAILABLE after `close`.
   */
  async compile(texts: readonly PolicyText[]): Promise<readonly PolicySet[]> {
    if (this.#closed) throw stopping();
    if (sizeOf(texts) > FEW || texts.some(({ text }) => text.length > SMALL)) {
      const sets: PolicySet[] = [];
      for (const batch of batches(texts)) {
        sets.push(...(await this.#compileThere(batch)));
        // Messages of the worker are handled one after the other in the same turn.
        await setImmediate();
      }
      return sets;
    }
    const { clock, queries } = this.#options;
    const slices = new Slices(clock);
    const sets: PolicySet[] = [];
    for (const text of texts) {
      sets.push(compileSet([text], { digest: sha256, queries }));
      await slices.pause();
    }
    return sets;
  }

  #compileThere(texts: readonly PolicyText[]): Promise<readonly PolicySet[]> {
    return new Promise((done, failed) => {
      if (this.#closed) {
        failed(stopping());
        return;
      }
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
    if ("sets" in reply) job?.done(reply.sets);
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

/** The texts in their order, divided into batches of bounded size; a larger text is a batch of its own. */
function* batches(texts: readonly PolicyText[]): Generator<readonly PolicyText[]> {
  let batch: PolicyText[] = [];
  for (const text of texts) {
    if (batch.length > 0 && sizeOf(batch) + text.text.length > BATCH) {
      yield batch;
      batch = [];
    }
    batch.push(text);
  }
  if (batch.length > 0) yield batch;
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
