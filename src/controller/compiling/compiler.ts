// Validates and compiles documents without blocking the process. In standalone, a large policy would block the thread that
// answers checks for seconds, so it is compiled in a child process, whose memory is all freed when it ends. A thread would
// leave behind some 20 MB of the just-in-time compiler.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import module from "node:module";
import { Socket } from "node:net";
import { setPriority } from "node:os";
import { dirname } from "node:path";
import { setImmediate } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Clock } from "#base/clock.ts";
import { type Code, Fault } from "#base/fault.ts";
import type { CompileSettings } from "#policy/compiled.ts";
import type { CompiledSet, PolicyText } from "#policy/set.ts";
import { Slices } from "#runtime/life/slices.ts";
import { compileText } from "./compile-text.ts";
import { deduplicateStrings } from "./deduplicator.ts";

/** A message to the child process. */
export interface CompileRequest {
  readonly texts: readonly PolicyText[];
  readonly settings: CompileSettings;
}

/** Its answer, one set for each text, as a structured clone: a CompiledSet is plain data. */
export type CompileReply = { readonly sets: readonly CompiledSet[] } | { readonly thrown: string };

export interface CompilerOptions {
  readonly settings: CompileSettings;
  readonly clock: Clock;
  /** The module that the child process runs. */
  readonly entry?: URL;
  readonly heapMb?: number;
}

interface Job {
  readonly texts: readonly PolicyText[];
  readonly done: (sets: readonly CompiledSet[]) => void;
  readonly failed: (fault: Fault) => void;
}

/**
 * Texts up to this size, in UTF-16 units, are compiled in this process: that takes about ten milliseconds at most, while
 * starting another process takes longer and 50 MB.
 */
const SMALL = 8 * 1024;

/** Small texts up to this total size are compiled in this process, one after the other. */
const FEW = 64 * 1024;

/** Total size of the texts in one request to the child process: reading its answer must not delay checks. */
const BATCH = 16 * 1024;

/** Milliseconds until an idle child process is ended: edits come in bursts, and between them it only costs memory. */
const IDLE_MS = 10_000;

/** Milliseconds that a document may take. The largest one takes about ten seconds on a slow machine. */
const LONGEST_MS = 120_000;

/** Heap of the child process. The largest document needs less than half of it. */
const HEAP_MB = 1_024;

/** The niceness of the child process: this process, which answers checks, has priority. */
const PRIORITY = 10;

/** How much of the end of the child's stderr is kept, in UTF-16 units. It tells why the process ended. */
const MAX_SAID = 4 * 1024;

/** Longest excerpt of it in a fault, in UTF-16 units. */
const MAX_EXCERPT = 300;

/** V8 aborts a process whose heap is full. */
const OUT_OF_MEMORY: NodeJS.Signals = "SIGABRT";

const ENTRY = new URL("./compiler-process.ts", import.meta.url);

/** Compiles in one child process, one job at a time, in order. A few small texts are compiled in this process. */
export class Compiler {
  readonly #options: CompilerOptions;
  readonly #jobs: Job[] = [];
  #running: Job | undefined;
  #child: ChildProcess | undefined;
  /** Cancels the timer of the running job or of the idle child process. */
  #disarm: () => void = () => undefined;
  #closed = false;

  constructor(options: CompilerOptions) {
    this.#options = options;
  }

  /**
   * Compiles each text to its own set, without looking for conflicts between texts. Small texts do not wait for larger
   * ones, and checks are answered between two of them.
   * @throws Fault RESOURCE_EXHAUSTED if compiling takes too much memory or time, UNAVAILABLE if the child process ends
   * for another reason, and after `close`
   */
  async compile(texts: readonly PolicyText[]): Promise<readonly CompiledSet[]> {
    if (this.#closed) throw stopping();
    if (sizeOf(texts) > FEW || texts.some(({ text }) => text.length > SMALL)) {
      const sets: CompiledSet[] = [];
      const pool = new Map<string, string>();
      for (const batch of batches(texts)) {
        const compiled = await this.#compileThere(batch);
        deduplicateStrings(compiled, pool);
        sets.push(...compiled);
        // Otherwise all received messages would be handled in the same turn of the event loop.
        await setImmediate();
      }
      return sets;
    }
    const { clock, settings } = this.#options;
    const slices = new Slices(clock);
    const sets: CompiledSet[] = [];
    for (const text of texts) {
      sets.push(await slices.take(compileText(text, settings)));
    }
    return sets;
  }

  /** Compiles one text, without looking for conflicts with other policies. */
  async compileOne(
    source: string,
    defaultName: string,
    text: string,
    namespace?: string,
  ): Promise<CompiledSet> {
    const [set] = await this.compile([{ source, defaultName, text, namespace }]);
    return set ?? { policies: [], findings: [], warnings: [] };
  }

  #compileThere(texts: readonly PolicyText[]): Promise<readonly CompiledSet[]> {
    return new Promise((done, failed) => {
      if (this.#closed) {
        failed(stopping());
        return;
      }
      this.#jobs.push({ texts, done, failed });
      this.#next();
    });
  }

