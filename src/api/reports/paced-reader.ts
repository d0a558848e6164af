// Reads the messages of access logs a little at a time, so that checks are answered in between, however much proxies send.

/** Bytes of messages that one turn of the event loop reads, of all streams together: some 40 entries, or 0.2 ms. */
const BYTES_PER_TURN = 64 * 1024;

/** Reads one entry of a message at each step, and yields the bytes that it took. */
export type EntrySteps = Iterator<number, void>;

interface Job {
  readonly steps: EntrySteps;
  readonly done: () => void;
  readonly failed: (thrown: unknown) => void;
}

/** Reads for all streams in turn, a bounded part in each turn of the event loop. */
export class PacedReader {
  readonly #queue: Job[] = [];
  #left = BYTES_PER_TURN;
  #isNextTurnDue = false;

  /** Resolves after the last step, in this turn unless much was read in it already. Rejects with the error of a step. */
  read(steps: EntrySteps): Promise<void> {
    return new Promise((done, failed) => {
      this.#queue.push({ steps, done, failed });
      if (this.#queue.length === 1) this.#work();
    });
  }

  #work(): void {
    while (this.#left > 0) {
      const job = this.#queue.shift();
      if (job === undefined) break;
      try {
        if (this.#readOn(job)) job.done();
        else this.#queue.push(job);
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
  #readOn({ steps }: Job): boolean {
    while (this.#left > 0) {
      const step = steps.next();
      if (step.done === true) return true;
      this.#left -= step.value;
    }
    return false;
  }
}
