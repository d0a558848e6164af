// Shares the turns of the event loop among connections. The system hands over one new connection per turn (libuv), so
// new ones starve when turns are long. Therefore a turn handles a bounded amount of what connections have sent, the rest
// waits in line, and while new connections keep coming, turns only accept. How long the work has waited shows whether
// the process keeps up with its callers.

import type { Clock } from "#base/clock.ts";
import { WaitingMemory } from "./waiting-bytes.ts";

/**
 * The work that one turn of the event loop does for what connections have sent, in units of about 5 µs: a frame of
 * HTTP/2 is one unit, a JSON request is eight. A new connection waits for one or two such turns.
 */
export const MAX_WORK_PER_TURN = 1_024;
/** Milliseconds after which a turn ends, at the next reading of the clock: checks may cost far more than 5 µs. */
export const MAX_TURN_MS = 10;
/** Units of work after which a turn reads the clock again. */
export const WORK_BETWEEN_LOOKS = 64;
/** Milliseconds between two such readings that are no reason to bound the turn in time. */
const MAX_QUICK_MS = 1;
/** The part of a turn that one connection may use before it waits in line behind the others. */
export const MAX_WORK_PER_VISIT = 256;
/** Units of one JSON request. */
export const WORK_OF_JSON_REQUEST = 8;
/** Frames of HTTP/2 up to which a connection counts as new: its settings and a first call. */
export const FRAMES_OF_NEW_CONNECTION = 8;
/** Turns in a row that only accept connections. Then others go on, so that a flood of connections stops no calls. */
export const MAX_ACCEPTS_IN_A_ROW = 64;
/**
 * Bytes that are read from one connection before its turn has come: about what its peer may send without an answer
 * (HTTP/2: the window of the connection).
 */
export const MAX_READ_AHEAD = 1024 * 1024;
/**
 * The same for all connections together: some ten thousand checks, which take longer than a check may wait before others
 * are shed. Beyond it a connection in line holds a single read, 64 KiB at most.
 */
export const MAX_READ_AHEAD_TOTAL = 8 * 1024 * 1024;
/** Bytes that a read counts in addition, so that many small ones are bounded as well. */
export const READ_AHEAD_PER_CHUNK = 512;

/** Work that a new connection may do in its first visit: its settings and a first call. Then it waits in line. */
const MAX_WORK_OF_NEWCOMER = 16;
/** Waits of one measurement that are kept; the rest of a longer one would change its median little. */
const MAX_WAITS = 1_024;

/** A connection that has sent more than could be handled when it came. */
export interface Waiting {
  /** When the oldest of it was read, on the clock of the turns. */
  readonly since: number;
  /** Handles what waits, for as long as `Turns.spend` allows. Returns whether more is left. */
  work(): boolean;
}

