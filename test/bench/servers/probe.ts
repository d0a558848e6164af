// Preloaded into the server under test: reports the memory of the process to the bench over IPC, and profiles it.

import { writeFileSync } from "node:fs";
import type { Session } from "node:inspector/promises";
import { setTimeout as wait } from "node:timers/promises";
import { getHeapSpaceStatistics } from "node:v8";

/** Some memory (handles of closed streams, unused code) is freed only by a collection after the one that releases it. */
const COLLECTIONS = 12;
const REST_MS = 50;
const SAMPLE_US = 500;
const SAMPLE_BYTES = 4_096;
/** Period of the timer that watches the event loop. */
const WATCH_MS = 1;

function used(): number {
  // ArrayBuffers are part of `external`.
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

function computed(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** What takes up the memory of the process, in bytes, without collecting anything. */
export interface Shares {
  /** All memory that is resident. `heap`, `free` and `external` are parts of it. */
  readonly resident: number;
  /** What V8 has of the system for objects, of it for new ones, and of all of it what no object takes up. */
  readonly heap: number;
  readonly young: number;
  readonly free: number;
  /** Memory outside of the heap that objects hold, ArrayBuffers included. */
  readonly external: number;
  readonly sockets: number;
  /** Full collections since the first call. */
  readonly full: number;
}

let fullCollections: number | undefined;
async function countFullCollections(): Promise<void> {
  fullCollections = 0;
  const { constants, PerformanceObserver } = await import("node:perf_hooks");
  new PerformanceObserver((list) => {
    for (const { detail } of list.getEntries() as (PerformanceEntry & {
      detail: { kind: number };
    })[]) {
      if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR)
        fullCollections = (fullCollections ?? 0) + 1;
    }
  }).observe({ entryTypes: ["gc"] });
}

async function shares(): Promise<Shares> {
  if (fullCollections === undefined) await countFullCollections();

  const { rss, heapTotal, external } = process.memoryUsage();
  const spaces = getHeapSpaceStatistics();
  const sum = (of: (space: (typeof spaces)[number]) => number) =>
    spaces.reduce((total, space) => total + of(space), 0);
  return {
    resident: rss,
    heap: heapTotal,
    young: sum((space) => (space.space_name.startsWith("new_") ? space.physical_space_size : 0)),
    free: sum((space) => space.physical_space_size - space.space_used_size),
    external,
    sockets: process.getActiveResourcesInfo().filter((kind) => kind === "TCPSocketWrap").length,
    full: fullCollections ?? 0,
  };
}

async function held(): Promise<number> {
  for (let turn = 0; turn < COLLECTIONS; turn++) {
    globalThis.gc?.();
    await wait(REST_MS);
  }
  return used();
}

/** Loads modules only when a command needs them: the bench measures the memory of this process. */
function probe() {
  let session: Session | undefined;
  let collections: number | undefined;
  let timer: NodeJS.Timeout | undefined;
  let stretch = 0;
  const connect = async (): Promise<Session> => {
    const inspector = await import("node:inspector/promises");
    session = new inspector.Session();
    session.connect();
    return session;
  };
  return {
    held,
    /** Between two calls without a collection, `used` grows by exactly the bytes that were allocated. */
    async used() {
      if (collections === undefined) {
        collections = 0;
        const { PerformanceObserver } = await import("node:perf_hooks");
        const observer = new PerformanceObserver((list) => {
          collections = (collections ?? 0) + list.getEntries().length;
        });
        observer.observe({ entryTypes: ["gc"] });
      }
      // Observers are called in a later turn of the event loop.
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
    /** Starts to look for the longest time that the event loop's thread computes without a break. */
    watch() {
      let last = computed();
      stretch = 0;
      timer = setInterval(() => {
        const now = computed();
        stretch = Math.max(stretch, now - last);
        last = now;
      }, WATCH_MS);
      return "";
    },
    /** That time, in ms of the thread's processor time, so without pauses of the machine. */
    watched() {
      clearInterval(timer);
      return stretch;
    },
    /** Starts a profile of bytes allocated on the heap, including those that were collected since. */
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
async function answer(command: unknown): Promise<void> {
  const [what, argument = ""] = String(command).split(" ");
  if (what === "held") process.send?.(await answers.held());
  else if (what === "shares") process.send?.(await shares());
  else if (what === "used") process.send?.(await answers.used());
  else if (what === "profile") process.send?.(await answers.profile());
  else if (what === "allocations") process.send?.(await answers.allocations());
  else if (what === "allocated") process.send?.(await answers.allocated(argument));
  else if (what === "watch") process.send?.(answers.watch());
  else if (what === "watched") process.send?.(answers.watched());
  else if (what === "profiled") process.send?.(await answers.profiled(argument));
}

process.on("message", (command) => void answer(command));
process.channel?.unref();
