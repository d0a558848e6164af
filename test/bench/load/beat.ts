// Wakes this process at a steady beat that is much finer than its timers, whose unit is a millisecond, without
// keeping the processor busy in between: a second thread sleeps precisely and posts a message for each beat.

import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

export interface Beat {
  onBeat(beat: () => void): void;
  stop(): Promise<void>;
}

/** Starts a beat with this period in ms. */
export async function startBeat(every: number): Promise<Beat> {
  const worker = new Worker(import.meta.filename, { workerData: every });
  await once(worker, "online");
  return {
    onBeat: (beat) => {
      worker.on("message", beat);
    },
    async stop() {
      await worker.terminate();
    },
  };
}

function run(every: number): never {
  const never = new Int32Array(new SharedArrayBuffer(4));
  const start = performance.now();
  for (let beat = 1; ; beat++) {
    const left = start + beat * every - performance.now();
    if (left > 0) Atomics.wait(never, 0, 0, left);
    parentPort?.postMessage(0);
  }
}

if (!isMainThread) run(workerData);
