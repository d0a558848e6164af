// Sends copies of buckets to another agent, in case this one is lost. A bucket that changes while a message is under way, or
// whose message did not arrive, is sent with the next message in its state at that time.

import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import type { OwnedLimiter } from "../owned-limiters.ts";
import type { CountedKey } from "./keys.ts";
import type { Link } from "./link.ts";
import type { BucketTransfer } from "./transfers.ts";

/** Most buckets that wait to be copied. Further buckets are copied when they change again. */
const MAX_CHANGED = 100_000;

export class Copies {
  readonly #link: Link;
  readonly #clock: Clock;
  readonly #waitMs: number;
  readonly #failed: (thrown?: unknown) => void;
  #changed = new Map<string, CountedKey<OwnedLimiter>>();
  /** Resolved when the next message is done; undefined while there are no changes. */
  #next: PromiseWithResolvers<void> | undefined;
  #sending = false;
  /** The last message had no reply in time, but may still get one. */
  #late = false;
  /** Changes with each `forget`. */
  #epoch = 0;

  /** `failed` is called for each message that did not arrive within `waitMs`, or was not sent because something threw. */
  constructor(link: Link, clock: Clock, waitMs: number, failed: (thrown?: unknown) => void) {
    this.#link = link;
    this.#clock = clock;
    this.#waitMs = waitMs;
    this.#failed = failed;
  }

  /** Resolves when the other agent has this state of the bucket or a later one, or could not be reached in time. */
  changed(limiter: OwnedLimiter, lo: number, hi: number): Promise<void> {
    if (!this.#add(limiter, lo, hi)) {
      this.#failed();
      return Promise.resolve();
    }
    if (this.#next === undefined) {
      this.#next = Promise.withResolvers();
      if (!this.#sending) setImmediate(() => void this.#send());
    }
    return this.#next.promise;
  }

  /** Forgets waiting buckets: other agents may own them from now on. */
  forget(): void {
    this.#changed = new Map();
    this.#epoch++;
  }

  /** False when too many buckets wait. */
  #add(limiter: OwnedLimiter, lo: number, hi: number): boolean {
    const key = `${limiter.number}:${lo}:${hi}`;
    if (this.#changed.size >= MAX_CHANGED && !this.#changed.has(key)) return false;
    this.#changed.set(key, { limiter, lo, hi });
    return true;
  }

  async #send(): Promise<void> {
    this.#sending = true;
    for (let next = this.#next; next !== undefined; next = this.#next) {
      this.#next = undefined;
      // While the other agent is away or late, changes wait until it answers.
      if (this.#late || this.#link.requests.reason !== undefined) this.#failed();
      else {
        await within(this.#waitMs, this.#clock, this.#copy(), () => this.#isLate()).catch(
          this.#failed,
        );
      }
      next.resolve();
    }
    this.#sending = false;
  }

  #isLate(): void {
    this.#late = true;
    this.#failed();
  }

  /** Sends all waiting buckets. Those that do not arrive are sent with the next message. */
  async #copy(): Promise<void> {
    const buckets: BucketTransfer<OwnedLimiter>[] = [];
    const now = this.#clock.now();
    for (const { limiter, lo, hi } of this.#changed.values()) {
      const bucket = limiter.buckets.read(lo, hi);
      if (bucket === undefined) continue;
      const { available, mark } = bucket;
      buckets.push({ kind: "bucket", limiter, lo, hi, available, filledMs: mark - now });
    }
    this.#changed = new Map();
    const epoch = this.#epoch;
    const left = await this.#link.store("copy", buckets, false);
    const late = this.#late;
    this.#late = false;
    if (left.length === 0) return;
    if (!late) this.#failed();
    if (epoch !== this.#epoch) return;
    for (const { limiter, lo, hi } of left) this.#add(limiter, lo, hi);
  }
}
