// The pending answers of one stage. Each arrives, or counts as undecided when the wait ends. The grant of an answer that
// arrives later is given back.

import type { Clock } from "#base/clock.ts";
import { type Decision, LONGEST_WAIT_MS, type Pending, Queued } from "../flow.ts";
import type { Observer } from "../observer.ts";

/** Subtracted from the caller's deadline, ms, so that the answer still arrives in time. */
const MARGIN_MS = 10;

interface AnswerHandler {
  /** Called once: with the answer, or with undefined when the wait ended without one. */
  answered(answer: Decision | undefined): void;
  /** Called with an answer that came too late, whose grant has to be given back. */
  late(answer: Decision): void;
}

interface PendingAnswer {
  readonly pending: Pending<Decision>;
  readonly handler: AnswerHandler;
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

export class PendingAnswers {
  readonly #all: PendingAnswer[] = [];
  #end: WaitEnd | undefined;
  #open = 0;
  #onlyQueues = true;

  add(pending: Pending<Decision>, handler: AnswerHandler): void {
    this.#all.push({ pending, handler, open: true });
    this.#open += 1;
    if (!(pending instanceof Queued)) this.#onlyQueues = false;
  }

  /** True if all answers come from queues, which answer in time by themselves. */
  get onlyQueues(): boolean {
    return this.#onlyQueues;
  }

  /** Leaves all queues, because another limiter has refused the flow. */
  leaveQueues(): void {
    for (const { pending, open } of this.#all) {
      if (open && pending instanceof Queued) pending.cancel();
    }
  }

  /**
   * Waits until all have answered, or until shortly before the caller's `deadline` (on `Clock.now()`). Those that have not
   * answered by then count as undecided.
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
    for (const answer of [...this.#all]) {
      answer.pending.whenSettled(
        (decision) => {
          if (answer.open) this.#close(answer, decision);
          else answer.handler.late(decision);
        },
        (thrown) => this.#fail(answer, thrown),
      );
    }
  }

  /** Ends the wait: engines answer from local state if they can; otherwise they count as undecided. */
  end(): void {
    for (const { pending } of this.#all) pending.cancel();
    for (const answer of this.#all) if (answer.open) this.#close(answer, undefined);
  }

  /** Ends the wait without any answer. Answers that still come are handed back. */
  abandon(): void {
    for (const answer of this.#all) answer.open = false;
    if (this.#end === undefined) this.#listen(IGNORED);
    for (const { pending } of this.#all) pending.cancel();
  }

  #close(answer: PendingAnswer, decision: Decision | undefined): void {
    answer.open = false;
    answer.handler.answered(decision);
    this.#open -= 1;
    if (this.#open === 0) this.#end?.complete();
  }

  #fail(answer: PendingAnswer, thrown: unknown): void {
    if (!answer.open) return;
    this.abandon();
    this.#end?.failed(thrown);
  }
}
