// Token buckets as their home counts them for several agents. Leased tokens stay in their bucket until they are known to
// be spent, and nobody else gets them: so free and leased tokens together never exceed the capacity, and over any window
// all agents admit no more than capacity and refill.

import { LocalBuckets, type LocalBucketsContext } from "../limit/counters/local-buckets.ts";
import {
  type BucketReply,
  type BucketRequest,
  type LeaseRequest,
  LONGEST_LEASE_MS,
  MOST_LEASES,
  type Run,
} from "./bucket-home.ts";
import { type BucketParams, SLACK } from "./counter-engine.ts";

/** The lease of one agent on one key. */
interface Lease {
  readonly agent: number;
  turn: number;
  /** Tokens that are not known to be spent. */
  tokens: number;
  /** When they count as spent. */
  until: number;
}

/** The leases of one key. */
interface Leases {
  readonly all: Lease[];
  /** Until then nothing is leased, because somebody was refused what others had leased. */
  recalledUntil: number;
}

/** Keys whose leases are examined when a key gets its first one: those of dead agents make room. */
const LOOKS = 8;

export class OwnedBuckets {
  readonly #buckets: LocalBuckets;
  readonly #leases = new Map<string | undefined, Leases>();
  readonly #mostLeased: number;

  /** As many keys can have leases as the context tells apart. */
  constructor(context: LocalBucketsContext, group = "") {
    this.#buckets = new LocalBuckets(context, group);
    this.#mostLeased = context.maxKeys;
  }

  /** Makes new numbers count from now on. */
  adopt(params: BucketParams): void {
    this.#buckets.adopt(params);
  }

  close(): void {
    this.#buckets.close();
    this.#leases.clear();
  }

  /** Keys with leases. */
  get leased(): number {
    return this.#leases.size;
  }

