// One limiter's token buckets, which agents share: flows of hot keys spend leased tokens and wait for nobody, those of
// other keys ask the home. Flows that want a key while a request about it is on its way travel together in the next one.

import type {
  BucketHome,
  BucketReply,
  BucketRequest,
  LeaseRequest,
} from "#flow/counters/bucket-home.ts";
import {
  type BucketParams,
  type EngineAnswer,
  ReusedAnswer,
  SLACK,
  sameParams,
  UNDECIDED,
} from "#flow/counters/counter-engine.ts";
import type { InQueue, Pending } from "#flow/flow.ts";
import { FollowedKeys } from "./followed-keys.ts";
import type { LeaseAgent } from "./lease-agent.ts";
import { LeasedKey, type Purpose } from "./leased-key.ts";
import { type Batch, batchOf, broughtBy, deliver, tokensOf, Waiter } from "./waiter.ts";

/** Time between two examinations of all keys, as a part of a lease's duration. */
const TIDIED_EVERY = 1 / 8;

const IGNORED = () => undefined;

/** A request that takes nothing and brings nothing back. */
const EMPTY_REQUEST: BucketRequest = { runs: [], back: 0, overdraft: "refuse", lease: undefined };

/** Tokens that an answer brought along for flows that are granted while it is delivered. */
interface Brought {
  readonly value: string | undefined;
  tokens: number;
  /** The home had no more, and may have in `waitMs`. */
  readonly short: boolean;
  readonly waitMs: number;
  /** Tokens that stay in the bucket. */
  readonly left: number;
}

class SharedKey extends LeasedKey {
  readonly value: string | undefined;
  /** Flows that travel in the next request. */
  readonly queue: Waiter[] = [];
  /** Flows that travel in the next look. */
  readonly curious: Waiter[] = [];
  /** A look is on its way. */
  looking = false;

  constructor(value: string | undefined, agent: LeaseAgent, now: number) {
    super(agent, now);
    this.value = value;
  }
}

export class LeasedBuckets {
  readonly #agent: LeaseAgent;
  readonly #home: BucketHome;
  readonly #keys: FollowedKeys<SharedKey>;
  readonly #answer = new ReusedAnswer();
  #params: BucketParams | undefined;
  #capacity = 0;
  /** The answer that is being delivered. */
  #brought: Brought | undefined;

