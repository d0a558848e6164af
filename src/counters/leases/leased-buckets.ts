// One limiter's token buckets, which agents share. Flows of hot keys spend leased tokens without waiting; flows of other
// keys ask the owner. While a request about a key is under way, further takes of that key are batched into the next one.
// Limiters with lazy synchronisation pass flows on credit instead, see `lazy-buckets.ts`.

import {
  type BucketParams,
  type EngineAnswer,
  ReusedAnswer,
  SLACK,
  sameParams,
  UNDECIDED,
} from "#flow/counters/counter-engine.ts";
import type { SharedBucketEngine } from "#flow/counters/shared-counters.ts";
import type { InQueue, Pending } from "#flow/flow.ts";
import {
  type BucketOwner,
  type BucketReply,
  EMPTY_REQUEST,
  IGNORED,
  type LeaseRequest,
  returnTokens,
} from "./bucket-owner.ts";
import { Debts } from "./debts.ts";
import { FollowedKeys } from "./followed-keys.ts";
import { LazyBuckets } from "./lazy-buckets.ts";
import type { LeaseHolder } from "./lease-holder.ts";
import { LeasedKey, type Purpose } from "./leased-key.ts";
import {
  batchOf,
  deliver,
  prefetchedBy,
  type TakeBatch,
  tokensOf,
  WaitingTake,
} from "./take-batch.ts";

/** Interval between sweeps of all keys, as a part of the duration of a lease. */
const SWEPT_EVERY = 1 / 8;

/** Tokens that a reply granted in advance, for queued flows that ask while the reply is delivered. */
interface Prefetched {
  readonly value: string | undefined;
  tokens: number;
  /** The owner granted less than was wanted. More may be available in `waitMs`. */
  readonly short: boolean;
  readonly waitMs: number;
  /** Tokens left in the bucket. */
  readonly left: number;
}

class SharedKey extends LeasedKey {
  readonly value: string | undefined;
  /** Takes of the next request. */
  readonly queue: WaitingTake[] = [];
  /** Flows without tokens, which wait for the next balance. */
  readonly balanceQueue: WaitingTake[] = [];
  /** A request for the balance is under way. */
  readsBalance = false;

  constructor(value: string | undefined, holder: LeaseHolder, now: number) {
    super(holder, now);
    this.value = value;
  }
}

export class LeasedBuckets implements SharedBucketEngine {
  readonly #holder: LeaseHolder;
  readonly #owner: BucketOwner;
  readonly #keys: FollowedKeys<SharedKey>;
  readonly #lazy: LazyBuckets;
  readonly #debts: Debts;
  readonly #answer = new ReusedAnswer();
  #params: BucketParams | undefined;
  #capacity = 0;
  /** Of the reply that is being delivered. */
  #prefetched: Prefetched | undefined;

