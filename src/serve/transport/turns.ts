// Shares the turns of the event loop among connections. The system hands over one new connection per turn (libuv), so
// new ones starve when turns are long. Therefore a turn handles a bounded amount of what connections have sent, the rest
// waits in line, and while new connections keep coming, turns only accept.

import { MAX_ACCEPTS_IN_A_ROW, MAX_WORK_PER_TURN, MAX_WORK_PER_VISIT } from "./limits.ts";

/** A connection that has sent more than could be handled when it came. */
export interface Waiting {
  /** Handles up to so many units of work. Returns whether more is left. */
  work(most: number): boolean;
}

export class Turns {
  /** Units of work left in this turn. May be carried over from turns that did little. */
  #left = MAX_WORK_PER_TURN;
  #endScheduled = false;
  /** A connection was accepted in this turn, and how many turns in a row have only accepted. */
  #accepted = false;
  #acceptsInARow = 0;
  #line: Waiting[] = [];
  /** New connections, which go before the line: a probe opens one each time, and it must not wait behind a flood. */
  #newcomers: Waiting[] = [];

  /** Units of work that a connection may do now; 0: it must wait in line. */
  get allowance(): number {
    if (this.#accepted || this.#someWait) return 0;
    return Math.max(0, Math.min(this.#left, MAX_WORK_PER_VISIT));
  }

  /** No connection is being accepted, and none waits in line. */
  get idle(): boolean {
    return !this.#accepted && !this.#someWait;
  }

  /** Counts work that was done. One unit is about what a frame of HTTP/2 costs. */
  spend(units: number): void {
    this.#left -= units;
    // Turns that do little need not be told apart: that would cost a look at the queue of the system for each.
    if (this.#left < MAX_WORK_PER_TURN / 2) this.#scheduleEnd();
  }

  /** Lets a connection go on when it is its turn. It must not wait already. `isNew`: it has not been served yet. */
  wait(waiting: Waiting, isNew = false): void {
    (isNew ? this.#newcomers : this.#line).push(waiting);
    this.#scheduleEnd();
  }

  /** A connection was accepted: there may be more. */
  accepted(): void {
    this.#accepted = this.#acceptsInARow < MAX_ACCEPTS_IN_A_ROW;
    this.#scheduleEnd();
  }

  get #someWait(): boolean {
    return this.#line.length > 0 || this.#newcomers.length > 0;
  }

  #scheduleEnd(): void {
    if (this.#endScheduled) return;
    this.#endScheduled = true;
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
    this.#workInLine();
  }

  #workInLine(): void {
    const line = this.#line;
    // Connections that have more left go to the end of the line, and are not visited twice in one turn.
    let visits = line.length + this.#newcomers.length;
    for (; visits > 0 && this.#left > 0; visits--) {
      const next = this.#newcomers.shift() ?? line.shift();
      if (next?.work(Math.min(this.#left, MAX_WORK_PER_VISIT)) === true) line.push(next);
    }
    if (this.#someWait) this.#scheduleEnd();
  }
}
