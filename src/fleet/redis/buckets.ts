// One limiter's token buckets in Redis: what is asked of the script, and its replies. Requests travel together, see
// `batches.ts`.

import type { Clock } from "#base/clock.ts";
import type { BucketHome, BucketReply, BucketRequest } from "#flow/counters/bucket-home.ts";
import { type BucketParams, sameParams } from "#flow/counters/counter-engine.ts";
import { RateHistory } from "../rate-history.ts";
import type { Requests } from "../requests.ts";
import { BUCKET, FULL_MS } from "./bucket-script.ts";
import type { KeySpace } from "./keys.ts";

export class RedisBuckets implements BucketHome {
  readonly #requests: Requests;
  readonly #clock: Clock;
  readonly #keys: KeySpace;
  readonly #history = new RateHistory();
  #params: BucketParams | undefined;
  /** The parameters as fields of a request to the script. */
  #fields = "";

  constructor(requests: Requests, clock: Clock, keys: KeySpace) {
    this.#requests = requests;
    this.#clock = clock;
    this.#keys = keys;
  }

  adopt(params: BucketParams): void {
    const before = this.#params;
    this.#params = params;
    if (before !== undefined && sameParams(params, before)) return;
    const now = this.#clock.now();
    const { capacity, amount, intervalMs, continuous, delayed, maxIdleMs } = params;
    this.#history.change(now, params);
    this.#history.forget(now - longestLife(params));
    const flags = `${continuous ? 1 : 0} ${delayed ? 1 : 0}`;
    this.#fields = `${capacity} ${amount} ${intervalMs} ${flags} ${maxIdleMs}`;
  }

  ask(
    value: string | undefined,
    request: BucketRequest,
    now: number,
    answered: (reply: BucketReply | undefined) => void,
    late: (reply: BucketReply) => void,
  ): boolean {
    const params = this.#params;
    if (params === undefined) return false;
    const history = this.#history.pairs(now, params).join(" ");
    const asked = this.#requests.ask(
      BUCKET,
      this.#keys.of(value),
      `${this.#fields} ${textOf(request)};${history}`,
      (reply) => answered(reply === undefined ? undefined : replyOf(reply)),
      (reply) => late(replyOf(reply)),
    );
    return asked !== undefined;
  }

  close(): void {
    // The buckets expire where they are.
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

/** Longest time that a bucket stays without being used, ms. */
function longestLife({ capacity, amount, intervalMs, maxIdleMs }: BucketParams): number {
  const filled = amount > 0 ? (capacity / amount) * intervalMs + FULL_MS : Number.POSITIVE_INFINITY;
  return maxIdleMs > 0 ? Math.min(maxIdleMs, filled) : filled;
}

/** A reply of the script. */
function replyOf(reply: string): BucketReply {
  const [granted = "", tokens = "0", wait = "0", leased = "0", recall] = reply.split(" ");
  return {
    granted: granted.split(",").slice(0, -1).map(Number),
    tokens: Math.max(0, Number(tokens)),
    waitMs: Number(wait),
    leased: Number(leased),
    recall: recall === "1",
    full: false,
  };
}
