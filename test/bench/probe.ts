// Preloaded into the server under test: tells the bench, when asked, what memory the process holds and what it
// has asked for, and profiles it.

import { writeFileSync } from "node:fs";
import type { Session } from "node:inspector/promises";
import { setTimeout as wait } from "node:timers/promises";

/** What one sets free (handles of closed streams, code long unused) only a later one can take. */
const COLLECTIONS = 12;
const REST_MS = 50;
const SAMPLE_US = 500;
const SAMPLE_BYTES = 4_096;
/** How often the event loop is to come by. */
const LOOK_MS = 1;

function used(): number {
  // ArrayBuffers are part of `external`.
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

function computed(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

async function held(): Promise<number> {
  for (let turn = 0; turn < COLLECTIONS; turn++) {
    globalThis.gc?.();
    await wait(REST_MS);
  }
  return used();
}

/** What is not asked for is not loaded: the bench measures the memory of this process. */
function probe() {
  let session: Session | undefined;
  let collections: number | undefined;
  let looks: NodeJS.Timeout | undefined;
  let stretch = 0;
  const connect = async (): Promise<Session> => {
    const inspector = await import("node:inspector/promises");
    session = new inspector.Session();
    session.connect();
    return session;
  };
  return {
    held,
    /** Between two of these without a collection, what is used grows by all that was allocated. */
    async used() {
      if (collections === undefined) {
        collections = 0;
        const { PerformanceObserver } = await import("node:perf_hooks");
        const observer = new PerformanceObserver((list) => {
          collections = (collections ?? 0) + list.getEntries().length;
        });
        observer.observe({ entryTypes: ["gc"] });
      }
      // Entries come in a later turn.
      await wait(REST_MS);
      return { used: used(), collections };
    },
    async profile() {
      const started = await connect();
      await started.post("Profiler.enable");
      await started.post("Profiler.setSamplingInterval", { interval: SAMPLE_US });
      await started.post("Profiler.start");
      return "";
    },
    /** Writes the profile in the form of `--cpu-prof`. */
    async profiled(file: string) {
      const stopped = await session?.post("Profiler.stop");
      session?.disconnect();
      writeFileSync(file, JSON.stringify(stopped?.profile));
      return "";
    },
    /** Looks for the longest that the event loop's thread computes before it comes by again. */
    look() {
      let last = computed();
      looks = setInterval(() => {
        const now = computed();
        stretch = Math.max(stretch, now - last);
        last = now;
      }, LOOK_MS);
      return "";
    },
    /** Milliseconds of that thread's processor time, which the machine's pauses are no part of. */
    looked() {
      clearInterval(looks);
      return stretch;
    },
    /** As the other profile, but of bytes on the heap, those that are free again included. */
    async allocations() {
      const started = await connect();
      await started.post("HeapProfiler.startSampling", {
        samplingInterval: SAMPLE_BYTES,
        includeObjectsCollectedByMajorGC: true,
        includeObjectsCollectedByMinorGC: true,
      });
      return "";
    },
    async allocated(file: string) {
      const stopped = await session?.post("HeapProfiler.stopSampling");
      session?.disconnect();
      writeFileSync(file, JSON.stringify(stopped?.profile));
      return "";
    },
  };
}

const answers = probe();
async function answer(asked: unknown): Promise<void> {
  const [what, argument = ""] = String(asked).split(" ");
  if (what === "held") process.send?.(await answers.held());
  else if (what === "used") process.send?.(await answers.used());
  else if (what === "profile") process.send?.(await answers.profile());
  else if (what === "allocations") process.send?.(await answers.allocations());
  else if (what === "allocated") process.send?.(await answers.allocated(argument));
  else if (what === "look") process.send?.(answers.look());
  else if (what === "looked") process.send?.(answers.looked());
  else if (what === "profiled") process.send?.(await answers.profiled(argument));
}

process.on("message", (asked) => void answer(asked));
process.channel?.unref();
