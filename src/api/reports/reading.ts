// Reading the messages of access logs a little at a time: however much proxies send, checks are answered in between.

/** Bytes of messages that one turn of the event loop reads, of all streams together: some 40 entries, or 0.2 ms. */
const BYTES_PER_TURN = 64 * 1024;

/** Reads one entry of a message at each step, and yields the bytes that it took. */
export type Reading = Iterator<number, void>;

interface Job {
  readonly reading: Reading;
  readonly done: () => void;
  readonly failed: (thrown: unknown) => void;
}

/** The readings of all streams take turns, and each turn of the event loop does a bounded part of them. */
export class ReadingTurns {
  readonly #line: Job[] = [];
  #left = BYTES_PER_TURN;
  #isNextTurnDue = false;

  /** Resolves when all of it is read: at once, unless much was read in this turn already. Rejects with what a step throws. */
  read(reading: Reading): Promise<void> {
    return new Promise((done, failed) => {
      this.#line.push({ reading, done, failed });
      if (this.#line.length === 1) this.#work();
    });
  }

  #work(): void {
    while (this.#left > 0) {
      const job = this.#line.shift();
      if (job === undefined) break;
      try {
        if (this.#isRead(job)) job.done();
        else this.#line.push(job);
      } catch (thrown) {
        job.failed(thrown);
      }
    }
    if (this.#isNextTurnDue || this.#left === BYTES_PER_TURN) return;
    this.#isNextTurnDue = true;
    setImmediate(() => {
      this.#isNextTurnDue = false;
      this.#left = BYTES_PER_TURN;
      this.#work();
    });
  }

  /** Reads on while this turn has bytes left. Returns whether the end was reached. */
  #isRead({ reading }: Job): boolean {
    while (this.#left > 0) {
      const step = reading.next();
      if (step.done === true) return true;
      this.#left -= step.value;
    }
    return false;
  }
}
