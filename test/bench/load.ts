// Drives a server: as fast as it answers (closed loop, for throughput), or at a steady pace whatever it
// answers (open loop, for latency from the moment at which a request was meant to be sent).

import type { Lane, LaneEvents, OpenLane, Target } from "./lane.ts";

export interface Load {
  readonly open: OpenLane;
  readonly target: Target;
  readonly lanes: number;
  /** Most calls in flight on one lane. */
  readonly perLane: number;
  readonly requests: number;
  /** Keys go round from 0; each request names the next. */
  readonly keys: number;
}

export interface Outcome {
  readonly seconds: number;
  readonly samples: readonly Buffer[];
}

/** Keeps every lane full until all requests are answered. */
export async function closedLoop(load: Load): Promise<Outcome> {
  const keys = new Keys(load.keys);
  let sent = 0;
  let left = load.requests;
  let over = false;
  const samples: Buffer[] = [];
  const done = Promise.withResolvers<void>();
  const send = (lane: Lane) => {
    if (sent === load.requests) return;
    sent++;
    lane.send(0, keys.next());
  };
  const owed = new Map<Lane, number>();
  const lanes = await openLanes(load, {
    answered(lane, _tag, sample) {
      if (sample !== undefined) samples.push(sample);
      left--;
      if (left === 0) done.resolve();
      owed.set(lane, (owed.get(lane) ?? 0) + 1);
    },
    failed: (what) => done.reject(new Error(`load on ${load.target}: ${what}`)),
    rest(lane) {
      let more = owed.get(lane) ?? 0;
      for (; more > 0 && lane.ready(); more--) send(lane);
      owed.set(lane, more);
    },
  });
  const watch = stopwatch();
  for (const lane of lanes) {
    for (let call = 0; call < load.perLane && lane.ready(); call++) send(lane);
    lane.flush();
  }
  // A load that sleeps must be woken by whoever answers it, at the server's cost, and the slower server
  // would pay more often: so this one never sleeps.
  const spin = () => {
    if (left > 0 && !over) setImmediate(spin);
  };
  spin();
  try {
    await done.promise;
    return { seconds: watch(), samples };
  } finally {
    over = true;
    for (const lane of lanes) lane.close();
  }
}

export interface Latencies extends Outcome {
  /** Milliseconds, sorted. */
  readonly latencies: Float64Array;
}

/** Sends at `rate` per second and never waits for answers; what cannot be sent yet is late, and counted so. */
export async function openLoop(load: Load, rate: number): Promise<Latencies> {
  const keys = new Keys(load.keys);
  const latencies = new Float64Array(load.requests);
  const samples: Buffer[] = [];
  const done = Promise.withResolvers<void>();
  let answered = 0;
  const lanes = await openLanes(load, {
    answered(_lane, due, sample) {
      if (sample !== undefined) samples.push(sample);
      latencies[answered++] = performance.now() - due;
      if (answered === load.requests) done.resolve();
    },
    failed: (what) => done.reject(new Error(`load on ${load.target}: ${what}`)),
    rest: () => undefined,
  });
  const watch = stopwatch();
  const start = performance.now();
  let sent = 0;
  let turn = 0;
  const pace = () => {
    const now = performance.now();
    for (; sent < load.requests; sent++) {
      const due = start + (sent * 1_000) / rate;
      const lane = due <= now ? readyLane(lanes, turn++) : undefined;
      if (lane === undefined) break;
      lane.send(due, keys.next());
      lane.flush();
    }
    // Timers are too coarse: the load has a core of its own, so it looks at the clock all the time.
    if (sent < load.requests) setImmediate(pace);
  };
  pace();
  try {
    await done.promise;
    return { seconds: watch(), samples, latencies: latencies.sort() };
  } finally {
    for (const lane of lanes) lane.close();
  }
}

function readyLane(lanes: readonly Lane[], turn: number): Lane | undefined {
  for (let step = 0; step < lanes.length; step++) {
    const lane = lanes[(turn + step) % lanes.length];
    if (lane?.ready()) return lane;
  }
  return undefined;
}

function openLanes({ open, target, lanes }: Load, events: LaneEvents): Promise<Lane[]> {
  return Promise.all(Array.from({ length: lanes }, () => open(target, events)));
}

class Keys {
  readonly #count: number;
  #at = 0;

  constructor(count: number) {
    this.#count = count;
  }

  next(): number {
    const key = this.#at;
    this.#at = key + 1 === this.#count ? 0 : key + 1;
    return key;
  }
}

/** Seconds since it was made. */
function stopwatch(): () => number {
  const start = performance.now();
  return () => (performance.now() - start) / 1_000;
}
