// Drives a server: as fast as it answers (closed loop, for throughput), or at a steady pace whatever it
// answers (open loop, for latency from the moment at which a request was meant to be sent).

import type { Lane, LaneEvents, OpenLane, Target } from "./lane.ts";
import { startMetronome } from "./metronome.ts";

export interface Load {
  readonly open: OpenLane;
  readonly target: Target;
  readonly lanes: number;
  /** Most calls in flight on one lane. */
  readonly perLane: number;
  /** A closed loop sends one more on each connection first, which does not count. */
  readonly requests: number;
  /** Keys go round from 0; each request names the next. */
  readonly keys: number;
  /** Of a closed loop: every connection has been used once, the watch starts when this is done. */
  readonly opened?: () => void | Promise<void>;
  /** Of a closed loop: all is answered, the connections are still open. */
  readonly answered?: () => void | Promise<void>;
}

export interface Outcome {
  /** All that were sent. */
  readonly calls: number;
  readonly seconds: number;
  readonly samples: readonly Buffer[];
  /** Mean bytes of the replies' messages. */
  readonly replyBytes: number;
  /** CPU seconds that the load itself worked; a closed loop knows them. */
  readonly worked: number;
}

/** Keeps every lane full until all requests are answered. */
export async function closedLoop(load: Load): Promise<Outcome> {
  const keys = new Keys(load.keys);
  const spin = new Spin();
  const samples: Buffer[] = [];
  let sent = 0;
  let answered = 0;
  let goal = load.lanes;
  let done = promise();
  const fill = (lane: Lane) => {
    while (sent < goal && lane.ready()) {
      sent++;
      lane.send(0, keys.next());
    }
  };
  const lanes = await openLanes(load, {
    answered(_tag, sample) {
      if (sample !== undefined) samples.push(sample);
      answered++;
      if (answered === goal) done.resolve();
    },
    failed: (what) => done.reject(new Error(`load on ${load.target}: ${what}`)),
    rest(lane) {
      spin.worked();
      fill(lane);
    },
  });
  try {
    for (const lane of lanes) {
      sent++;
      lane.send(0, keys.next());
      lane.flush();
    }
    await done.promise;
    await load.opened?.();
    done = promise();
    goal += load.requests;
    if (answered === goal) done.resolve();
    const watch = stopwatch();
    for (const lane of lanes) {
      fill(lane);
      lane.flush();
    }
    // A load that sleeps must be woken by whoever answers it, at the server's cost, and the slower server
    // would pay more often: so this one never sleeps.
    spin.start();
    await done.promise;
    const seconds = watch();
    spin.stop();
    await load.answered?.();
    return { seconds, samples, worked: spin.seconds, ...tell(goal, lanes) };
  } finally {
    spin.stop();
    for (const lane of lanes) lane.close();
  }
}

export interface Latencies extends Outcome {
  /** Milliseconds, sorted. */
  readonly latencies: Float64Array;
}

export interface Pace {
  /** Requests per second. */
  readonly rate: number;
  /** The load's core is wanted by others too: it sleeps between two requests instead of looking at the clock. */
  readonly sleeps?: boolean;
  /** Told of every answer: when it was meant to be asked for, and when it came, both in ms. */
  readonly seen?: (due: number, now: number) => void;
  /** Told of every look at the clock. */
  readonly looked?: (now: number) => void;
}

/** Sends at a steady rate and never waits for answers; what cannot be sent yet is late, and counted so. */
export async function openLoop(load: Load, pace: Pace): Promise<Latencies> {
  const { rate, seen, looked } = pace;
  const keys = new Keys(load.keys);
  const latencies = new Float64Array(load.requests);
  const samples: Buffer[] = [];
  const done = promise();
  let answered = 0;
  const lanes = await openLanes(load, {
    answered(due, sample) {
      if (sample !== undefined) samples.push(sample);
      const now = performance.now();
      latencies[answered++] = now - due;
      seen?.(due, now);
      if (answered === load.requests) done.resolve();
    },
    failed: (what) => done.reject(new Error(`load on ${load.target}: ${what}`)),
    rest: () => undefined,
  });
  const metronome = pace.sleeps === true ? await startMetronome(1_000 / rate) : undefined;
  const watch = stopwatch();
  const start = performance.now();
  let sent = 0;
  let turn = 0;
  const send = () => {
    const now = performance.now();
    looked?.(now);
    for (; sent < load.requests; sent++) {
      const due = start + (sent * 1_000) / rate;
      const lane = due <= now ? readyLane(lanes, turn++) : undefined;
      if (lane === undefined) break;
      lane.send(due, keys.next());
      lane.flush();
    }
    // Timers are too coarse: a load with a core of its own looks at the clock all the time.
    if (sent < load.requests && metronome === undefined) setImmediate(send);
  };
  metronome?.onBeat(send);
  send();
  try {
    await done.promise;
    const told = tell(load.requests, lanes);
    return { seconds: watch(), samples, ...told, worked: Number.NaN, latencies: latencies.sort() };
  } finally {
    await metronome?.stop();
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

function openLanes(load: Load, events: LaneEvents): Promise<Lane[]> {
  const { open, target, lanes, perLane } = load;
  return Promise.all(Array.from({ length: lanes }, () => open(target, events, perLane)));
}

function tell(calls: number, lanes: readonly Lane[]) {
  return { calls, replyBytes: lanes.reduce((sum, lane) => sum + lane.received, 0) / calls };
}

/** It may fail before anybody waits for it. */
function promise(): PromiseWithResolvers<void> {
  const made = Promise.withResolvers<void>();
  made.promise.catch(() => undefined);
  return made;
}

/** Keeps the process awake, and knows how much of the processor was needed for more than that. */
class Spin {
  /** CPU seconds of turns with work. */
  seconds = 0;
  #over = false;
  #worked = true;
  #last = 0;

  worked(): void {
    this.#worked = true;
  }

  start(): void {
    this.#last = cpuSeconds();
    this.#turn();
  }

  stop(): void {
    this.#over = true;
  }

  readonly #turn = (): void => {
    const now = cpuSeconds();
    if (this.#worked) this.seconds += now - this.#last;
    this.#worked = false;
    this.#last = now;
    if (!this.#over) setImmediate(this.#turn);
  };
}

function cpuSeconds(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1e6;
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
