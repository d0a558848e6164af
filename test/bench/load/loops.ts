// Drives a server: as fast as it answers (closed loop, for throughput), or at a steady pace that does not depend
// on its answers (open loop, for latency measured from the moment at which a request was due).

import { startBeat } from "./beat.ts";
import type { Connection, ConnectionEvents, OpenConnection, Target } from "./connection.ts";

export interface Load {
  readonly open: OpenConnection;
  readonly target: Target;
  readonly connections: number;
  /** Most calls in flight on one connection. */
  readonly callsEach: number;
  /** Number of requests. A closed loop first sends one more on each connection, which does not count. */
  readonly requests: number;
  /** Number of keys; requests name them in turn, from 0. */
  readonly keys: number;
  /** Called by a closed loop when every connection has been used once. Timing starts when it returns. */
  readonly opened?: () => void | Promise<void>;
  /** Called by a closed loop when all requests are answered and the connections are still open. */
  readonly answered?: () => void | Promise<void>;
}

export interface Outcome {
  /** Number of requests sent. */
  readonly calls: number;
  readonly seconds: number;
  readonly samples: readonly Buffer[];
  /** Mean bytes of the replies' messages. */
  readonly replyBytes: number;
  /** CPU seconds that the load itself worked; NaN for an open loop. */
  readonly worked: number;
}

/** Keeps every connection full until all requests are answered. Rejects when a call fails. */
export async function closedLoop(load: Load): Promise<Outcome> {
  const keys = new Keys(load.keys);
  const spin = new Spin();
  const samples: Buffer[] = [];
  let sent = 0;
  let answered = 0;
  let goal = load.connections;
  let done = promise();
  const fill = (connection: Connection) => {
    while (sent < goal && connection.ready()) {
      sent++;
      connection.send(0, keys.next());
    }
  };
  const connections = await openConnections(load, {
    answered(_tag, sample) {
      if (sample !== undefined) samples.push(sample);
      answered++;
      if (answered === goal) done.resolve();
    },
    failed: (what) => done.reject(new Error(`load on ${load.target}: ${what}`)),
    drained(connection) {
      spin.worked();
      fill(connection);
    },
  });
  try {
    for (const connection of connections) {
      sent++;
      connection.send(0, keys.next());
      connection.flush();
    }
    await done.promise;
    await load.opened?.();
    done = promise();
    goal += load.requests;
    if (answered === goal) done.resolve();
    const watch = stopwatch();
    for (const connection of connections) {
      fill(connection);
      connection.flush();
    }
    // A load that sleeps is woken by the server's writes, at the server's cost, and a slower server would pay that
    // more often. So this one never sleeps.
    spin.start();
    await done.promise;
    const seconds = watch();
    spin.stop();
    await load.answered?.();
    return { seconds, samples, worked: spin.seconds, ...totals(goal, connections) };
  } finally {
    spin.stop();
    for (const connection of connections) connection.close();
  }
}

export interface Latencies extends Outcome {
  /** Milliseconds, sorted. */
  readonly latencies: Float64Array;
}

export interface Pace {
  /** Requests per second. */
  readonly rate: number;
  /** Sleep between two requests instead of polling the clock, because another process needs the load's core too. */
  readonly sleeps?: boolean;
  /** Called for every answer with the time at which its request was due and the time it arrived, both in ms. */
  readonly seen?: (due: number, now: number) => void;
  /** Called each time the loop reads the clock, in ms. */
  readonly looked?: (now: number) => void;
}

/** Sends at a steady rate and never waits for answers. A request that cannot be sent in time counts as late. */
export async function openLoop(load: Load, pace: Pace): Promise<Latencies> {
  const { rate, seen, looked } = pace;
  const keys = new Keys(load.keys);
  const latencies = new Float64Array(load.requests);
  const samples: Buffer[] = [];
  const done = promise();
  let answered = 0;
  const connections = await openConnections(load, {
    answered(due, sample) {
      if (sample !== undefined) samples.push(sample);
      const now = performance.now();
      latencies[answered++] = now - due;
      seen?.(due, now);
      if (answered === load.requests) done.resolve();
    },
    failed: (what) => done.reject(new Error(`load on ${load.target}: ${what}`)),
    drained: () => undefined,
  });
  const beat = pace.sleeps === true ? await startBeat(1_000 / rate) : undefined;
  const watch = stopwatch();
  const start = performance.now();
  let sent = 0;
  let turn = 0;
  const send = () => {
    const now = performance.now();
    looked?.(now);
    for (; sent < load.requests; sent++) {
      const due = start + (sent * 1_000) / rate;
      const connection = due <= now ? readyConnection(connections, turn++) : undefined;
      if (connection === undefined) break;
      connection.send(due, keys.next());
      connection.flush();
    }
    // Timers are too coarse: a load with a core of its own polls the clock.
    if (sent < load.requests && beat === undefined) setImmediate(send);
  };
  beat?.onBeat(send);
  send();
  try {
    await done.promise;
    const sums = totals(load.requests, connections);
    return { seconds: watch(), samples, ...sums, worked: Number.NaN, latencies: latencies.sort() };
  } finally {
    await beat?.stop();
    for (const connection of connections) connection.close();
  }
}

function readyConnection(connections: readonly Connection[], turn: number): Connection | undefined {
  for (let step = 0; step < connections.length; step++) {
    const connection = connections[(turn + step) % connections.length];
    if (connection?.ready()) return connection;
  }
  return undefined;
}

function openConnections(load: Load, events: ConnectionEvents): Promise<Connection[]> {
  const { open, target, connections, callsEach } = load;
  return Promise.all(Array.from({ length: connections }, () => open(target, events, callsEach)));
}

function totals(calls: number, connections: readonly Connection[]) {
  return {
    calls,
    replyBytes: connections.reduce((sum, connection) => sum + connection.received, 0) / calls,
  };
}

/** A promise that may reject before anything awaits it. */
function promise(): PromiseWithResolvers<void> {
  const made = Promise.withResolvers<void>();
  made.promise.catch(() => undefined);
  return made;
}

/** Keeps the process awake by polling, and adds up the processor time of the turns that did real work. */
class Spin {
  /** CPU seconds of turns that did work. */
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

/** Starts a stopwatch; each call of the result returns the seconds since. */
function stopwatch(): () => number {
  const start = performance.now();
  return () => (performance.now() - start) / 1_000;
}