  constructor(agent: LeaseAgent, home: BucketHome) {
    this.#agent = agent;
    this.#home = home;
    const everyMs = agent.settings.duration * TIDIED_EVERY;
    this.#keys = new FollowedKeys(agent, everyMs, (key, now) => {
      if (key.unused(now)) this.#send(key, "return");
    });
  }

  adopt(params: BucketParams): void {
    const before = this.#params;
    this.#params = params;
    this.#capacity = params.capacity;
    this.#home.adopt(params);
    if (before === undefined || sameParams(params, before)) return;
    for (const key of this.#keys.values()) key.adopt(params, before);
  }

  take(
    value: string | undefined,
    want: number,
    params: BucketParams,
    now: number,
    queued?: InQueue,
  ): EngineAnswer | Pending<EngineAnswer> {
    if (params !== this.#params) this.adopt(params);
    const brought = this.#brought;
    if (brought !== undefined && brought.value === value) {
      if (want <= brought.tokens + SLACK) {
        brought.tokens -= want;
        this.#agent.counts.granted++;
        return this.#local("granted", brought.left + brought.tokens, 0);
      }
      if (brought.short) {
        this.#agent.counts.refused++;
        return this.#local("refused", brought.left + brought.tokens, brought.waitMs);
      }
    }
    const key = this.#keys.get(value);
    if (key === undefined) return this.#ask(this.#follow(value, now), value, want, queued);
    if (want <= 0 && key.leased) return this.#look(key);
    if (key.spend(want, now)) {
      this.#agent.counts.granted++;
      if (key.wantsRenewal(now)) this.#send(key, "renew");
      return this.#local("granted", key.tokens, 0);
    }
    // Tokens that a queue asks for may be refilled while the request travels.
    const waitMs = key.refusal(want, now, queued?.aheadMs);
    if (waitMs === undefined) return this.#ask(key, value, want, queued);
    this.#agent.counts.refused++;
    return this.#local("refused", Math.min(key.tokens, want), waitMs);
  }

  /** Tokens that do not belong to a lease return to the home, and are lost when it is away. */
  giveBack(value: string | undefined, amount: number, _id: string, params: BucketParams): boolean {
    if (params !== this.#params) this.adopt(params);
    const now = this.#agent.clock.now();
    const rest = this.#keys.get(value)?.putBack(amount, now) ?? amount;
    return rest <= 0 || this.#return(value, rest);
  }

  close(): void {
    for (const key of this.#keys.values()) if (!key.asking && key.leased) this.#send(key, "return");
    this.#keys.close();
  }

  #follow(value: string | undefined, now: number): SharedKey | undefined {
    if (!this.#agent.settings.enabled) return undefined;
    const key = new SharedKey(value, this.#agent, now);
    return this.#keys.add(value, key) ? key : undefined;
  }

  #ask(
    key: SharedKey | undefined,
    value: string | undefined,
    want: number,
    queued: InQueue | undefined,
  ): EngineAnswer | Pending<EngineAnswer> {
    this.#agent.counts.asked++;
    const waiter = new Waiter(want, queued?.behind);
    if (key === undefined) this.#askAlone(value, waiter);
    else {
      key.queue.push(waiter);
      if (!key.asking) this.#send(key, "ask");
    }
    return waiter.answer ?? waiter.pending;
  }

  /**
   * Tells a flow that wants nothing what is left, beside the lease: others may have taken tokens since its last request.
   * One look at most is on its way for each key, because callers may name the tokens that their flows want.
   */
  #look(key: SharedKey): EngineAnswer | Pending<EngineAnswer> {
    this.#agent.counts.asked++;
    const waiter = new Waiter(0);
    key.curious.push(waiter);
    if (!key.looking) this.#sendLook(key);
    return waiter.answer ?? waiter.pending;
  }

  #sendLook(key: SharedKey): void {
    const waiters = key.curious.splice(0).filter(({ answer }) => answer === undefined);
    if (waiters.length === 0) return;
    const { reported } = key;
    const answered = (reply: BucketReply | undefined) => {
      key.looking = false;
      // Flows that were to travel next have waited for the same home.
      if (reply === undefined) waiters.push(...key.curious.splice(0));
      else this.#sendLook(key);
      const answer = this.#seen(key, reply, reported);
      for (const waiter of waiters) waiter.settle(answer);
    };
    key.looking = true;
    const now = this.#agent.clock.now();
    if (!this.#home.ask(key.value, EMPTY_REQUEST, now, answered, IGNORED)) answered(undefined);
  }

  /** The answer to flows that want nothing. The home knew of `reported` tokens that were spent here. */
  #seen(key: SharedKey, reply: BucketReply | undefined, reported: number): EngineAnswer {
    if (reply !== undefined) {
      const left = reply.tokens - (key.everSpent - reported);
      return { ...this.#local("granted", left, 0) };
    }
    if (!key.spend(0, this.#agent.clock.now())) return UNDECIDED;
    return { ...this.#local("granted", key.tokens, 0) };
  }

  /** Asks about a key that is not followed. */
  #askAlone(value: string | undefined, waiter: Waiter): void {
    const batch = batchOf([waiter]);
    const asked = this.#home.ask(
      value,
      { runs: batch.runs, back: 0, overdraft: "refuse", lease: undefined },
      this.#agent.clock.now(),
      (reply) => {
        if (reply === undefined) waiter.settle(UNDECIDED);
        else this.#settle(value, batch, reply, IGNORED);
      },
      (reply) => this.#return(value, tokensOf(batch, reply)),
    );
    if (!asked) waiter.settle(UNDECIDED);
  }

  /** Sends what waits, and the state of the lease. */
  #send(key: SharedKey, purpose: Purpose): void {
    const { value, queue } = key;
    const now = this.#agent.clock.now();
    const batch = batchOf(queue);
    const { runs } = batch;
    const waiting = runs.reduce((sum, { want, times }) => sum + want * times, 0);
    const lease = key.request(purpose, waiting, now);
    const asked = this.#home.ask(
      value,
      { runs, back: 0, overdraft: "refuse", lease },
      now,
      (reply) => {
        if (reply === undefined) this.#unanswered(key, batch);
        else this.#answered(key, batch, lease, reply);
      },
      (reply) => this.#return(value, tokensOf(batch, reply)),
    );
    if (!asked) this.#unanswered(key, batch);
  }

  /** Flows that were to travel next have waited for the same home. */
  #unanswered(key: SharedKey, { waiters }: Batch): void {
    key.unanswered(this.#agent.clock.now());
    const queued = key.queue.splice(0);
    for (const waiter of [...waiters, ...queued]) waiter.settle(UNDECIDED);
  }

  #answered(
    key: SharedKey,
    batch: Batch,
    lease: LeaseRequest | undefined,
    reply: BucketReply,
  ): void {
    const now = this.#agent.clock.now();
    key.answered(reply, lease, now);
    key.admitted(tokensOf(batch, reply));
    const refused = batch.runs.find(({ times }, at) => (reply.granted[at] ?? 0) < times);
    if (refused !== undefined) key.refuse(refused.want, reply.waitMs, now);
    const decided = this.#serve(key, now);
    if (key.queue.length > 0) this.#send(key, "ask");
    else if (reply.recall && key.leased) this.#send(key, "return");
    this.#settle(key.value, batch, reply, () => {
      for (const { waiter, answer } of decided) waiter.settle(answer);
    });
  }

  /** Decides for flows that came meanwhile, where that is possible without asking again. */
  #serve(key: SharedKey, now: number) {
    const decided: { readonly waiter: Waiter; readonly answer: EngineAnswer }[] = [];
    for (const waiter of key.queue.splice(0)) {
      const { want } = waiter;
      if (waiter.answer !== undefined) continue;
      if (key.spend(want, now)) {
        decided.push({ waiter, answer: { ...this.#local("granted", key.tokens, 0) } });
        continue;
      }
      const waitMs = key.refusal(want, now);
      if (waitMs === undefined) key.queue.push(waiter);
      else {
        const answer = { ...this.#local("refused", Math.min(key.tokens, want), waitMs) };
        decided.push({ waiter, answer });
      }
    }
    return decided;
  }

  /** Answers a batch, and `then` others. What nobody waits for any more comes back. */
  #settle(value: string | undefined, batch: Batch, reply: BucketReply, then: () => void): void {
    const { tokens, waitMs } = reply;
    const current = Math.max(0, this.#capacity - tokens);
    const counts = { remaining: tokens, current, id: "", full: false };
    const passes: EngineAnswer = { outcome: "granted", waitMs: 0, ...counts };
    const fails: EngineAnswer = { outcome: "refused", waitMs, ...counts };
    let unwanted = 0;
    const before = this.#brought;
    const brought = { value, left: tokens, waitMs, ...broughtBy(batch, reply) };
    this.#brought = brought;
    try {
      deliver(batch, reply, (waiter, granted) => {
        if (granted && waiter.answer !== undefined) unwanted += waiter.want;
        waiter.settle(granted ? passes : fails);
      });
      then();
    } finally {
      // Tokens that were left here would be granted to flows of later batches, and never given back.
      this.#brought = before;
    }
    unwanted += Math.max(0, brought.tokens);
    if (unwanted > 0) this.#return(value, unwanted);
  }

  /** Gives tokens back to the home. While it is away they are lost, which admits less and never more. */
  #return(value: string | undefined, back: number): boolean {
    if (back <= 0) return true;
    const now = this.#agent.clock.now();
    return this.#home.ask(value, { ...EMPTY_REQUEST, back }, now, IGNORED, IGNORED);
  }

  /** An answer without asking. */
  #local(outcome: "granted" | "refused", tokens: number, waitMs: number): EngineAnswer {
    const answer = this.#answer;
    answer.outcome = outcome;
    answer.remaining = Math.min(this.#capacity, Math.max(0, tokens));
    answer.current = this.#capacity - answer.remaining;
    answer.waitMs = waitMs;
    answer.id = "";
    return answer;
  }
}
