// Judges and compiles documents without holding up what else the process does: in standalone the thread that
// would judge a large policy for seconds is the one that answers checks.

import { Worker } from "node:worker_threads";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { compileSet, type PolicySet, type PolicyText } from "#policy/set.ts";
import type { Dialect } from "#promql/result.ts";
import { sha256 } from "./digest.ts";

/** What a worker is asked. */
export interface Question {
  readonly texts: readonly PolicyText[];
  readonly queries: Dialect;
}

/** Sent as structured clones: a PolicySet is data and nothing else. */
export type Reply = { readonly set: PolicySet } | { readonly thrown: string };

export interface CompilerOptions {
  readonly queries: Dialect;
  readonly clock: Clock;
  /** What a worker runs. */
  readonly entry?: URL;
  readonly heapMb?: number;
}

interface Job {
  readonly texts: readonly PolicyText[];
  readonly done: (set: PolicySet) => void;
  readonly failed: (fault: Fault) => void;
}

/**
 * Texts of this size in all, in UTF-16 units, are compiled where they are: that takes some ten milliseconds
 * at most, and starting a thread takes longer and some 40 MB.
 */
const SMALL = 8 * 1024;

/** A thread without work ends after this, ms: edits come in bursts, and between them it only costs memory. */
const IDLE_MS = 10_000;

/** The largest document takes some ten seconds on a slow machine; after this it is given up, ms. */
const LONGEST_MS = 120_000;

/** The largest document needs less than half of it. */
const HEAP_MB = 1_024;

const ENTRY = new URL("./compiler-worker.ts", import.meta.url);

/** One thread, one job at a time, in the order in which they came. */
export class Compiler {
  readonly #options: CompilerOptions;
  readonly #jobs: Job[] = [];
  #running: Job | undefined;
  #worker: Worker | undefined;
  /** Takes back the alarm of the job, or that of idleness. */
  #disarm: () => void = () => undefined;
  #closed = false;

  constructor(options: CompilerOptions) {
    this.#options = options;
  }

  /**
   * Small texts are done at once, whatever larger ones wait.
   * @throws Fault RESOURCE_EXHAUSTED when judging takes too much, UNAVAILABLE after `close`.
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

  /** What is not done yet fails. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const { failed } of this.#jobs.splice(0)) failed(stopping());
    this.#take()?.failed(stopping());
    this.#disarm();
    await this.#end();
  }

  #next(): void {
    if (this.#running !== undefined) return;
    this.#disarm();
    const { clock, queries } = this.#options;
    const job = this.#jobs.shift();
    if (job === undefined) {
      // It must not keep a process alive that has nothing else to do.
      this.#worker?.unref();
      if (this.#worker !== undefined) {
        this.#disarm = clock.alarm(IDLE_MS, () => void this.#end());
      }
      return;
    }
    this.#running = job;
    const worker = this.#worker ?? this.#start();
    worker.ref();
    this.#disarm = clock.alarm(LONGEST_MS, () => {
      const seconds = LONGEST_MS / 1_000;
      this.#broke(worker, `wanted a document that is judged within ${seconds} s, got a longer one`);
    });
    worker.postMessage({ texts: job.texts, queries } satisfies Question);
  }

  #start(): Worker {
    const { entry = ENTRY, heapMb = HEAP_MB } = this.#options;
    const worker = new Worker(entry, {
      name: "sluice-compiler",
      // It computes: whatever this process was started with is not for it.
      ...{ execArgv: [], env: {}, argv: [] },
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
    });
    const broke = (cause?: unknown) => {
      const wanted = `wanted a document that is judged with ${heapMb} MiB of memory`;
      this.#broke(worker, `${wanted}, got one whose judge broke off`, cause);
    };
    worker.on("message", (reply: Reply) => this.#heard(worker, reply));
    worker.on("messageerror", broke);
    worker.on("error", broke);
    worker.on("exit", () => broke());
    this.#worker = worker;
    return worker;
  }

  #heard(worker: Worker, reply: Reply): void {
    if (worker !== this.#worker) return;
    const job = this.#take();
    if ("set" in reply) job?.done(reply.set);
    else {
      const cause = new Error(reply.thrown);
      job?.failed(new Fault("INTERNAL", "internal error", { cause }));
    }
    this.#next();
  }

  /** The thread is of no use any more; the next job gets another one. */
  #broke(worker: Worker, why: string, cause?: unknown): void {
    if (worker !== this.#worker) return;
    const job = this.#take();
    void this.#end();
    if (job !== undefined) {
      const message = `${nameOf(job.texts)}: ${why}`;
      job.failed(new Fault("RESOURCE_EXHAUSTED", message, { cause }));
    }
    this.#next();
  }

  #take(): Job | undefined {
    const job = this.#running;
    this.#running = undefined;
    return job;
  }

  async #end(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    await worker?.terminate();
  }
}

function sizeOf(texts: readonly PolicyText[]): number {
  return texts.reduce((sum, { text }) => sum + text.length, 0);
}

/** Of several, the largest: it is the likeliest to be at fault. */
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
