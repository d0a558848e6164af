// One limiter's token buckets with lazy synchronisation: flows pass on credit, as far as the home's last word reaches, and
// each agent reports a few times per interval what it admitted. No flow waits for more than its key's first report.

import type { BucketHome, BucketReply } from "#flow/counters/bucket-home.ts";
import {
  type BucketParams,
  type EngineAnswer,
  ReusedAnswer,
  sameParams,
  UNDECIDED,
} from "#flow/counters/counter-engine.ts";
import type { Pending } from "#flow/flow.ts";
import { FollowedKeys } from "./followed-keys.ts";
import { LazyKey } from "./lazy-key.ts";
import type { LeaseAgent } from "./lease-agent.ts";
import { Waiter } from "./waiter.ts";

/** Time between two examinations of keys about which no flow asks, ms. */
const TIDIED_EVERY_MS = 500;

const IGNORED = () => undefined;

class CreditKey extends LazyKey {
  readonly value: string | undefined;
  /** Flows that wait for the report that is on its way. */
  readonly queue: Waiter[] = [];

  constructor(value: string | undefined, now: number) {
    super(now);
    this.value = value;
  }
}

export class LazyBuckets {
  readonly #agent: LeaseAgent;
  readonly #home: BucketHome;
  readonly #keys: FollowedKeys<CreditKey>;
  readonly #answer = new ReusedAnswer();
  #params: BucketParams | undefined;

  constructor(agent: LeaseAgent, home: BucketHome) {
    this.#agent = agent;
    this.#home = home;
    this.#keys = new FollowedKeys(agent, TIDIED_EVERY_MS, (key, now) => {
      if (key.owes && key.due(now)) this.#report(key);
    });
  }

  adopt(params: BucketParams): void {
    const before = this.#params;
    this.#params = params;
    this.#home.adopt(params);
    if (before === undefined || sameParams(params, before)) return;
    for (const key of this.#keys.values()) key.adopt(params, before);
  }

  /** Undefined when too many keys are followed. */
  take(
    value: string | undefined,
    want: number,
    params: BucketParams,
    now: number,
  ): EngineAnswer | Pending<EngineAnswer> | undefined {
    if (params !== this.#params) this.adopt(params);
    const key = this.#keys.get(value) ?? this.#follow(value, now);
    if (key === undefined) return undefined;
    const { counts } = this.#agent;
    if (key.spend(want, now)) {
      counts.granted++;
      if (key.due(now)) this.#report(key);
      return this.#local("granted", key, 0);
    }
    const waitMs = key.refusal(now);
    if (waitMs !== undefined) {
      counts.refused++;
      return this.#local("refused", key, waitMs);
    }
    counts.asked++;
    const waiter = new Waiter(want);
    key.queue.push(waiter);
    if (!key.asking) this.#report(key);
    return waiter.answer ?? waiter.pending;
  }

  /** Tokens that are not on credit any more return to the home, and are lost when it is away. */
  giveBack(value: string | undefined, amount: number, params: BucketParams): boolean {
    if (params !== this.#params) this.adopt(params);
    const rest = this.#keys.get(value)?.putBack(amount) ?? amount;
    if (rest <= 0) return true;
    const now = this.#agent.clock.now();
    const request = { runs: [], back: rest, overdraft: "refuse", lease: undefined } as const;
    return this.#home.ask(value, request, now, IGNORED, IGNORED);
  }

  close(): void {
    for (const key of this.#keys.values()) if (key.owes && !key.asking) this.#report(key);
    this.#keys.close();
  }

  #follow(value: string | undefined, now: number): CreditKey | undefined {
    const key = new CreditKey(value, now);
    return this.#keys.add(value, key) ? key : undefined;
  }

  #report(key: CreditKey): void {
    const now = this.#agent.clock.now();
    const credit = key.report(now);
    const asked = this.#home.ask(
      key.value,
      { runs: [{ want: credit, times: 1 }], back: 0, overdraft: "owe", lease: undefined },
      now,
      (reply) => {
        if (reply === undefined) this.#unanswered(key);
        else this.#answered(key, reply);
      },
      () => key.reportedLate(credit),
    );
    if (!asked) this.#unanswered(key);
  }

  #unanswered(key: CreditKey): void {
    const params = this.#params;
    if (params !== undefined) key.unanswered(params, this.#agent.clock.now());
    for (const waiter of key.queue.splice(0)) waiter.settle(UNDECIDED);
  }

  #answered(key: CreditKey, reply: BucketReply): void {
    const params = this.#params;
    if (params === undefined) return;
    const now = this.#agent.clock.now();
    key.answered(reply, params, now);
    const decided = key.queue.splice(0).map((waiter) => {
      if (waiter.answer !== undefined) return { waiter, answer: waiter.answer };
      const passes = key.spend(waiter.want, now);
      const waitMs = passes ? 0 : (key.refusal(now) ?? 0);
      const answer = { ...this.#local(passes ? "granted" : "refused", key, waitMs) };
      return { waiter, answer };
    });
    for (const { waiter, answer } of decided) waiter.settle(answer);
  }

  #local(outcome: "granted" | "refused", { left }: LazyKey, waitMs: number): EngineAnswer {
    const answer = this.#answer;
    answer.outcome = outcome;
    answer.remaining = left;
    answer.current = Math.max(0, (this.#params?.capacity ?? 0) - left);
    answer.waitMs = waitMs;
    answer.id = "";
    return answer;
  }
}
