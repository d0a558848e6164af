// The takes of one stage that have to wait. All of them answer, or whoever has not is undecided when the
// wait ends; what an engine grants after that goes straight back.

import type { Decision, Pending } from "./flow.ts";
import type { Limiter } from "./limit.ts";

interface Waiting {
  /** Where its decision stands among those of the check. */
  readonly place: number;
  readonly limiter: Limiter;
  readonly taken: Pending<Decision>;
  open: boolean;
}

/** What the check does with what comes. */
export interface Waiter {
  answered(place: number, decision: Decision): void;
  /** Everybody has answered. */
  over(): void;
  /** An engine broke: there will be no verdict. */
  broke(thrown: unknown): void;
}

export class Waits {
  readonly #all: Waiting[] = [];
  #waiter: Waiter | undefined;
  #left = 0;

  add(place: number, limiter: Limiter, taken: Pending<Decision>): void {
    this.#all.push({ place, limiter, taken, open: true });
    this.#left += 1;
  }

  /** Begins to listen. Answers that are already there come at once. */
  begin(waiter: Waiter): void {
    this.#waiter = waiter;
    for (const waiting of [...this.#all]) {
      waiting.taken.whenSettled(
        (decision) => this.#answer(waiting, decision),
        (thrown) => this.#break(waiting, thrown),
      );
    }
  }

  /** Ends the wait: engines answer from local state if they can, and who says nothing is undecided. */
  end(): void {
    for (const { taken } of this.#all) taken.cancel();
    for (const waiting of this.#all) {
      if (waiting.open) this.#answer(waiting, unanswered(waiting.limiter));
    }
  }

  /** Nobody wants the answers any more. */
  abandon(): void {
    for (const waiting of this.#all) waiting.open = false;
    if (this.#waiter === undefined) this.begin({ answered() {}, over() {}, broke() {} });
    for (const { taken } of this.#all) taken.cancel();
  }

  #answer(waiting: Waiting, decision: Decision): void {
    if (!waiting.open) {
      if (decision.grant !== undefined) waiting.limiter.undo(decision.grant);
      return;
    }
    waiting.open = false;
    this.#waiter?.answered(waiting.place, decision);
    this.#left -= 1;
    if (this.#left === 0) this.#waiter?.over();
  }

  #break(waiting: Waiting, thrown: unknown): void {
    if (!waiting.open) return;
    this.abandon();
    this.#waiter?.broke(thrown);
  }
}

/** Holds the place of a decision that has not come, so that the order stays that of components. */
export function unanswered({ component }: Limiter): Decision {
  return {
    component,
    outcome: "undecided",
    dropped: true,
    keyMissing: false,
    label: "",
    remaining: 0,
    current: 0,
    consumed: 0,
    waitMs: -1,
    requestId: "",
    grant: undefined,
    failure: undefined,
  };
}
