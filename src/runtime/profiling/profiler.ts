// The profiler of a process. It is idle, takes one profile for a caller, or profiles the whole run. The inspector is
// loaded when it is first needed.

import type { Session } from "node:inspector/promises";
import { pause } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";

type Format = typeof import("./format.ts");

/** 100 samples a second: the rate that tools expect, at a negligible cost for a busy process. */
const INTERVAL_MICROS = 10_000;
const CPU_PERIOD = { of: ["cpu", "nanoseconds"], value: INTERVAL_MICROS * 1_000 } as const;
/** Allocated bytes per sample, on average. */
const HEAP_INTERVAL_BYTES = 64 * 1024;
const HEAP_PERIOD = { of: ["space", "bytes"], value: HEAP_INTERVAL_BYTES } as const;
/** Interval at which the samples of a long run are merged into stacks, so that they do not accumulate. */
const FOLD_MS = 60_000;

export class ProcessProfiler {
  readonly #clock: Clock;
  #busy = "";

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Profiles the processor for `ms`, or until `signal` aborts. Resolves to gzipped pprof. */
  cpu(ms: number, signal: AbortSignal): Promise<Uint8Array> {
    return this.#alone("a processor profile is being taken", async (session, format) => {
      const begun = this.#clock.wall();
      const builder = new format.ProfileBuilder(format.CPU_TYPES);
      await startCpu(session);
      await pause(ms, this.#clock, signal);
      const { profile } = await session.post("Profiler.stop");
      format.addCpu(builder, profile);
      return builder.encode(begun, this.#clock.wall() - begun, CPU_PERIOD);
    });
  }

  /** Samples allocations that are made during `ms` and still alive at its end. Resolves to gzipped pprof. */
  allocations(ms: number, signal: AbortSignal): Promise<Uint8Array> {
    return this.#alone("an allocation profile is being taken", async (session, format) => {
      const begun = this.#clock.wall();
      const builder = new format.ProfileBuilder(format.HEAP_TYPES);
      const samplingInterval = HEAP_INTERVAL_BYTES;
      await session.post("HeapProfiler.startSampling", { samplingInterval });
      await pause(ms, this.#clock, signal);
      const { profile } = await session.post("HeapProfiler.stopSampling");
      format.addHeap(builder, profile);
      return builder.encode(begun, this.#clock.wall() - begun, HEAP_PERIOD);
    });
  }

  /** The current use of memory. Blocks the process, which other profiles would show. Resolves to gzipped pprof. */
  async memory(): Promise<Uint8Array> {
    this.#take("the memory is being looked through");
    try {
      const format = await import("./format.ts");
      const builder = new format.ProfileBuilder(format.HEAP_TYPES);
      format.addMemory(builder);
      return await builder.encode(this.#clock.wall(), 0, HEAP_PERIOD);
    } finally {
      this.#busy = "";
    }
  }

  /** Profiles the processor from now on. The returned function ends that and resolves to gzipped pprof. */
  async throughout(): Promise<() => Promise<Uint8Array>> {
    this.#take("the profile of the whole run is being written (profilers.cpu_profiler)");
    const { session, format } = await this.#open();
    const builder = new format.ProfileBuilder(format.CPU_TYPES);
    const begun = this.#clock.wall();
    await startCpu(session);
    let turn = Promise.resolve();
    let disarm: () => void;
    const fold = async (more: boolean) => {
      const { profile } = await session.post("Profiler.stop");
      if (more) await startCpu(session);
      format.addCpu(builder, profile);
    };
    const arm = () => {
      disarm = this.#clock.alarm(FOLD_MS, () => {
        // A failed merge loses one minute of samples; the last merge reports the error.
        turn = turn.then(() => fold(true)).catch(() => undefined);
        arm();
      });
    };
    arm();
    return async () => {
      disarm();
      await turn;
      await fold(false);
      session.disconnect();
      this.#busy = "";
      return builder.encode(begun, this.#clock.wall() - begun, CPU_PERIOD);
    };
  }

  /** One profile at a time: two would slow the process down and sample each other. */
  async #alone<T>(
    what: string,
    work: (session: Session, format: Format) => Promise<T>,
  ): Promise<T> {
    this.#take(what);
    try {
      const { session, format } = await this.#open();
      try {
        return await work(session, format);
      } finally {
        session.disconnect();
      }
    } finally {
      this.#busy = "";
    }
  }

  #take(what: string): void {
    if (this.#busy !== "") {
      throw new Fault("RESOURCE_EXHAUSTED", `one profile at a time: ${this.#busy}`, { http: 409 });
    }
    this.#busy = what;
  }

  async #open(): Promise<{ readonly session: Session; readonly format: Format }> {
    const { Session } = await import("node:inspector/promises");
    const format = await import("./format.ts");
    const session = new Session();
    session.connect();
    return { session, format };
  }
}

async function startCpu(session: Session): Promise<void> {
  await session.post("Profiler.enable");
  await session.post("Profiler.setSamplingInterval", { interval: INTERVAL_MICROS });
  await session.post("Profiler.start");
}
