// Destinations of log lines. A sink writes synchronously or asynchronously; with `log.non_blocking` each sink has a
// bounded queue, which drops and counts lines rather than delay a request.

import { write, writeSync } from "node:fs";
import { isatty } from "node:tty";

export interface Sink {
  /** Writes synchronously. May throw. */
  writeNow(lines: readonly string[]): void;
  /** Writes asynchronously. */
  write(lines: readonly string[]): Promise<void>;
  close(): Promise<void>;
  /** Opens a file again that may have been moved. Throws a Fault when that fails; the sink then works as before. */
  reopen?(): void;
  /** People read it on a terminal. */
  readonly terminal?: boolean;
}

const RETRY_MS = 5;

function isBusy(thrown: unknown): boolean {
  return thrown instanceof Error && "code" in thrown && thrown.code === "EAGAIN";
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function writeSome(descriptor: number, bytes: Uint8Array): Promise<number> {
  return new Promise((resolve, reject) => {
    write(descriptor, bytes, (failed, written) => {
      if (failed === null) resolve(written);
      else if (isBusy(failed)) resolve(0);
      else reject(failed);
    });
  });
}

/** Writes all of `text` through the thread pool. Retries while a pipe is full, so that no thread blocks on it. */
export async function writeAll(descriptor: number, text: string): Promise<void> {
  let left: Uint8Array = Buffer.from(text);
  while (left.length > 0) {
    const written = await writeSome(descriptor, left);
    if (written === 0) await pause(RETRY_MS);
    left = left.subarray(written);
  }
}

/** Writes all of `text` before returning, however long a pipe is full. */
export function writeAllNow(descriptor: number, text: string): void {
  const never = new Int32Array(new SharedArrayBuffer(4));
  let left: Uint8Array = Buffer.from(text);
  while (left.length > 0) {
    try {
      left = left.subarray(writeSync(descriptor, left));
    } catch (thrown) {
      if (!isBusy(thrown)) throw thrown;
      Atomics.wait(never, 0, 0, RETRY_MS);
    }
  }
}

/** Standard output or standard error. Closing the sink leaves the descriptor open. */
export function standardSink(descriptor: 1 | 2): Sink {
  return {
    writeNow: (lines) => writeAllNow(descriptor, lines.join("")),
    write: (lines) => writeAll(descriptor, lines.join("")),
    close: async () => undefined,
    terminal: isatty(descriptor),
  };
}

/** Passes on each line in the form that `shape` gives it. */
export function reshaped(sink: Sink, shape: (line: string) => string): Sink {
  return {
    writeNow: (lines) => sink.writeNow(lines.map(shape)),
    write: (lines) => sink.write(lines.map(shape)),
    close: () => sink.close(),
  };
}

/** Writes the lines of a logger to the sinks. */
export interface Outlet {
  write(line: string): void;
  /** Number of lines that were lost, because a queue was full or a sink failed. */
  readonly dropped: number;
  /** Resolves when all lines so far are written. */
  close(): Promise<void>;
}

/** Writes every line before `write` returns. When a sink fails, the line is lost and the process goes on. */
export function blockingOutlet(sinks: readonly Sink[]): Outlet {
  let dropped = 0;
  return {
    write(line) {
      for (const sink of sinks) {
        try {
          sink.writeNow([line]);
        } catch {
          dropped += 1;
        }
      }
    },
    get dropped() {
      return dropped;
    },
    close: async () => {
      await Promise.allSettled(sinks.map((sink) => sink.close()));
    },
  };
}

/** Number of lines that may wait for a slow sink. */
export const QUEUE_LINES = 1_000;

/** The queue of one sink: a blocked pipe must not keep lines from a file. */
class Queue {
  readonly #sink: Sink;
  readonly #lost: (lines: number) => void;
  /** Dropped lines that were reported. */
  #reported = 0;
  #waiting: string[] = [];
  #pump: Promise<void> | undefined;
  dropped = 0;

  constructor(sink: Sink, lost: (lines: number) => void) {
    this.#sink = sink;
    this.#lost = lost;
  }

  push(line: string): void {
    if (this.#waiting.length >= QUEUE_LINES) {
      this.dropped += 1;
      return;
    }
    this.#waiting.push(line);
    this.#pump ??= this.#run();
  }

  async close(): Promise<void> {
    await this.#pump;
    await this.#sink.close();
  }

  async #run(): Promise<void> {
    // Gathers the lines of this turn of the event loop into one write.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const lines = this.#waiting;
      this.#waiting = [];
      try {
        await this.#sink.write(lines);
        this.#reportLost();
      } catch {
        this.dropped += lines.length;
      }
    }
    this.#pump = undefined;
  }

  /** Only after a successful write and while there is room: otherwise this line would be lost as well. */
  #reportLost(): void {
    if (this.#waiting.length >= QUEUE_LINES) return;
    const lines = this.dropped - this.#reported;
    this.#reported = this.dropped;
    if (lines > 0) this.#lost(lines);
  }
}

/** Queues lines and writes them asynchronously. `lost` is called with the number of dropped lines once there is room. */
export function queuedOutlet(sinks: readonly Sink[], lost: (lines: number) => void): Outlet {
  const queues = sinks.map((sink) => new Queue(sink, lost));
  return {
    write(line) {
      for (const queue of queues) queue.push(line);
    },
    get dropped() {
      return queues.reduce((sum, queue) => sum + queue.dropped, 0);
    },
    close: async () => {
      await Promise.allSettled(queues.map((queue) => queue.close()));
    },
  };
}
