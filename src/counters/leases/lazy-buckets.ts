// One limiter's token buckets with lazy synchronisation: flows pass on credit, up to the balance in the owner's last reply,
// and each agent reports the admitted tokens a few times per interval. A flow waits at most for the first report of its key.

import {
  type BucketParams,
  type EngineAnswer,
  ReusedAnswer,
  sameParams,
  UNDECIDED,
} from "#flow/counters/counter-engine.ts";
import type { Pending } from "#flow/flow.ts";
import { type BucketOwner, type BucketReply, EMPTY_REQUEST, returnTokens } from "./bucket-owner.ts";
import { FollowedKeys } from "./followed-keys.ts";
import { LazyKey } from "./lazy-key.ts";
import type { LeaseHolder } from "./lease-holder.ts";
import { WaitingTake } from "./take-batch.ts";

/** Time between two sweeps, which report for keys that no flow uses any more, ms. */
const SWEEP_MS = 500;

class CreditKey extends LazyKey {
  readonly value: string | undefined;
  /** Takes that wait for the report under way. */
  readonly queue: WaitingTake[] = [];

  constructor(value: string | undefined, now: number) {
    super(now);
    this.value = value;
  }
}

export class LazyBuckets {
  readonly #holder: LeaseHolder;
  readonly #owner: BucketOwner;
  readonly #keys: FollowedKeys<CreditKey>;
  readonly #answer = new ReusedAnswer();
  #params: BucketParams | undefined;

  constructor(holder: LeaseHolder, owner: BucketOwner) {
    this.#holder = holder;
    this.#owner = owner;
    this.#keys = new FollowedKeys(holder, SWEEP_MS, (key, now) => {
      if (key.owes && key.due(now)) this.#report(key);
    });
  }

  adopt(params: BucketParams): void {
    const before = this.#params;
    this.#params = params;
    this.#owner.adopt?.(params);
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
    const { counts } = this.#holder;
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
    const take = new WaitingTake(want);
    key.queue.push(take);
    if (!key.asking) this.#report(key);
    return take.answer ?? take.pending;
  }

  /** Tokens that were already reported are returned to the owner. While the owner is away they are lost. */
  giveBack(value: string | undefined, amount: number, params: BucketParams): boolean {
    if (params !== this.#params) this.adopt(params);
    const rest = this.#keys.get(value)?.putBack(amount) ?? amount;
    return returnTokens(this.#owner, value, rest);
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
    const credit = key.report(this.#holder.clock.now());
    const asked = this.#owner.ask(
      key.value,
      { ...EMPTY_REQUEST, runs: [{ want: credit, times: 1 }], overdraft: "owe" },
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
    if (params !== undefined) key.unanswered(params, this.#holder.clock.now());
    for (const take of key.queue.splice(0)) take.settle(UNDECIDED);
  }

  #answered(key: CreditKey, reply: BucketReply): void {
    const params = this.#params;
    if (params === undefined) return;
    const now = this.#holder.clock.now();
    key.answered(reply, params, now);
    const decided = key.queue.splice(0).map((take) => {
      if (take.answer !== undefined) return { take, answer: take.answer };
      const passes = key.spend(take.want, now);
      const waitMs = passes ? 0 : (key.refusal(now) ?? 0);
      const answer = { ...this.#local(passes ? "granted" : "refused", key, waitMs) };
      return { take, answer };
    });
    for (const { take, answer } of decided) take.settle(answer);
  }

  #local(outcome: "granted" | "refused", { left }: LazyKey, waitMs: number): EngineAnswer {
    return this.#answer.ofBucket(outcome, left, this.#params?.capacity ?? left, waitMs);
  }
}
