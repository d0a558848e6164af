// Token buckets at their owner, with the leases of other agents. Leased tokens stay in their bucket until they are known to be
// spent, and no other agent gets them. So free and leased tokens never exceed the capacity, and all agents together admit no
// more than capacity and refill in any window.

import type { Clock } from "#base/clock.ts";
import type { BucketState, BucketStore, LocalBuckets } from "#flow/counters/bucket-store.ts";
import {
  type BucketParams,
  type EngineAnswer,
  ReusedAnswer,
  SLACK,
} from "#flow/counters/counter-engine.ts";
import {
  type BucketReply,
  type BucketRequest,
  type LeaseRequest,
  LONGEST_LEASE_MS,
  MAX_LEASES,
  type Run,
} from "./bucket-owner.ts";

/** The lease of one agent on one key. */
interface Lease {
  readonly agent: number;
  turn: number;
  /** Tokens that are not known to be spent. */
  tokens: number;
  /** When the tokens count as spent. */
  until: number;
}

/** The leases of one key. */
interface Leases {
  /** Hash of the key; `lo` is 0 for the bucket without a key. */
  readonly lo: number;
  readonly hi: number;
  readonly all: Lease[];
  /** Nothing is leased until then, because outstanding leases caused a refusal. */
  recalledUntil: number;
}

/** The time of a decision, and the parameters that apply. */
interface Moment {
  readonly params: BucketParams;
  readonly now: number;
}

/** Keys whose leases are examined when a key gets its first lease: expired leases make room. */
const MAX_EXAMINED = 8;

export class OwnedBuckets {
  readonly #buckets: LocalBuckets;
  readonly #clock: Clock;
  readonly #hash: BucketStore["hash"];
  /** By `placeOf` the key. */
  readonly #leases = new Map<number, Leases>();
  readonly #maxLeasedKeys: number;
  readonly #answer = new ReusedAnswer();
  #params: BucketParams | undefined;

  /** The buckets of the limiter with this name. */
  constructor(store: BucketStore, name = "") {
    this.#buckets = store.open(name);
    this.#clock = store.context.clock;
    this.#hash = store.hash;
    this.#maxLeasedKeys = store.context.maxKeys;
  }

  /** Makes new numbers count from now on. */
  adopt(params: BucketParams): void {
    this.#params = params;
    this.#buckets.adopt(params);
  }

  close(): void {
    this.#buckets.close();
    this.#leases.clear();
  }

  /** Number of keys that have a bucket. */
  get keys(): number {
    return this.#buckets.keys;
  }

  /** Keys with leases. */
  get leased(): number {
    return this.#leases.size;
  }

  /** Takes for the agent itself, which costs the same as counting in process while nobody has leased anything. */
  take(value: string | undefined, want: number, params: BucketParams, now: number): EngineAnswer {
    const leases = this.#leases.size === 0 ? undefined : this.#findText(value);
    if (leases === undefined) return this.#buckets.take(value, want, params, now);
    return this.#takeBeside(leases, want, { params, now });
  }

  /** As `take`, for the hash of a key; `lo` is 0 for the bucket without a key. */
  takeHashed(
    lo: number,
    hi: number,
    want: number,
    params: BucketParams,
    now: number,
  ): EngineAnswer {
    const leases = this.#leases.size === 0 ? undefined : this.#find(lo, hi);
    if (leases !== undefined) return this.#takeBeside(leases, want, { params, now });
    this.#hash.set(lo, hi);
    return this.#buckets.takeHashed(lo !== 0, want, params, now);
  }

  /** Tokens that were taken come back. False when the key has no bucket any more. */
  giveBackHashed(lo: number, hi: number, amount: number, params: BucketParams): boolean {
    this.#hash.set(lo, hi);
    return this.#buckets.giveBackHashed(lo !== 0, amount, params);
  }