  constructor(holder: LeaseHolder, owner: BucketOwner) {
    this.#holder = holder;
    this.#owner = owner;
    this.#lazy = new LazyBuckets(holder, owner);
    this.#debts = new Debts(holder, owner);
    const everyMs = holder.settings.duration * SWEPT_EVERY;
    this.#keys = new FollowedKeys(holder, everyMs, (key, now) => {
      if (key.unused(now)) this.#send(key, "return");
    });
  }

  adopt(params: BucketParams): void {
    this.#adopt(params);
  }

  take(
    value: string | undefined,
    want: number,
    params: BucketParams,
    now: number,
    queued?: InQueue,
  ): EngineAnswer | Pending<EngineAnswer> {
    if (params.lazySyncs > 0) {
      const answer = this.#lazy.take(value, want, params, now);
      if (answer !== undefined) return answer;
    }
    if (params !== this.#params) this.#adoptExact(params);
    const prefetched = this.#prefetched;
    if (prefetched !== undefined && prefetched.value === value) {
      if (want <= prefetched.tokens + SLACK) {
        prefetched.tokens -= want;
        this.#holder.counts.granted++;
        return this.#local("granted", prefetched.left + prefetched.tokens, 0);
      }
      if (prefetched.short) {
        this.#holder.counts.refused++;
        return this.#local("refused", prefetched.left + prefetched.tokens, prefetched.waitMs);
      }
    }
    const key = this.#keys.get(value);
    if (key === undefined) return this.#ask(this.#follow(value, now), value, want, queued);
    if (want <= 0 && key.leased) return this.#askBalance(key);
    if (key.spend(want, now)) {
      this.#holder.counts.granted++;
      if (key.wantsRenewal(now)) this.#send(key, "renew");
      return this.#local("granted", key.tokens, 0);
    }
    // A queue asks early, because tokens are refilled while the request travels.
    const waitMs = key.refusal(want, now, queued?.aheadMs);
    if (waitMs === undefined) return this.#ask(key, value, want, queued);
    this.#holder.counts.refused++;
    return this.#local("refused", Math.min(key.tokens, want), waitMs);
  }

  /** Tokens that do not belong to a lease return to the owner. While the owner is away, they are lost. */
  giveBack(value: string | undefined, amount: number, _id: string, params: BucketParams): boolean {
    if (params.lazySyncs > 0) return this.#lazy.giveBack(value, amount, params);
    if (params !== this.#params) this.#adoptExact(params);
    const now = this.#holder.clock.now();
    const rest = this.#keys.get(value)?.putBack(amount, now) ?? amount;
    return returnTokens(this.#owner, value, rest);
  }

  charge(value: string | undefined, amount: number, _id: string, params: BucketParams): void {
    this.#adopt(params);
    this.#debts.charge(value, amount);
  }

  close(): void {
    this.#debts.close();
    for (const key of this.#keys.values()) if (!key.asking && key.leased) this.#send(key, "return");
    this.#keys.close();
    this.#lazy.close();
  }

  #adopt(params: BucketParams): void {
    if (params.lazySyncs > 0) this.#lazy.adopt(params);
    else this.#adoptExact(params);
  }

  #adoptExact(params: BucketParams): void {
    const before = this.#params;
    this.#params = params;
    this.#capacity = params.capacity;
    this.#owner.adopt?.(params);
    if (before === undefined || sameParams(params, before)) return;
    for (const key of this.#keys.values()) key.adopt(params, before);
  }

  #follow(value: string | undefined, now: number): SharedKey | undefined {
    if (!this.#holder.settings.enabled) return undefined;
    const key = new SharedKey(value, this.#holder, now);
    return this.#keys.add(value, key) ? key : undefined;
  }

  #ask(
    key: SharedKey | undefined,
    value: string | undefined,
    want: number,
    queued: InQueue | undefined,
  ): EngineAnswer | Pending<EngineAnswer> {
    this.#holder.counts.asked++;
    const take = new WaitingTake(want, queued?.behind);
    if (key === undefined) this.#askAlone(value, take);
    else {
      key.queue.push(take);
      if (!key.asking) this.#send(key, "ask");
    }
    return take.answer ?? take.pending;
  }

  /**
   * Answers a flow that wants no tokens with the balance of the owner: other agents may have taken tokens since the last
   * reply. At most one such request is under way for each key, because callers may name the tokens that their flows want.
   */
  #askBalance(key: SharedKey): EngineAnswer | Pending<EngineAnswer> {
    this.#holder.counts.asked++;
    const take = new WaitingTake(0);
    key.balanceQueue.push(take);
    if (!key.readsBalance) this.#sendBalance(key);
    return take.answer ?? take.pending;
  }

  #sendBalance(key: SharedKey): void {
    const takes = key.balanceQueue.splice(0).filter(({ answer }) => answer === undefined);
    if (takes.length === 0) return;
    const { reported } = key;
    const answered = (reply: BucketReply | undefined) => {
      key.readsBalance = false;
      // Takes of the next request have waited for the same owner.
      if (reply === undefined) takes.push(...key.balanceQueue.splice(0));
      else this.#sendBalance(key);
      const answer = this.#balance(key, reply, reported);
      for (const take of takes) take.settle(answer);
    };
    key.readsBalance = true;
    if (!this.#owner.ask(key.value, EMPTY_REQUEST, answered, IGNORED)) answered(undefined);
  }

  /** The owner knew of `reported` tokens that were spent here. */
  #balance(key: SharedKey, reply: BucketReply | undefined, reported: number): EngineAnswer {
    if (reply !== undefined) {
      const left = reply.tokens - (key.everSpent - reported);
      return { ...this.#local("granted", left, 0) };
    }
    if (!key.spend(0, this.#holder.clock.now())) return UNDECIDED;
    return { ...this.#local("granted", key.tokens, 0) };
  }

  /** Asks about a key that is not followed. */
  #askAlone(value: string | undefined, take: WaitingTake): void {
    const batch = batchOf([take]);
    const asked = this.#owner.ask(
      value,
      { ...EMPTY_REQUEST, runs: batch.runs },
      (reply) => {
        if (reply === undefined) take.settle(UNDECIDED);
        else this.#settle(value, batch, reply, IGNORED);
      },
      (reply) => void returnTokens(this.#owner, value, tokensOf(batch, reply)),
    );
    if (!asked) take.settle(UNDECIDED);
  }

  /** Sends the queued takes and the state of the lease. */
  #send(key: SharedKey, purpose: Purpose): void {
    const { value, queue } = key;
    const batch = batchOf(queue);
    const { runs } = batch;
    const waiting = runs.reduce((sum, { want, times }) => sum + want * times, 0);
    const lease = key.request(purpose, waiting, this.#holder.clock.now());
    const asked = this.#owner.ask(
      value,
      { ...EMPTY_REQUEST, runs, lease },
      (reply) => {
        if (reply === undefined) this.#unanswered(key, batch);
        else this.#answered(key, batch, lease, reply);
      },
      (reply) => void returnTokens(this.#owner, value, tokensOf(batch, reply)),
    );
    if (!asked) this.#unanswered(key, batch);
  }

  /** Takes of the next request have waited for the same owner. */
  #unanswered(key: SharedKey, { takes }: TakeBatch): void {
    key.unanswered(this.#holder.clock.now());
    const queued = key.queue.splice(0);
    for (const take of [...takes, ...queued]) take.settle(UNDECIDED);
  }

  #answered(
    key: SharedKey,
    batch: TakeBatch,
    lease: LeaseRequest | undefined,
    reply: BucketReply,
  ): void {
    const now = this.#holder.clock.now();
    key.answered(reply, lease, now);
    key.admitted(tokensOf(batch, reply));
    const refused = batch.runs.find(({ times }, at) => (reply.granted[at] ?? 0) < times);
    if (refused !== undefined) key.refuse(refused.want, reply.waitMs, now);
    const decided = this.#serve(key, now);
    if (key.queue.length > 0) this.#send(key, "ask");
    else if (reply.recall && key.leased) this.#send(key, "return");
    this.#settle(key.value, batch, reply, () => {
      for (const { take, answer } of decided) take.settle(answer);
    });
  }

  /** Decides takes that were queued meanwhile, where that is possible without asking again. */
  #serve(key: SharedKey, now: number) {
    const decided: { readonly take: WaitingTake; readonly answer: EngineAnswer }[] = [];
    for (const take of key.queue.splice(0)) {
      const { want } = take;
      if (take.answer !== undefined) continue;
      if (key.spend(want, now)) {
        decided.push({ take, answer: { ...this.#local("granted", key.tokens, 0) } });
        continue;
      }
      const waitMs = key.refusal(want, now);
      if (waitMs === undefined) key.queue.push(take);
      else {
        const answer = { ...this.#local("refused", Math.min(key.tokens, want), waitMs) };
        decided.push({ take, answer });
      }
    }
    return decided;
  }

  /** Answers a batch and calls `then`. Tokens of cancelled takes are returned to the owner. */
  #settle(value: string | undefined, batch: TakeBatch, reply: BucketReply, then: () => void): void {
    const { tokens, waitMs } = reply;
    const current = Math.max(0, this.#capacity - tokens);
    const counts = { remaining: tokens, current, id: "", full: false };
    const passes: EngineAnswer = { outcome: "granted", waitMs: 0, ...counts };
    const fails: EngineAnswer = { outcome: "refused", waitMs, ...counts };
    let unwanted = 0;
    const before = this.#prefetched;
    const prefetched = { value, left: tokens, waitMs, ...prefetchedBy(batch, reply) };
    this.#prefetched = prefetched;
    try {
      deliver(batch, reply, (take, granted) => {
        if (granted && take.answer !== undefined) unwanted += take.want;
        take.settle(granted ? passes : fails);
      });
      then();
    } finally {
      // Otherwise prefetched tokens would be granted to flows of later batches and never returned.
      this.#prefetched = before;
    }
    returnTokens(this.#owner, value, unwanted + Math.max(0, prefetched.tokens));
  }

  /** An answer without asking. */
  #local(outcome: "granted" | "refused", tokens: number, waitMs: number): EngineAnswer {
    return this.#answer.ofBucket(outcome, tokens, this.#capacity, waitMs);
  }
}
