// One limiter's token buckets in Redis: writes requests to the script and reads its replies.

import { type BucketParams, sameParams } from "#flow/counters/counter-engine.ts";
import type { BucketOwner, BucketReply, BucketRequest } from "../leases/bucket-owner.ts";
import { BUCKET } from "./bucket-script.ts";
import type { RedisLimiter } from "./connection.ts";
import { NO_ROOM } from "./keys.ts";
import { RateHistory } from "./rate-history.ts";

export class RedisBuckets implements BucketOwner {
  readonly #limiter: RedisLimiter;
  readonly #history = new RateHistory();
  #params: BucketParams | undefined;
  /** The parameters as fields of a request to the script. */
  #fields = "";
  /** Longest time that an unused bucket exists, by the current parameters and by all so far, ms. */
  #lifeMs = 0;
  #longestLifeMs = 0;

  constructor(limiter: RedisLimiter) {
    this.#limiter = limiter;
  }

  adopt(params: BucketParams): void {
    const before = this.#params;
    this.#params = params;
    if (before !== undefined && sameParams(params, before)) return;
    const now = this.#limiter.clock.now();
    const { capacity, amount, intervalMs, continuous, delayed, maxIdleMs } = params;
    this.#history.change(now, params);
    this.#lifeMs = longestLife(params);
    this.#longestLifeMs = Math.max(this.#longestLifeMs, this.#lifeMs);
    this.#history.forget(now - this.#longestLifeMs);
    const flags = `${continuous ? 1 : 0} ${delayed ? 1 : 0}`;
    this.#fields = `${capacity} ${amount} ${intervalMs} ${flags} ${maxIdleMs}`;
  }

  ask(
    value: string | undefined,
    request: BucketRequest,
    answered: (reply: BucketReply | undefined) => void,
    late: (reply: BucketReply) => void,
  ): boolean {
    const params = this.#params;
    if (params === undefined) return false;
    const now = this.#limiter.clock.now();
    const history = this.#history.pairs(now, params).join(" ");
    const create = this.#limiter.keys.mayCreate(value, now, this.#lifeMs) ? 1 : 0;
    const asked = this.#limiter.requests.ask(
      {
        script: BUCKET,
        key: this.#limiter.keys.of(value),
        args: `${this.#fields} ${create} ${textOf(request)};${history}`,
      },
      (reply) => {
        if (reply === NO_ROOM) this.#limiter.noRoom();
        answered(replyOf(reply, request));
      },
      (reply) => {
        const known = replyOf(reply, request);
        if (known !== undefined) late(known);
      },
    );
    return asked !== undefined;
  }
}

function textOf({ runs, back, overdraft, lease }: BucketRequest): string {
  let text = `${overdraft} ${back};`;
  for (let at = 0; at < runs.length; at++) {
    const run = runs[at];
    if (run !== undefined) text += `${at === 0 ? "" : " "}${run.want} ${run.times}`;
  }
  if (lease === undefined) return `${text};`;
  const { agent, turn, unspent, keep, wish, unit, durationMs } = lease;
  return `${text};${agent} ${turn} ${unspent} ${keep} ${wish} ${unit} ${durationMs}`;
}

/** Longest time that an unused bucket exists, ms. */
function longestLife({ capacity, amount, intervalMs, maxIdleMs }: BucketParams): number {
  // A bucket with a debt or a delayed fill takes twice as long to fill as an empty one.
  if (amount > 0) return 2 * (capacity / amount + 1) * intervalMs;
  return maxIdleMs > 0 ? maxIdleMs : Number.POSITIVE_INFINITY;
}

/** Parses the reply of the script; undefined without a usable reply. */
function replyOf(reply: string | undefined, { runs }: BucketRequest): BucketReply | undefined {
  if (reply === undefined || reply === NO_ROOM) return undefined;
  const [granted = "", tokens = "0", wait = "0", leased = "0", recall] = reply.split(" ");
  const counts = granted.split(",").slice(0, -1).map(Number);
  // A reply that grants more than was requested is invalid.
  if (!runs.every(({ times }, at) => (counts[at] ?? Number.NaN) <= times)) return undefined;
  return {
    granted: counts,
    tokens: Math.max(0, Number(tokens)),
    waitMs: Number(wait),
    leased: Number(leased),
    recall: recall === "1",
  };
}
