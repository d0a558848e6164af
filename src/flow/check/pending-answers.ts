// The answers of one stage that have not come yet. Each comes, or is replaced when the wait ends; an answer that
// comes after that is handed back, so that nothing stays taken.

import type { Clock } from "#base/clock.ts";
import { LONGEST_WAIT_MS, type Pending, Queued } from "../flow.ts";
import type { Observer } from "../observer.ts";

/** Subtracted from the caller's deadline, ms, so that the answer still arrives in time. */
const MARGIN_MS = 10;

/** The receiver of an answer. */
export interface Asked<Answer> {
  /** Called once: with the answer, or with undefined when the wait ended without one. */
  answered(answer: Answer | undefined): void;
  /** An answer that came too late: what it took has to be given back. */
  late(answer: Answer): void;
}

interface Waiting<Answer> {
  readonly pending: Pending<Answer>;
  readonly asked: Asked<Answer>;
  open: boolean;
}

/** Callbacks of the check for the end of the wait. */
interface WaitEnd {
  /** Everything has been answered. */
  complete(): void;
  /** An engine threw: there will be no verdict. */
  failed(thrown: unknown): void;
}

const IGNORED: WaitEnd = { complete() {}, failed() {} };

export class PendingAnswers<Answer> {
  readonly #all: Waiting<Answer>[] = [];
  #end: WaitEnd | undefined;
  #left = 0;
  #onlyQueues = true;

  add(pending: Pending<Answer>, asked: Asked<Answer>): void {
    this.#all.push({ pending, asked, open: true });
    this.#left += 1;
    if (!(pending instanceof Queued)) this.#onlyQueues = false;
  }

  /** True if all answers come from queues, in time and by themselves. */
  get onlyQueues(): boolean {
    return this.#onlyQueues;
  }

  /** Leaves all queues: another limiter has refused the flow. */
  leaveQueues(): void {
    for (const { pending, open } of this.#all) {
      if (open && pending instanceof Queued) pending.cancel();
    }
  }

  /**
   * Waits until all have answered, or until shortly before the caller's `deadline` (on `Clock.now()`). Those that are
   * silent by then count as unanswered. Queues answer in time by themselves.
   */
  wait(clock: Clock, observer: Observer, deadline: number, end: WaitEnd): void {
    if (this.onlyQueues) {
      this.#listen(end);
      return;
    }
    const budget = Math.min(deadline - MARGIN_MS - clock.now(), LONGEST_WAIT_MS);
    const stopAlarm = clock.alarm(Math.max(0, budget), () => {
      observer.anomaly("late");
      this.end();
    });
    this.#listen({
      complete() {
        stopAlarm();
        end.complete();
      },
      failed(thrown) {
        stopAlarm();
        end.failed(thrown);
      },
    });
  }

  /** Starts to listen. Answers that are already there are delivered immediately. */
  #listen(end: WaitEnd): void {
    this.#end = end;
    for (const waiting of [...this.#all]) {
      waiting.pending.whenSettled(
        (answer) => this.#answer(waiting, answer),
        (thrown) => this.#fail(waiting, thrown),
      );
    }
  }

  /** Ends the wait: engines answer from local state if they can, the others count as unanswered. */
  end(): void {
    for (const { pending } of this.#all) pending.cancel();
    for (const waiting of this.#all) if (waiting.open) this.#close(waiting, undefined);
  }

  /** Ends the wait without any answer. Whatever still comes is handed back. */
  abandon(): void {
    for (const waiting of this.#all) waiting.open = false;
    if (this.#end === undefined) this.#listen(IGNORED);
    for (const { pending } of this.#all) pending.cancel();
  }

  #answer(waiting: Waiting<Answer>, answer: Answer): void {
    if (waiting.open) this.#close(waiting, answer);
    else waiting.asked.late(answer);
  }

  #close(waiting: Waiting<Answer>, answer: Answer | undefined): void {
    waiting.open = false;
    waiting.asked.answered(answer);
    this.#left -= 1;
    if (this.#left === 0) this.#end?.complete();
  }

  #fail(waiting: Waiting<Answer>, thrown: unknown): void {
    if (!waiting.open) return;
    this.abandon();
    this.#end?.failed(thrown);
  }
}