  ask(
    value: string | undefined,
    request: BucketRequest,
    params: BucketParams,
    now: number,
  ): BucketReply {
    if (value === undefined) return this.askHashed(0, 0, request, params, now);
    this.#hash.of(value);
    return this.askHashed(this.#hash.lo, this.#hash.hi, request, params, now);
  }

  /** As `ask`, for the hash of a key. */
  askHashed(
    lo: number,
    hi: number,
    { runs, back, overdraft, lease }: BucketRequest,
    params: BucketParams,
    now: number,
  ): BucketReply {
    const buckets = this.#buckets;
    const moment = { params, now };
    let leases = this.#find(lo, hi);
    let mine = leases?.all.find(({ agent, until }) => agent === lease?.agent && until > now);
    // An old request changes nothing. It does not even expire leases: expiry fills the bucket up to the present capacity,
    // so later answers would depend on a request that must be ignored.
    if (lease !== undefined && mine !== undefined && lease.turn <= mine.turn) return stale(runs);
    if (leases !== undefined) this.#expire(leases, moment);
    if (lease !== undefined && leases !== undefined && mine !== undefined)
      this.#report(leases, mine, lease, moment);
    if (back > 0) this.giveBackHashed(lo, hi, back, params);
    const outstanding = sum(leases);
    this.#hash.set(lo, hi);
    const { remaining } = buckets.peekHashed(lo !== 0, 0, params, now);
    const { taken, granted, refused } = grant(runs, overdraft, remaining - outstanding);
    this.#hash.set(lo, hi);
    const answer =
      overdraft === "owe"
        ? buckets.oweHashed(lo !== 0, taken, params, now)
        : buckets.takeHashed(lo !== 0, taken, params, now);
    const { remaining: tokens, waitMs: owedMs } = answer;
    let waitMs = owedMs;
    if (refused !== undefined) {
      waitMs =
        leases === undefined
          ? this.#peek({ lo, hi }, refused, moment).waitMs
          : this.#wait(leases, refused, tokens, moment);
    }
    if (lease !== undefined && lease.wish > 0 && mine === undefined) {
      leases ??= this.#openLeases(lo, hi, moment);
      mine = leases === undefined ? undefined : newLease(leases, lease.agent);
    }
    if (lease !== undefined && leases !== undefined && mine !== undefined) {
      mine.turn = lease.turn;
      mine.until = now + Math.min(lease.durationMs, LONGEST_LEASE_MS);
      mine.tokens += growth(leases, mine, lease, tokens - outstanding, now);
      if (mine.tokens <= 0 && lease.wish <= 0) remove(leases, mine);
    }
    if (leases !== undefined) this.#tidy(leases);
    const recall = leases !== undefined && leases.all.length > 0 && leases.recalledUntil > now;
    return { granted, tokens, waitMs, leased: mine?.tokens ?? 0, recall };
  }

  /** Visits the hashes of keys that have a bucket or leases, some of them twice. Nothing may change meanwhile. */
  each(visit: (lo: number, hi: number) => void): void {
    this.#buckets.each(visit);
    for (const { lo, hi } of this.#leases.values()) visit(lo, hi);
  }

  /**
   * The state of a bucket for another agent, which does not know the leases: leased tokens count as spent, and filling
   * starts when the last lease ends, so that leased tokens are not refilled while they can still be spent. Undefined for
   * a bucket that is not in use.
   */
  read(lo: number, hi: number): BucketState | undefined {
    const leases = this.#find(lo, hi);
    const params = this.#params;
    if (leases === undefined || params === undefined) return this.#buckets.read(lo, hi);
    const now = this.#clock.now();
    this.#expire(leases, { params, now });
    // A full bucket need not be in use.
    const { available, mark } = this.#buckets.read(lo, hi) ?? {
      available: params.capacity,
      mark: now,
    };
    const spent = Math.min(sum(leases), Math.max(0, available));
    return { available: available - spent, mark: Math.max(mark, lastEnd(leases)) };
  }

  /**
   * Stores a copy of a bucket that another agent counts, or takes over a bucket that it counted until now. When taking
   * over, tokens that were taken here are subtracted.
   */
  put(lo: number, hi: number, bucket: BucketState, how: "copy" | "take over"): void {
    const leases = this.#find(lo, hi);
    if (leases !== undefined) {
      const spent = this.read(lo, hi);
      this.#leases.delete(placeOf(lo, hi));
      if (how === "take over" && spent !== undefined) {
        this.#buckets.remove(lo, hi);
        this.#buckets.put(lo, hi, spent, "take over");
      }
    }
    this.#buckets.put(lo, hi, bucket, how);
  }

  remove(lo: number, hi: number): void {
    if (this.#find(lo, hi) !== undefined) this.#leases.delete(placeOf(lo, hi));
    this.#buckets.remove(lo, hi);
  }

  /** Expires leases, including those of keys without requests. */
  sweep(now: number): void {
    const params = this.#params;
    if (params === undefined) return;
    for (const leases of this.#leases.values()) {
      this.#expire(leases, { params, now });
      this.#tidy(leases);
    }
  }

  /** Takes from a key of which other agents have leased tokens. */
  #takeBeside(leases: Leases, want: number, moment: Moment): EngineAnswer {
    this.#expire(leases, moment);
    const { params, now } = moment;
    const outstanding = sum(leases);
    const { outcome, remaining } = this.#peek(leases, want + outstanding, moment);
    if (outcome === "granted" || want <= 0) {
      this.#tidy(leases);
      this.#hash.set(leases.lo, leases.hi);
      return this.#buckets.takeHashed(leases.lo !== 0, want, params, now);
    }
    const waitMs = this.#wait(leases, want, remaining, moment);
    return this.#answer.ofBucket("refused", remaining, params.capacity, waitMs);
  }

  #find(lo: number, hi: number): Leases | undefined {
    const leases = this.#leases.get(placeOf(lo, hi));
    return leases !== undefined && leases.lo === lo && (lo === 0 || leases.hi === hi)
      ? leases
      : undefined;
  }

