// One limiter's token buckets in Redis: one call of the script for each request.

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
  /** The parameters as arguments of the script. */
  #args: readonly string[] = [];

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
    this.#args = [
      ...[capacity, amount, intervalMs].map(String),
      ...[continuous, delayed].map((flag) => (flag ? "1" : "0")),
      String(maxIdleMs),
    ];
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
    const history = this.#history.pairs(now, params);
    const args = [...this.#args, ...argsOf(request), ...history];
    const asked = this.#requests.ask(
      BUCKET,
      this.#keys.of(value),
      args,
      (reply) => answered(reply === undefined ? undefined : replyOf(reply)),
      (reply) => late(replyOf(reply)),
    );
    return asked !== undefined;
  }

  close(): void {
    // The buckets expire where they are.
  }
}

function argsOf({ runs, back, overdraft, lease }: BucketRequest): readonly string[] {
  let text = "";
  for (const { want, times } of runs) text += `${text === "" ? "" : " "}${want} ${times}`;
  if (lease === undefined) return [overdraft, String(back), text, ""];
  const { agent, turn, unspent, keep, wish, unit, durationMs } = lease;
  const leased = `${agent} ${turn} ${unspent} ${keep} ${wish} ${unit} ${durationMs}`;
  return [overdraft, String(back), text, leased];
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
