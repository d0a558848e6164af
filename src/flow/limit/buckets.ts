// The local make of token buckets: counts in process, answers at once, keeps as little per key as it can.

import type { Clock } from "#base/clock.ts";
import type { LimitWorld } from "../limit.ts";
import type { Observer } from "../observe.ts";
import { type BucketParams, delayedMark, filled, markAt, waitFor } from "./bucket.ts";
import { type LocalEngine, Reply, SLACK, type Taken } from "./engine.ts";
import { KeyHash } from "./hash.ts";
import { type Keeper, KeyTable } from "./keys.ts";
import { Refill } from "./refill.ts";

/** Mark of tokens out of the bucket that keys share when the table is full. */
const OVERFLOW = "overflow";

/** Unit of "last seen": 13 years fit a word. */
const SEEN_MS = 100;

/** Row: hash lo, hi, last seen; available, mark. 28 bytes. */
const SHAPE = { doubles: 2, words: 3 } as const;

export class LocalBuckets implements LocalEngine<BucketParams>, Keeper {
  readonly #clock: Clock;
  readonly #observer: Observer;
  readonly #hash: KeyHash;
  readonly #table: KeyTable;
  readonly #refill = new Refill();
  readonly #reply = new Reply();
  readonly #born: number;
  #params: BucketParams | undefined;
  #now = 0;
  /** `#now` in the unit of "last seen". */
  #seen = 0;

  /** The bucket without a key, which is also the one that overflowing keys share. Fresh until used. */
  #shared = false;
  #sharedAvailable = 0;
  #sharedMark = 0;
  #sharedSeen = 0;

  /** The bucket in hand, filled up to now. */
  #available = 0;
  #mark = 0;

  constructor(world: LimitWorld) {
    this.#clock = world.clock;
    this.#observer = world.observer;
    this.#hash = KeyHash.seeded(world.chance);
    this.#table = new KeyTable(SHAPE, world.maxKeys, this);
    this.#born = world.clock.now();
    this.#now = this.#born;
  }

  get keys(): number {
    return this.#table.count;
  }

  /** New numbers count from now on, also for buckets that nobody has asked for a while. */
  adopt(params: BucketParams): void {
    this.#params = params;
    this.#refill.change(this.#clock.now(), params.amount, params.intervalMs);
  }

  peek(value: string | undefined, want: number, params: BucketParams): Taken {
    this.#begin(params);
    if (value === undefined) this.#openShared(params);
    else if (!this.#openKey(value, params) && want > 0 && !this.#table.hasRoom()) {
      this.#openShared(params);
    }
    return this.#judge(want, params, "");
  }

  take(value: string | undefined, want: number, params: BucketParams): Taken {
    this.#begin(params);
    if (value === undefined) return this.#takeShared(want, params, "");
    const known = this.#openKey(value, params);
    const reply = this.#judge(want, params, "");
    if (known) {
      this.#store();
      return reply;
    }
    // A fresh bucket of which nothing was taken needs no place: none is the same as a full one.
    if (reply.outcome === "refused" || want === 0) return reply;
    if (this.#table.insert(this.#hash.lo, this.#hash.hi)) {
      this.#store();
      return reply;
    }
    this.#observer.odd("keys_overflow");
    return this.#takeShared(want, params, OVERFLOW);
  }

  giveBack(value: string | undefined, amount: number, id: string, params: BucketParams): boolean {
    this.#begin(params);
    if (value === undefined || id === OVERFLOW) {
      this.#openShared(params);
      this.#available = Math.min(params.capacity, this.#available + amount);
      this.#storeShared();
      return true;
    }
    // A key that is not known any more was full or idle for too long: there is nothing to add to.
    if (!this.#openKey(value, params)) return false;
    this.#available = Math.min(params.capacity, this.#available + amount);
    this.#store();
    return true;
  }

  spent(doubles: Float64Array, d: number, words: Uint32Array, w: number): boolean {
    const params = this.#params;
    if (params === undefined) return false;
    if (this.#idle(words[w + 2] ?? 0, params)) return true;
    const mark = doubles[d + 1] ?? 0;
    const next = markAt(mark, this.#now, params);
    return filled(doubles[d] ?? 0, mark, next, params, this.#refill) >= params.capacity;
  }

  forget(): void {
    // The row is all there is.
  }

  #begin(params: BucketParams): void {
    this.#now = this.#clock.now();
    this.#seen = Math.floor((this.#now - this.#born) / SEEN_MS);
    if (params !== this.#params) this.adopt(params);
  }

  /** Takes the bucket of a key in hand; false when there is none and a fresh one is in hand. */
  #openKey(value: string, params: BucketParams): boolean {
    this.#hash.of(value);
    const table = this.#table;
    if (!table.find(this.#hash.lo, this.#hash.hi)) {
      this.#fresh(params);
      return false;
    }
    if (this.#idle(table.words[table.w + 2] ?? 0, params)) this.#fresh(params);
    else this.#fill(table.doubles[table.d] ?? 0, table.doubles[table.d + 1] ?? 0, params);
    return true;
  }

  #openShared(params: BucketParams): void {
    if (!this.#shared || this.#idle(this.#sharedSeen, params)) this.#fresh(params);
    else this.#fill(this.#sharedAvailable, this.#sharedMark, params);
  }

  #fresh(params: BucketParams): void {
    this.#available = params.capacity;
    this.#mark = this.#now;
  }

  #fill(available: number, mark: number, params: BucketParams): void {
    this.#mark = markAt(mark, this.#now, params);
    this.#available = filled(available, mark, this.#mark, params, this.#refill);
  }

  /** Judges and takes from the bucket in hand. */
  #judge(want: number, params: BucketParams, id: string): Reply {
    const reply = this.#reply;
    if (params.delayed && this.#available >= params.capacity) {
      this.#mark = delayedMark(this.#now, params);
    }
    const deficit = want - this.#available;
    const granted = want <= 0 || deficit <= SLACK;
    if (granted) this.#available -= want;
    reply.outcome = granted ? "granted" : "refused";
    reply.remaining = Math.max(0, this.#available);
    reply.current = params.capacity - reply.remaining;
    reply.waitMs = granted ? 0 : waitFor(deficit, this.#mark, this.#now, params);
    reply.id = id;
    return reply;
  }

  #takeShared(want: number, params: BucketParams, id: string): Taken {
    this.#openShared(params);
    const reply = this.#judge(want, params, id);
    this.#storeShared();
    return reply;
  }

  #store(): void {
    const table = this.#table;
    table.doubles[table.d] = this.#available;
    table.doubles[table.d + 1] = this.#mark;
    table.words[table.w + 2] = this.#seen;
  }

  #storeShared(): void {
    this.#shared = true;
    this.#sharedAvailable = this.#available;
    this.#sharedMark = this.#mark;
    this.#sharedSeen = this.#seen;
  }

  /** Surely unused for longer than allowed: the unit is coarse, so one unit more has to have passed. */
  #idle(seen: number, params: BucketParams): boolean {
    return params.maxIdleMs > 0 && (this.#seen - seen - 1) * SEEN_MS > params.maxIdleMs;
  }
}
