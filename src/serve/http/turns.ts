// Requests that cost as much as hundreds of checks take turns: one is begun in each turn of the event loop, whoever
// sends how many of them, so that the checks that come meanwhile wait for one of them at most.

import { Fault } from "#base/fault.ts";

/** A scraper and some people. More at once are a mistake or an attack, and are refused. */
const MOST_WAITING = 100;

export class Turns {
  readonly #waiting: (() => void)[] = [];

  /** Rejects with RESOURCE_EXHAUSTED when too many wait. */
  take<T>(work: () => T | Promise<T>): Promise<T> {
    const waiting = this.#waiting;
    if (waiting.length >= MOST_WAITING) return Promise.reject(tooMany());
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
  return new Fault("RESOURCE_EXHAUSTED", "too many such requests wait", { http: 503 });
}