  /** Fails all unfinished jobs. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const { failed } of this.#jobs.splice(0)) failed(stopping());
    this.#takeRunning()?.failed(stopping());
    this.#disarm();
    await this.#endChild();
  }

  #next(): void {
    if (this.#running !== undefined) return;
    this.#disarm();
    const { clock, settings } = this.#options;
    const job = this.#jobs.shift();
    if (job === undefined) {
      // An idle child must not keep this process alive.
      this.#child?.unref();
      this.#child?.channel?.unref();
      stderrOf(this.#child)?.unref();
      if (this.#child !== undefined) {
        this.#disarm = clock.alarm(IDLE_MS, () => void this.#endChild());
      }
      return;
    }
    this.#running = job;
    const child = this.#child ?? this.#start();
    child.ref();
    child.channel?.ref();
    stderrOf(child)?.ref();
    this.#disarm = clock.alarm(LONGEST_MS, () => {
      const seconds = LONGEST_MS / 1_000;
      this.#childFailed(
        child,
        "RESOURCE_EXHAUSTED",
        `wanted a document that compiles within ${seconds} s, got one that takes longer`,
      );
    });
    // The child's events report failures.
    child.send({ texts: job.texts, settings } satisfies CompileRequest, () => undefined);
  }

  #start(): ChildProcess {
    const { entry = ENTRY, heapMb = HEAP_MB } = this.#options;
    const cache = module.getCompileCacheDir();
    const child = fork(fileURLToPath(entry), [], {
      // It only computes and needs none of this process's options.
      execArgv: [`--max-old-space-size=${heapMb}`],
      env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
      serialization: "advanced",
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    let said = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-MAX_SAID);
    });
    if (child.pid !== undefined) lowerPriority(child.pid);
    child.on("message", (reply) => this.#receive(child, reply as CompileReply));
    child.on("error", (cause) => {
      this.#childFailed(child, "UNAVAILABLE", "the compiler process failed", cause);
    });
    // Not "exit": more output may follow that event.
    child.on("close", (code, signal) => {
      const excerpt = excerptOf(said);
      const cause = excerpt === "" ? undefined : new Error(excerpt);
      if (signal === OUT_OF_MEMORY) {
        const why = `wanted a document that compiles within ${heapMb} MiB of memory, got a larger one`;
        this.#childFailed(child, "RESOURCE_EXHAUSTED", why, cause);
      } else {
        const how = signal ?? code;
        this.#childFailed(child, "UNAVAILABLE", `the compiler process ended (${how})`, cause);
      }
    });
    this.#child = child;
    return child;
  }

  #receive(child: ChildProcess, reply: CompileReply): void {
    if (child !== this.#child) return;
    const job = this.#takeRunning();
    if ("sets" in reply) job?.done(reply.sets);
    else {
      const cause = new Error(reply.thrown);
      job?.failed(new Fault("INTERNAL", "internal error", { cause }));
    }
    this.#next();
  }

  /** Replaces a failed child for the next job. */
  #childFailed(child: ChildProcess, code: Code, why: string, cause?: unknown): void {
    if (child !== this.#child) return;
    const job = this.#takeRunning();
    void this.#endChild();
    if (job !== undefined) {
      const message = `${nameOf(job.texts)}: ${why}`;
      job.failed(new Fault(code, message, { cause }));
    }
    this.#next();
  }

  #takeRunning(): Job | undefined {
    const job = this.#running;
    this.#running = undefined;
    return job;
  }

  async #endChild(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    if (child.pid === undefined) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }
}

/** The line of a process's last output that names the error, cut to a limit; empty for no output. */
function excerptOf(said: string): string {
  const lines = said
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const named = lines.find((line) => /^(?:FATAL ERROR|[A-Za-z]*Error\b|Uncaught)/.test(line));
  return (named ?? lines.at(-1) ?? "").slice(0, MAX_EXCERPT);
}

function stderrOf(child: ChildProcess | undefined): Socket | undefined {
  const stderr = child?.stderr;
  return stderr instanceof Socket ? stderr : undefined;
}

/** Has no effect on systems that do not allow it. */
function lowerPriority(pid: number): void {
  try {
    setPriority(pid, PRIORITY);
  } catch {
    // Nothing depends on it.
  }
}

/** Divides the texts into batches of bounded size, in order; a larger text is its own batch. */
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

/** Names the largest text, which is the likeliest cause. */
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