export class Turns {
  /** Holds what connections have sent until it is their turn. */
  readonly memory = new WaitingMemory();
  readonly #clock: Pick<Clock, "now">;
  /** Units of work left in this turn, and in the visit to a connection. */
  #left = MAX_WORK_PER_TURN;
  #visitLeft = 0;
  /** When the end of this turn was scheduled, as it begins or soon after, and the units until the clock is read again. */
  #began = 0;
  #untilLook = WORK_BETWEEN_LOOKS;
  #lookedAt = 0;
  #endScheduled = false;
  /** A connection was accepted in this turn, and how many turns in a row have only accepted. */
  #accepted = false;
  #acceptsInARow = 0;
  #line: Waiting[] = [];
  /** New connections, which go before the line: a probe opens one each time, and it must not wait behind a flood. */
  #newcomers: Waiting[] = [];
  #readAhead = 0;
  /** Units of work since the last `takeWait`, and of those that had to wait their waits in ms. */
  #units = 0;
  #waits: { readonly ms: number; readonly units: number }[] = [];

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** Begins a visit to a connection from which bytes were read. Returns false if it has to wait in line. */
  enter(): boolean {
    if (this.#accepted || this.#left <= 0 || this.#someWait) return false;
    this.#visitLeft = MAX_WORK_PER_VISIT;
    return true;
  }

  /** A connection was accepted in this turn, or waits for its first visit. */
  get accepting(): boolean {
    return this.#accepted || this.#newcomers.length > 0;
  }

  /** No connection is being accepted, and none waits in line. */
  get idle(): boolean {
    return !this.#accepted && !this.#someWait;
  }

  /** Counts work that was done. One unit is about what a frame of HTTP/2 costs. Returns whether the visit may go on. */
  spend(units: number): boolean {
    this.#left -= units;
    this.#visitLeft -= units;
    this.#units += units;
    this.#untilLook -= units;
    if (this.#untilLook <= 0) this.#look();
    return this.goesOn;
  }

  /** The visit may go on. */
  get goesOn(): boolean {
    return this.#left > 0 && this.#visitLeft > 0;
  }

  /** Lets a connection go on when it is its turn. It must not wait already. `isNew`: it has not been served yet. */
  wait(waiting: Waiting, isNew = false): void {
    (isNew ? this.#newcomers : this.#line).push(waiting);
    this.#scheduleEnd();
  }

  /** The time, for `Waiting.since`. */
  now(): number {
    return this.#clock.now();
  }

  /**
   * Returns the median time for which work had waited for its connection's turn, ms, over all units since the last call;
   * undefined without any. Not a mean: a backlog of one connection behind itself is no wait of the others, as long as
   * these send more.
   */
  takeWait(): number | undefined {
    const waits = this.#waits.sort((a, b) => b.ms - a.ms);
    const half = this.#units / 2;
    const some = this.#units > 0;
    this.#units = 0;
    this.#waits = [];
    let longer = 0;
    for (const { ms, units } of waits) {
      longer += units;
      if (longer >= half) return ms;
    }
    return some ? 0 : undefined;
  }

  /** Counts bytes that are held until they can be handled; negative: no longer. Returns whether more may be read. */
  hold(bytes: number): boolean {
    this.#readAhead += bytes;
    return this.#readAhead < MAX_READ_AHEAD_TOTAL;
  }

  /** A connection was accepted: there may be more. */
  accepted(): void {
    this.#accepted = this.#acceptsInARow < MAX_ACCEPTS_IN_A_ROW;
    this.#scheduleEnd();
  }

  get #someWait(): boolean {
    return this.#line.length > 0 || this.#newcomers.length > 0;
  }

  /** Ends a turn that has taken its time. */
  #look(): void {
    this.#untilLook = WORK_BETWEEN_LOOKS;
    const now = this.#clock.now();
    const sinceLook = now - this.#lookedAt;
    this.#lookedAt = now;
    if (this.#endScheduled) {
      if (now - this.#began >= MAX_TURN_MS) this.#left = 0;
    } else if (sinceLook > MAX_QUICK_MS || this.#left < MAX_WORK_PER_TURN / 2) {
      // Turns that do little, and quickly, are not told apart: that would cost a look at the queue of the system for each.
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
      // The next turn shows whether there is another one.
      if (this.#someWait) this.#scheduleEnd();
      return;
    }
    this.#acceptsInARow = 0;
    if (!this.#someWait) return;
    this.#scheduleEnd();
    this.#workInLine();
  }

  #workInLine(): void {
    const [newcomers, line] = [this.#newcomers, this.#line];
    // Half of the turn at most, so that a flood of new connections does not stop the others.
    const enough = () =>
      this.#left <= MAX_WORK_PER_TURN / 2 || this.#clock.now() - this.#began >= MAX_TURN_MS / 2;
    for (let left = newcomers.length; left > 0 && this.#left > 0; left--) {
      if (line.length > 0 && enough()) break;
      this.#visit(newcomers.shift(), MAX_WORK_OF_NEWCOMER);
    }
    // Connections that have more left go to the end of the line, and are not visited twice in one turn.
    for (let left = line.length; left > 0 && this.#left > 0; left--) {
      this.#visit(line.shift(), MAX_WORK_PER_VISIT);
    }
  }

  #visit(next: Waiting | undefined, most: number): void {
    if (next === undefined) return;
    this.#visitLeft = most;
    const [ms, before] = [this.#clock.now() - next.since, this.#units];
    if (next.work()) this.#line.push(next);
    if (this.#waits.length < MAX_WAITS) this.#waits.push({ ms, units: this.#units - before });
  }
}
