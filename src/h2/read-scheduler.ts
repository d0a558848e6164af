// Schedules the handling of what connections have sent. libuv accepts one connection per turn of the event loop, so long
// turns would starve new connections. Each turn therefore handles a bounded amount of work; the rest is queued, round
// robin over connections, and while connections keep arriving, turns only accept. The queueing delay shows whether the
// process keeps up with its callers.

import type { Clock } from "#base/clock.ts";
import { ReadBufferPool } from "./read-buffers.ts";

/**
 * Work that one turn of the event loop does, in units of about 5 µs: an HTTP/2 frame is one unit, a JSON request is
 * eight. A new connection waits for one or two such turns.
 */
export const MAX_WORK_PER_TURN = 1_024;
/** Milliseconds after which a turn ends, at the next clock reading: checks may cost far more than 5 µs. */
export const MAX_TURN_MS = 10;
/** Units of work between two clock readings. */
export const WORK_BETWEEN_CLOCK_READINGS = 64;
/** Milliseconds between two clock readings up to which a turn needs no bound in time. */
const MAX_QUICK_MS = 1;
/** The time slice of one connection, in units of work. A connection that has more is queued again. */
export const MAX_WORK_PER_SLICE = 256;
export const WORK_OF_JSON_REQUEST = 8;
/** Turns in a row that only accept connections, so that a flood of connections does not stop all calls. */
export const MAX_ACCEPTS_IN_A_ROW = 64;
/**
 * Bytes read ahead from all connections: some ten thousand checks, which take longer than a check may wait before others
 * are shed. Beyond it, a queued connection holds a single read of at most 64 KiB.
 */
export const MAX_READ_AHEAD_TOTAL = 8 * 1024 * 1024;

/** The first time slice of a new connection: its settings and a first call. */
const MAX_WORK_OF_NEW_CONNECTION = 16;
/** Delays that one measurement keeps; more would change its median little. */
const MAX_DELAYS = 1_024;

/** A connection with bytes that were read and not handled. */
export interface QueuedReader {
  /** When the oldest of these bytes were read, on the clock of the scheduler. */
  readonly since: number;
  /** Handles them for as long as `spend` allows. Returns whether more are left. */
  work(): boolean;
}

