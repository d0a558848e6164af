// Copies of buckets at another agent, for the case that this one is lost. A bucket that changes while a message is on its
// way is in the next one, as it is then.

import type { Clock } from "#base/clock.ts";
import type { OwnedLimiter } from "../owned-limiters.ts";
import type { Link } from "./link.ts";
import type { Bucket } from "./messages.ts";

interface Changed {
  readonly limiter: OwnedLimiter;
  readonly lo: number;
  readonly hi: number;
}

/** Most buckets that wait to be copied. Further ones are copied when they change again. */
const MOST = 1_000_000;

export class Copies {
  readonly #link: Link;
  readonly #clock: Clock;
  readonly #failed: () => void;
  #changed = new Map<string, Changed>();
  /** The message that will have what changes now; undefined while nothing has changed. */
  #next: PromiseWithResolvers<void> | undefined;
  #sending = false;

  /** `failed` is called for each message that did not arrive. */
  constructor(link: Link, clock: Clock, failed: () => void) {
    this.#link = link;
    this.#clock = clock;
    this.#failed = failed;
  }

  /** Resolves when the other agent has the bucket as it is now or later, or could not be reached in time. */
  changed(limiter: OwnedLimiter, lo: number, hi: number): Promise<void> {
    if (this.#changed.size < MOST) {
      this.#changed.set(`${limiter.number}:${lo}:${hi}`, { limiter, lo, hi });
    }
    if (this.#next === undefined) {
      this.#next = Promise.withResolvers();
      if (!this.#sending) setImmediate(() => void this.#send());
    }
    return this.#next.promise;
  }

  async #send(): Promise<void> {
    this.#sending = true;
    for (let next = this.#next; next !== undefined; next = this.#next) {
      const buckets: Bucket[] = [];
      const now = this.#clock.now();
      for (const { limiter, lo, hi } of this.#changed.values()) {
        const bucket = limiter.buckets.read(lo, hi);
        if (bucket === undefined) continue;
        buckets.push({ limiter, lo, hi, id: "", ...bucket, filledMs: bucket.mark - now });
      }
      this.#changed = new Map();
      this.#next = undefined;
      if (this.#link.requests.reason !== undefined) this.#failed();
      else if ((await this.#link.store("copy", buckets, false)).length > 0) this.#failed();
      next.resolve();
    }
    this.#sending = false;
  }
}