  #findText(value: string | undefined): Leases | undefined {
    if (value === undefined) return this.#find(0, 0);
    this.#hash.of(value);
    return this.#find(this.#hash.lo, this.#hash.hi);
  }

  #peek(
    { lo, hi }: Pick<Leases, "lo" | "hi">,
    want: number,
    { params, now }: Moment,
  ): EngineAnswer {
    this.#hash.set(lo, hi);
    return this.#buckets.peekHashed(lo !== 0, want, params, now);
  }

  /** Time until a refused take may succeed, because tokens are refilled or returned by the holders of leases. */
  #wait(leases: Leases, refused: number, tokens: number, moment: Moment): number {
    const { now } = moment;
    const outstanding = sum(leases);
    const filled = this.#peek(leases, refused + outstanding, moment).waitMs;
    if (outstanding <= 0) return filled;
    const until = lastEnd(leases);
    let returned = until - now;
    if (refused <= tokens + SLACK) leases.recalledUntil = until;
    else {
      const { waitMs } = this.#peek(leases, refused, moment);
      if (waitMs <= 0) return filled;
      returned = Math.max(returned, waitMs);
    }
    return filled > 0 ? Math.min(filled, returned) : returned;
  }

  /** Takes the spent tokens of a lease from the bucket, and frees those that the agent does not keep. */
  #report(leases: Leases, mine: Lease, { unspent, keep }: LeaseRequest, moment: Moment): void {
    const left = Math.min(unspent, mine.tokens);
    this.#spend(leases, mine.tokens - left, moment);
    mine.tokens = Math.min(keep, left);
  }

  /** Leased tokens are still in the bucket, unless the capacity was lowered. */
  #spend(leases: Leases, tokens: number, moment: Moment): void {
    const { remaining } = this.#peek(leases, 0, moment);
    this.#hash.set(leases.lo, leases.hi);
    const amount = Math.min(tokens, remaining);
    this.#buckets.takeHashed(leases.lo !== 0, amount, moment.params, moment.now);
  }

  /** Counts the tokens of expired leases as spent, at the time of their expiry. */
  #expire(leases: Leases, { params, now }: Moment): void {
    if (!leases.all.some(({ until }) => until <= now)) return;
    const ended = leases.all.filter(({ until }) => until <= now);
    ended.sort((a, b) => a.until - b.until);
    for (const lease of ended) {
      this.#spend(leases, lease.tokens, { params, now: lease.until });
      remove(leases, lease);
    }
  }

  /** Adds an entry for a key without leases; undefined when too many keys have leases. */
  #openLeases(lo: number, hi: number, moment: Moment): Leases | undefined {
    let left = MAX_EXAMINED;
    for (const leases of this.#leases.values()) {
      if (left-- <= 0) break;
      this.#expire(leases, moment);
      this.#tidy(leases);
    }
    const place = placeOf(lo, hi);
    if (this.#leases.size >= this.#maxLeasedKeys || this.#leases.has(place)) return undefined;
    const leases: Leases = { lo, hi, all: [], recalledUntil: Number.NEGATIVE_INFINITY };
    this.#leases.set(place, leases);
    return leases;
  }

  #tidy({ lo, hi, all }: Leases): void {
    if (all.length === 0) this.#leases.delete(placeOf(lo, hi));
  }
}