export class ReadScheduler {
  /** Holds what queued connections have sent. */
  readonly buffers = new ReadBufferPool();
  readonly #clock: Pick<Clock, "now">;
  /** Units of work left in this turn, and in the current time slice. */
  #left = MAX_WORK_PER_TURN;
  #sliceLeft = 0;
  /** When this turn began, or soon after. Valid while its end is scheduled. */
  #began = 0;
  #endScheduled = false;
  #untilClockReading = WORK_BETWEEN_CLOCK_READINGS;
  #clockReadAt = 0;
  /** A connection was accepted in this turn. */
  #accepted = false;
  #acceptsInARow = 0;
  #queue: QueuedReader[] = [];
  /** These precede the queue: a probe opens a connection each time and must not wait behind a flood. */
  #newConnections: QueuedReader[] = [];
  #readAhead = 0;
  /** Units of work since the last `takeMedianDelay`, and the queueing delays among them. */
  #units = 0;
  #delays: { readonly ms: number; readonly units: number }[] = [];

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** Starts the time slice of a connection that was just read. Returns false if it must be queued. */
  startSlice(): boolean {
    if (this.#accepted || this.#left <= 0 || this.#anyQueued) return false;
    this.#sliceLeft = MAX_WORK_PER_SLICE;
    return true;
  }

  /** A connection was accepted in this turn, or waits for its first time slice. */
  get accepting(): boolean {
    return this.#accepted || this.#newConnections.length > 0;
  }

  /** No connection is being accepted, and none is queued. */
  get idle(): boolean {
    return !this.#accepted && !this.#anyQueued;
  }

  /** Counts work that was done. Returns whether the time slice has more room. */
  spend(units: number): boolean {
    this.#left -= units;
    this.#sliceLeft -= units;
    this.#units += units;
    this.#untilClockReading -= units;
    if (this.#untilClockReading <= 0) this.#readClock();
    return this.mayContinue;
  }

  get mayContinue(): boolean {
    return this.#left > 0 && this.#sliceLeft > 0;
  }

  /** Queues a connection that is not queued yet. `isNew`: it has not been served before. */
  enqueue(reader: QueuedReader, isNew = false): void {
    (isNew ? this.#newConnections : this.#queue).push(reader);
    this.#scheduleEnd();
  }

  /** The time, for `QueuedReader.since`. */
  now(): number {
    return this.#clock.now();
  }

  /**
   * Returns the median queueing delay of all units of work since the last call, ms; undefined without any work. Not a
   * mean: the backlog of one connection does not delay the others, as long as these send more.
   */
  takeMedianDelay(): number | undefined {
    const delays = this.#delays.sort((a, b) => b.ms - a.ms);
    const half = this.#units / 2;
    const some = this.#units > 0;
    this.#units = 0;
    this.#delays = [];
    let longer = 0;
    for (const { ms, units } of delays) {
      longer += units;
      if (longer >= half) return ms;
    }
    return some ? 0 : undefined;
  }

  /** Adds bytes to those read ahead, or subtracts them. Returns whether more may be read ahead. */
  countReadAhead(bytes: number): boolean {
    this.#readAhead += bytes;
    return this.#readAhead < MAX_READ_AHEAD_TOTAL;
  }

  /** A connection was accepted: there may be more. */
  connectionAccepted(): void {
    this.#accepted = this.#acceptsInARow < MAX_ACCEPTS_IN_A_ROW;
    this.#scheduleEnd();
  }

  get #anyQueued(): boolean {
    return this.#queue.length > 0 || this.#newConnections.length > 0;
  }

  /** Ends a turn that has used up its time. */
  #readClock(): void {
    this.#untilClockReading = WORK_BETWEEN_CLOCK_READINGS;
    const now = this.#clock.now();
    const elapsed = now - this.#clockReadAt;
    this.#clockReadAt = now;
    if (this.#endScheduled) {
      if (now - this.#began >= MAX_TURN_MS) this.#left = 0;
    } else if (elapsed > MAX_QUICK_MS || this.#left < MAX_WORK_PER_TURN / 2) {
      // Quick turns with little work share one bound: telling them apart would cost a `setImmediate` for each.
      this.#scheduleEnd();
    }
  }

  #scheduleEnd(): void {
    if (this.#endScheduled) return;
    this.#endScheduled = true;
    this.#began = this.#clock.now();
    setImmediate(() => this.#end());
  }

  #end(): void {
    this.#endScheduled = false;
    this.#left = MAX_WORK_PER_TURN;
    if (this.#accepted) {
      this.#accepted = false;
      this.#acceptsInARow++;
      // The next turn shows whether there is another new connection.
      if (this.#anyQueued) this.#scheduleEnd();
      return;
    }
    this.#acceptsInARow = 0;
    if (!this.#anyQueued) return;
    this.#scheduleEnd();
    this.#workThroughQueue();
  }

  #workThroughQueue(): void {
    const [newConnections, queue] = [this.#newConnections, this.#queue];
    // New connections get half of the turn at most, so that a flood of them does not stop the others.
    const halfUsed = () =>
      this.#left <= MAX_WORK_PER_TURN / 2 || this.#clock.now() - this.#began >= MAX_TURN_MS / 2;
    for (let left = newConnections.length; left > 0 && this.#left > 0; left--) {
      if (queue.length > 0 && halfUsed()) break;
      this.#runSlice(newConnections.shift(), MAX_WORK_OF_NEW_CONNECTION);
    }
    // A connection that has more work left joins the end of the queue, and gets no second slice in this turn.
    for (let left = queue.length; left > 0 && this.#left > 0; left--) {
      this.#runSlice(queue.shift(), MAX_WORK_PER_SLICE);
    }
  }

  #runSlice(reader: QueuedReader | undefined, units: number): void {
    if (reader === undefined) return;
    this.#sliceLeft = units;
    const [ms, before] = [this.#clock.now() - reader.since, this.#units];
    if (reader.work()) this.#queue.push(reader);
    if (this.#delays.length < MAX_DELAYS) this.#delays.push({ ms, units: this.#units - before });
  }
}
