// Where lines end up: a sink takes lines at once or in its own time. The queue before the sinks is what
// `log.non_blocking` means: bounded, it drops and counts rather than make a request wait.

import { write, writeSync } from "node:fs";

export interface Sink {
  /** Writes before it returns. May throw. */
  writeNow(lines: readonly string[]): void;
  /** Writes without holding up the caller. */
  write(lines: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

const RETRY_MS = 5;

function isBusy(thrown: unknown): boolean {
  return thrown instanceof Error && "code" in thrown && thrown.code === "EAGAIN";
}

function rest(ms: number): Promise<void> {
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

/** Writes all of it through the thread pool; a full pipe is tried again, not waited on. */
export async function writeAll(descriptor: number, text: string): Promise<void> {
  let left: Uint8Array = Buffer.from(text);
  while (left.length > 0) {
    const written = await writeSome(descriptor, left);
    if (written === 0) await rest(RETRY_MS);
    left = left.subarray(written);
  }
}

/** Writes all of it before returning, however long a full pipe takes. */
export function writeAllNow(descriptor: number, text: string): void {
  const pause = new Int32Array(new SharedArrayBuffer(4));
  let left: Uint8Array = Buffer.from(text);
  while (left.length > 0) {
    try {
      left = left.subarray(writeSync(descriptor, left));
    } catch (thrown) {
      if (!isBusy(thrown)) throw thrown;
      Atomics.wait(pause, 0, 0, RETRY_MS);
    }
  }
}

/** Standard output or standard error; closing leaves it open. */
export function standardSink(descriptor: 1 | 2): Sink {
  return {
    writeNow: (lines) => writeAllNow(descriptor, lines.join("")),
    write: (lines) => writeAll(descriptor, lines.join("")),
    close: async () => undefined,
  };
}

/** Passes on each line in another form. */
export function reshaped(sink: Sink, shape: (line: string) => string): Sink {
  return {
    writeNow: (lines) => sink.writeNow(lines.map(shape)),
    write: (lines) => sink.write(lines.map(shape)),
    close: () => sink.close(),
  };
}

/** Takes the lines of a logger and brings them to the sinks. */
export interface Outlet {
  write(line: string): void;
  /** Lines that were lost: no room, or a sink that failed. */
  readonly dropped: number;
  /** Ends when all lines taken so far are written. */
  close(): Promise<void>;
}

/** Every line is written before `write` returns. A sink that fails loses the line, not the process. */
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

/** Lines that wait for a sink that is slower than the log. */
export const QUEUE_LINES = 1_000;

/** One queue per sink, so that a stuck pipe does not keep lines from the file beside it. */
class Queue {
  readonly #sink: Sink;
  readonly #lost: (lines: number) => void;
  #told = 0;
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
    // Let the lines of this turn of the loop gather into one write.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const lines = this.#waiting;
      this.#waiting = [];
      try {
        await this.#sink.write(lines);
        this.#tell();
      } catch {
        this.dropped += lines.length;
      }
    }
    this.#pump = undefined;
  }

  /** Only with room and after a write that went well: else the word about lost lines is lost as well. */
  #tell(): void {
    if (this.#waiting.length >= QUEUE_LINES) return;
    const lines = this.dropped - this.#told;
    this.#told = this.dropped;
    if (lines > 0) this.#lost(lines);
  }
}

/** Lines are queued and written by and by; `lost` hears how many were dropped once there is room again. */
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
