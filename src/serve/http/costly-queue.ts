// Queue for requests that cost as much as hundreds of checks: one is started per turn of the event loop, no matter
// who sends them, so that checks which arrive meanwhile wait for at most one of them.

import { Fault } from "#base/fault.ts";

/** Enough for a metrics scraper and a few people. More at once are a mistake or an attack, and are refused. */
const MAX_WAITING = 100;

export class CostlyQueue {
  readonly #waiting: (() => void)[] = [];

  /** Rejects with RESOURCE_EXHAUSTED if too many requests wait. */
  run<T>(work: () => T | Promise<T>): Promise<T> {
    const waiting = this.#waiting;
    if (waiting.length >= MAX_WAITING) return Promise.reject(tooMany());
    return new Promise((resolve, reject) => {
      waiting.push(() => {
        try {
          resolve(work());
        } catch (thrown) {
          reject(thrown);
        }
      });
      if (waiting.length === 1) setImmediate(this.#next);
    });
  }

  readonly #next = (): void => {
    this.#waiting[0]?.();
    this.#waiting.shift();
    if (this.#waiting.length > 0) setImmediate(this.#next);
  };
}

function tooMany(): Fault {
  return new Fault("RESOURCE_EXHAUSTED", "too many requests of this kind are waiting", {
    http: 503,
  });
}
