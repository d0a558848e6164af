// One limiter's token buckets in Redis: one script call for each flow.

import type { Clock } from "#base/clock.ts";
import { type BucketParams, type EngineAnswer, UNDECIDED } from "#flow/counters/counter-engine.ts";
import type { SharedEngine } from "#flow/counters/shared-counters.ts";
import { Pending } from "#flow/flow.ts";
import { RateHistory } from "../rate-history.ts";
import type { Request, Requests } from "../requests.ts";
import { BUCKET, FULL_MS, type Overdraft } from "./bucket-script.ts";
import type { KeySpace } from "./keys.ts";

const IGNORED = () => undefined;

export class RedisBuckets implements SharedEngine<BucketParams> {
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
    if (params === this.#params) return;
    const now = this.#clock.now();
    const { capacity, amount, intervalMs, continuous, delayed, maxIdleMs } = params;
    this.#params = params;
    this.#history.change(now, params);
    this.#history.forget(now - longestLife(params));
    this.#args = [
      ...[capacity, amount, intervalMs].map(String),
      ...[continuous, delayed].map((flag) => (flag ? "1" : "0")),
      String(maxIdleMs),
    ];
  }

  /** Nothing is known without asking. */
  peek(): EngineAnswer {
    return UNDECIDED;
  }

  take(
    value: string | undefined,
    want: number,
    params: BucketParams,
    now: number,
  ): EngineAnswer | Pending<EngineAnswer> {
    this.adopt(params);
    let request: Request | undefined;
    const pending = new Pending<EngineAnswer>(() => request?.cancel());
    request = this.#ask(
      this.#keys.of(value),
      [want, 0],
      now,
      (reply) => pending.settle(reply === undefined ? UNDECIDED : answerOf(reply, params)),
      (reply) => {
        if (want > 0 && reply.startsWith("1")) this.giveBack(value, want, "", params);
      },
    );
    return request === undefined ? UNDECIDED : pending;
  }

  /** Tokens are added when the server gets to it; they are lost when it is away. */
  giveBack(value: string | undefined, amount: number, _id: string, params: BucketParams): boolean {
    this.adopt(params);
    const now = this.#clock.now();
    return this.#ask(this.#keys.of(value), [0, amount], now, IGNORED, IGNORED) !== undefined;
  }

  close(): void {
    // The buckets expire where they are.
  }

  #ask(
    key: string,
    amounts: readonly [want: number, back: number],
    now: number,
    answered: (reply: string | undefined) => void,
    late: (reply: string) => void,
  ): Request | undefined {
    const params = this.#params;
    if (params === undefined) return undefined;
    const overdraft: Overdraft = "refuse";
    const history = this.#history.pairs(now, params);
    const args = [...amounts.map(String), ...this.#args, overdraft, ...history];
    return this.#requests.ask(BUCKET, key, args, answered, late);
  }
}

/** Longest time that a bucket stays without being used, ms. */
function longestLife({ capacity, amount, intervalMs, maxIdleMs }: BucketParams): number {
  const filled = amount > 0 ? (capacity / amount) * intervalMs + FULL_MS : Number.POSITIVE_INFINITY;
  return maxIdleMs > 0 ? Math.min(maxIdleMs, filled) : filled;
}

/** A reply of the script. */
function answerOf(reply: string, { capacity }: BucketParams): EngineAnswer {
  const [granted, left = "0", wait = "0"] = reply.split(" ");
  const remaining = Math.max(0, Number(left));
  return {
    outcome: granted === "1" ? "granted" : "refused",
    remaining,
    current: capacity - remaining,
    waitMs: Number(wait),
    id: "",
    full: false,
  };
}