/**
 * Reduces the hash of a key to the 52 bits that a double holds exactly. Of two keys with the same number, only one gets
 * leases.
 */
function placeOf(lo: number, hi: number): number {
  return lo === 0 ? 0 : lo * 0x10_0000 + (hi >>> 12);
}

/** Grants as many takes of each run as the free tokens allow. */
function grant(
  runs: readonly Run[],
  overdraft: BucketRequest["overdraft"],
  all: number,
): { taken: number; granted: number[]; refused: number | undefined } {
  let free = all;
  let taken = 0;
  let refused: number | undefined;
  const granted: number[] = [];
  for (const { want, times } of runs) {
    const any = overdraft === "owe" || want <= 0;
    const count = any ? times : Math.max(0, Math.min(times, Math.floor((free + SLACK) / want)));
    granted.push(count);
    free -= count * want;
    taken += count * want;
    if (count < times) refused ??= want;
  }
  return { taken, granted, refused };
}

/**
 * The tokens by which a lease grows. The whole lease gets at most an equal share of the free tokens and its own, divided
 * among all lease holders and one agent that has not asked yet.
 */
function growth(
  { all, recalledUntil }: Leases,
  { tokens }: Lease,
  { wish, unit }: LeaseRequest,
  free: number,
  now: number,
): number {
  if (recalledUntil > now) return 0;
  const limit = Math.min(wish, (free + tokens) / (all.length + 1) - tokens);
  return Math.max(0, Math.floor(limit / unit + SLACK) * unit);
}

function newLease({ all }: Leases, agent: number): Lease | undefined {
  if (all.length >= MAX_LEASES) return undefined;
  const lease: Lease = { agent, turn: 0, tokens: 0, until: 0 };
  all.push(lease);
  return lease;
}

function remove({ all }: Leases, lease: Lease): void {
  all.splice(all.indexOf(lease), 1);
}

/** When the last lease ends. */
function lastEnd({ all }: Leases): number {
  return all.reduce((last, { until }) => Math.max(last, until), Number.NEGATIVE_INFINITY);
}

function sum(leases: Leases | undefined): number {
  let tokens = 0;
  for (const lease of leases?.all ?? []) tokens += lease.tokens;
  return tokens;
}

/** The answer to an outdated request: its agent has sent a newer one and ignores it. */
function stale(runs: readonly Run[]): BucketReply {
  const granted = runs.map(() => 0);
  return { granted, tokens: 0, waitMs: 0, leased: 0, recall: false };
}