  ask(
    value: string | undefined,
    { runs, back, overdraft, lease }: BucketRequest,
    params: BucketParams,
    now: number,
  ): BucketReply {
    const buckets = this.#buckets;
    let leases = this.#leases.get(value);
    if (leases !== undefined) this.#expire(value, leases, params, now);
    let mine = leases?.all.find(({ agent }) => agent === lease?.agent);
    if (lease !== undefined && mine !== undefined) {
      if (lease.turn <= mine.turn) return stale(runs);
      this.#report(value, mine, lease, params, now);
    }
    if (back > 0) buckets.giveBack(value, back, "", params);
    const outstanding = sum(leases);
    const { taken, granted, refused } = this.#grant(value, runs, overdraft, outstanding, {
      params,
      now,
    });
    const answer =
      overdraft === "owe"
        ? buckets.owe(value, taken, params, now)
        : buckets.take(value, taken, params, now);
    const { remaining: tokens, full, waitMs: owedMs } = answer;
    const waitMs =
      refused === undefined ? owedMs : this.#wait(value, refused, tokens, leases, { params, now });
    if (lease !== undefined && lease.wish > 0 && mine === undefined && !full) {
      leases ??= this.#room(value, params, now);
      mine = leases === undefined ? undefined : newLease(leases, lease.agent);
    }
    if (lease !== undefined && leases !== undefined && mine !== undefined) {
      mine.turn = lease.turn;
      mine.until = now + Math.min(lease.durationMs, LONGEST_LEASE_MS);
      if (!full) mine.tokens += growth(leases, mine, lease, tokens - outstanding, now);
      if (mine.tokens <= 0 && lease.wish <= 0) remove(leases, mine);
    }
    if (leases !== undefined && leases.all.length === 0) this.#leases.delete(value);
    const recall = leases !== undefined && leases.all.length > 0 && leases.recalledUntil > now;
    return { granted, tokens, waitMs, leased: mine?.tokens ?? 0, recall, full };
  }

  /** Time until a refused amount could be there: filled, or given back by those who have leased it. */
  #wait(
    value: string | undefined,
    refused: number,
    tokens: number,
    leases: Leases | undefined,
    { params, now }: { readonly params: BucketParams; readonly now: number },
  ): number {
    const outstanding = sum(leases);
    const filled = this.#buckets.peek(value, refused + outstanding, params, now).waitMs;
    if (leases === undefined || outstanding <= 0) return filled;
    const until = Math.max(...leases.all.map((lease) => lease.until));
    let returned = until - now;
    if (refused <= tokens + SLACK) leases.recalledUntil = until;
    else {
      const { waitMs } = this.#buckets.peek(value, refused, params, now);
      if (waitMs <= 0) return filled;
      returned = Math.max(returned, waitMs);
    }
    return filled > 0 ? Math.min(filled, returned) : returned;
  }

  /** Takes the tokens that the agent spent from the bucket, and frees those that it does not keep. */
  #report(
    value: string | undefined,
    mine: Lease,
    { unspent, keep }: LeaseRequest,
    params: BucketParams,
    now: number,
  ): void {
    const left = Math.min(unspent, mine.tokens);
    this.#spend(value, mine.tokens - left, params, now);
    mine.tokens = Math.min(keep, left);
  }

  /** A leased token was in the bucket all the time, unless the capacity has been lowered. */
  #spend(value: string | undefined, tokens: number, params: BucketParams, now: number): void {
    const { remaining } = this.#buckets.peek(value, 0, params, now);
    this.#buckets.take(value, Math.min(tokens, remaining), params, now);
  }

  /** Counts leases that are over as spent, at the time when they ended. */
  #expire(value: string | undefined, leases: Leases, params: BucketParams, now: number): void {
    const ended = leases.all.filter(({ until }) => until <= now);
    if (ended.length === 0) return;
    ended.sort((a, b) => a.until - b.until);
    for (const lease of ended) {
      this.#spend(value, lease.tokens, params, lease.until);
      remove(leases, lease);
    }
  }

  #grant(
    value: string | undefined,
    runs: readonly Run[],
    overdraft: BucketRequest["overdraft"],
    outstanding: number,
    { params, now }: { readonly params: BucketParams; readonly now: number },
  ): { taken: number; granted: number[]; refused: number | undefined } {
    let free = this.#buckets.peek(value, 0, params, now).remaining - outstanding;
    let taken = 0;
    let refused: number | undefined;
    const granted: number[] = [];
    for (const { want, times } of runs) {
      const all = overdraft === "owe" || want <= 0;
      const count = all ? times : Math.max(0, Math.min(times, Math.floor((free + SLACK) / want)));
      granted.push(count);
      free -= count * want;
      taken += count * want;
      if (count < times) refused ??= want;
    }
    return { taken, granted, refused };
  }

  /** The entry of a key without leases; undefined where too many keys have some. */
  #room(value: string | undefined, params: BucketParams, now: number): Leases | undefined {
    let looks = LOOKS;
    for (const [other, leases] of this.#leases) {
      if (looks-- <= 0) break;
      this.#expire(other, leases, params, now);
      if (leases.all.length === 0) this.#leases.delete(other);
    }
    if (this.#leases.size >= this.#mostLeased) return undefined;
    const leases: Leases = { all: [], recalledUntil: Number.NEGATIVE_INFINITY };
    this.#leases.set(value, leases);
    return leases;
  }
}

/**
 * What a lease grows by. All of it is at most a part of the free tokens and itself that leaves as much for each other
 * agent, and for one that has not asked yet.
 */
function growth(
  { all, recalledUntil }: Leases,
  { tokens }: Lease,
  { wish, unit }: LeaseRequest,
  free: number,
  now: number,
): number {
  if (recalledUntil > now) return 0;
  const most = Math.min(wish, (free + tokens) / (all.length + 1) - tokens);
  return Math.max(0, Math.floor(most / unit + SLACK) * unit);
}

function newLease({ all }: Leases, agent: number): Lease | undefined {
  if (all.length >= MOST_LEASES) return undefined;
  const lease: Lease = { agent, turn: 0, tokens: 0, until: 0 };
  all.push(lease);
  return lease;
}

function remove({ all }: Leases, lease: Lease): void {
  all.splice(all.indexOf(lease), 1);
}

function sum(leases: Leases | undefined): number {
  let tokens = 0;
  for (const lease of leases?.all ?? []) tokens += lease.tokens;
  return tokens;
}

/** The agent has asked again since, and does not wait for this answer. */
function stale(runs: readonly Run[]): BucketReply {
  const granted = runs.map(() => 0);
  return { granted, tokens: 0, waitMs: 0, leased: 0, recall: false, full: false };
}
