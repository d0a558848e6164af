// The buckets that this agent owns, of limiters in its own plan and of limiters that only other agents have.

import { BucketStore, type BucketStoreContext } from "#flow/counters/bucket-store.ts";
import { type BucketParams, sameParams } from "#flow/counters/counter-engine.ts";
import type { CounterName } from "#flow/counters/shared-counters.ts";
import { OwnedBuckets } from "../leases/owned-buckets.ts";
import { keylessHashOf, textOf } from "./exchange/keys.ts";
import { OwnedSlots } from "./owned-slots.ts";

/** Most limiters that only other agents have, far more than one plan has. */
const MAX_FOREIGN = 10_000;
/** A limiter that is not in the own plan is forgotten this long after its last request, ms. */
const FOREIGN_MS = 600_000;
/** Time between two sweeps, ms. */
const SWEEP_MS = 60_000;

export class OwnedLimiter {
  readonly name: CounterName;
  /** Unique in this process. */
  readonly number: number;
  /** The upper half of the hash of the bucket without a key, the same at all agents. */
  readonly keylessHash: number;
  buckets: OwnedBuckets;
  /** The parameters of its buckets. Undefined until the first numbers. */
  params: BucketParams | undefined;
  /** How many limiters of the own plan use it. While there are any, their parameters apply. */
  planned = 0;
  usedAt = 0;

  constructor(name: CounterName, number: number, buckets: OwnedBuckets) {
    this.name = name;
    this.number = number;
    this.keylessHash = keylessHashOf(name);
    this.buckets = buckets;
  }

  /** Hashes of the keys that have a bucket or leases, `lo` and `hi` alternating. Some occur twice. */
  hashes(): readonly number[] {
    const hashes: number[] = [];
    this.buckets.each((lo, hi) => hashes.push(lo, lo === 0 ? this.keylessHash : hi));
    return hashes;
  }

  adopt(params: BucketParams): void {
    if (params === this.params) return;
    this.params = params;
    this.buckets.adopt(params);
  }

  /** The parameters that apply to a request of another agent with these parameters. */
  agree(params: BucketParams): BucketParams {
    const own = this.params;
    if (own !== undefined && (this.planned > 0 || sameParams(own, params))) return own;
    this.adopt(params);
    return params;
  }
}

export class OwnedLimiters {
  /** Slots of concurrency limiters. */
  readonly slots: OwnedSlots;
  readonly #context: BucketStoreContext;
  readonly #limiters = new Map<string, OwnedLimiter>();
  #store: BucketStore;
  #foreign = 0;
  #opened = 0;
  #stopSweeping: () => void = () => undefined;

  constructor(context: BucketStoreContext, seed: readonly [number, number]) {
    this.#context = context;
    this.#store = new BucketStore(context, seed);
    this.slots = new OwnedSlots(context);
    this.#sweepLater();
  }

  get hash(): BucketStore["hash"] {
    return this.#store.hash;
  }

  /** The hash of a label value of a limiter, or of its count without a key. Valid until the next call. */
  hashOf(value: string | undefined, { keylessHash }: { readonly keylessHash: number }) {
    const { hash } = this.#store;
    if (value === undefined) hash.set(0, keylessHash);
    else hash.of(value);
    return hash;
  }

  get all(): Iterable<OwnedLimiter> {
    return this.#limiters.values();
  }

  get count(): number {
    return this.#limiters.size;
  }

  /** Forgets all counts, because counts under another seed are meaningless. */
  reseed(seed: readonly [number, number]): void {
    this.#store = new BucketStore(this.#context, seed);
    this.slots.clear();
    for (const limiter of this.#limiters.values()) {
      limiter.buckets = new OwnedBuckets(this.#store, textOf(limiter.name));
      if (limiter.params !== undefined) limiter.buckets.adopt(limiter.params);
    }
  }

  /** A limiter of this agent's own plan. */
  plan(name: CounterName): OwnedLimiter {
    const limiter = this.#limiters.get(textOf(name)) ?? this.#open(name);
    if (limiter.planned === 0) this.#foreign--;
    limiter.planned++;
    return limiter;
  }

  /** The limiter has left the own plan. Other agents may still ask about it. */
  unplan(limiter: OwnedLimiter): void {
    limiter.planned--;
    if (limiter.planned > 0) return;
    limiter.usedAt = this.#context.clock.now();
    this.#foreign++;
  }

  /** A limiter that another agent asks about; undefined when there are too many. */
  known(name: CounterName): OwnedLimiter | undefined {
    const found = this.#limiters.get(textOf(name));
    const now = this.#context.clock.now();
    if (found === undefined && this.#foreign >= MAX_FOREIGN) this.sweep();
    if (found === undefined && this.#foreign >= MAX_FOREIGN) return undefined;
    const limiter = found ?? this.#open(name);
    limiter.usedAt = now;
    return limiter;
  }

  /** Ends the regular sweeps. */
  close(): void {
    this.#stopSweeping();
  }

  /** Forgets limiters without requests for ten minutes, and expired slots and leases. */
  sweep(): void {
    const now = this.#context.clock.now();
    this.slots.sweep(now);
    const oldest = now - FOREIGN_MS;
    for (const [key, { planned, usedAt, buckets }] of this.#limiters) {
      buckets.sweep(now);
      if (planned > 0 || usedAt > oldest) continue;
      buckets.close();
      this.#limiters.delete(key);
      this.#foreign--;
    }
  }

  #sweepLater(): void {
    this.#stopSweeping = this.#context.clock.alarm(SWEEP_MS, () => {
      this.sweep();
      this.#sweepLater();
    });
  }

  #open(name: CounterName): OwnedLimiter {
    const limiter = new OwnedLimiter(
      name,
      this.#opened++,
      new OwnedBuckets(this.#store, textOf(name)),
    );
    this.#limiters.set(textOf(name), limiter);
    this.#foreign++;
    return limiter;
  }
}
