// A cache of the pods and Services at addresses of other pods. An address is looked up in the background when a check names
// it, so no check waits for a look-up.

import { isIP } from "node:net";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Entity } from "#base/net/entity.ts";

export interface LookedUpOptions {
  readonly clock: Clock;
  /** Undefined where there is nothing at the address. */
  readonly find: (address: string) => Promise<Entity | undefined>;
  /** True if the store is away, or lost its data. Entries are then kept. */
  readonly isUnsure: () => boolean;
  /** Called after each look-up, with the reason where it failed. */
  readonly reached: (fault: Fault | undefined) => void;
}

/** Limit of addresses in the cache. */
export const MAX_ADDRESSES = 2_048;
/** Limits of concurrent look-ups, and of those that wait. */
const MAX_CONCURRENT = 8;
const MAX_WAITING = 256;
/** Limit of new addresses a second, because callers choose them. */
export const MAX_PER_SECOND = 50;
/** Time between two rounds that renew entries in use and drop the others, ms, and the limit of renewals in one round. */
export const ROUND_MS = 5_000;
const MAX_RENEWED = 250;
/** Lifetime of an entry, ms. */
export const FOUND_MS = 60_000;
/** Lifetime after a look-up that found nothing or failed. It doubles each time, up to `FOUND_MS`. */
const UNKNOWN_MS = 5_000;

interface Known {
  entity: Entity | undefined;
  /** When it is looked up again, on `clock.now()`. */
  until: number;
  /** Consecutive look-ups that found nothing. */
  misses: number;
  /** A check has asked for it since it was looked up. */
  isUsed: boolean;
}

const NONE: readonly string[] = [];

export class LookedUp {
  /** Look-ups so far. */
  readonly counts = { found: 0, unknown: 0, failed: 0, left_out: 0 };
  readonly #options: LookedUpOptions;
  readonly #known = new Map<string, Known>();
  /** Addresses that are being looked up, or wait for it. */
  readonly #asked = new Set<string>();
  readonly #waiting: string[] = [];
  #underWay = 0;
  #second = 0;
  #inSecond = 0;
  #disarm: (() => void) | undefined;
  #isClosed = false;

  constructor(options: LookedUpOptions) {
    this.#options = options;
  }

  /** Number of addresses with a known pod or Service. */
  get known(): number {
    let count = 0;
    for (const { entity } of this.#known.values()) if (entity !== undefined) count += 1;
    return count;
  }

  at(address: string): Entity | undefined {
    return this.#known.get(address)?.entity;
  }

  *all(): Generator<Entity> {
    for (const { entity } of this.#known.values()) if (entity !== undefined) yield entity;
  }

  /** Known services of an address in canonical form. Looks up an unknown address. */
  byAddress(address: string): readonly string[] {
    const known = this.#known.get(address);
    if (known === undefined) {
      this.#ask(address);
      return NONE;
    }
    known.isUsed = true;
    return known.entity?.services ?? NONE;
  }

  close(): void {
    this.#isClosed = true;
    this.#waiting.length = 0;
    this.#disarm?.();
  }

  #ask(address: string): void {
    // Text that is not an address must not become a part of a key.
    if (this.#asked.has(address) || isIP(address) === 0) return;
    if (this.#waiting.length >= MAX_WAITING || !this.#mayAsk()) this.counts.left_out += 1;
    else this.#lookUpNext(address);
  }

  #mayAsk(): boolean {
    const second = Math.floor(this.#options.clock.now() / 1_000);
    if (second !== this.#second) this.#inSecond = 0;
    this.#second = second;
    this.#inSecond += 1;
    return this.#inSecond <= MAX_PER_SECOND;
  }

  #lookUpNext(address: string): void {
    if (this.#isClosed) return;
    this.#asked.add(address);
    this.#waiting.push(address);
    this.#work();
  }

  #work(): void {
    while (this.#underWay < MAX_CONCURRENT) {
      const address = this.#waiting.shift();
      if (address === undefined) return;
      this.#underWay += 1;
      void this.#lookUp(address).finally(() => {
        this.#underWay -= 1;
        this.#asked.delete(address);
        this.#work();
      });
    }
  }

  async #lookUp(address: string): Promise<void> {
    const { find, reached, isUnsure } = this.#options;
    const before = this.#known.get(address);
    try {
      const found = await find(address);
      this.counts[found === undefined ? "unknown" : "found"] += 1;
      const entity = found ?? (isUnsure() ? before?.entity : undefined);
      this.#remember(address, entity && { ...entity, ipAddress: address }, found !== undefined);
      reached(undefined);
    } catch (thrown) {
      this.counts.failed += 1;
      this.#remember(address, before?.entity, false);
      reached(Fault.from(thrown));
    }
  }

  #remember(address: string, entity: Entity | undefined, isFound: boolean): void {
    if (this.#isClosed) return;
    const before = this.#known.get(address);
    const misses = isFound ? 0 : (before?.misses ?? 0) + 1;
    const ms = isFound ? FOUND_MS : Math.min(UNKNOWN_MS * 2 ** (misses - 1), FOUND_MS);
    const until = this.#options.clock.now() + ms;
    if (before === undefined && this.#known.size >= MAX_ADDRESSES) this.#forgetOne();
    this.#known.set(address, { entity, until, misses, isUsed: false });
    this.#arm();
  }

  /** Drops the oldest entry that no check asks for or, where all of the first ones are in use, the oldest of all. */
  #forgetOne(): void {
    let oldest: string | undefined;
    let looked = 0;
    for (const [address, { isUsed }] of this.#known) {
      oldest ??= address;
      if (!isUsed) {
        oldest = address;
        break;
      }
      looked += 1;
      if (looked === 16) break;
    }
    if (oldest !== undefined) this.#known.delete(oldest);
  }

  #arm(): void {
    this.#disarm ??= this.#options.clock.alarm(ROUND_MS, () => {
      this.#disarm = undefined;
      this.#round();
      if (this.#known.size > 0) this.#arm();
    });
  }

  #round(): void {
    const now = this.#options.clock.now();
    const isUnsure = this.#options.isUnsure();
    let renewed = 0;
    for (const [address, { until, isUsed }] of this.#known) {
      if (now < until || this.#asked.has(address)) continue;
      if (!isUsed && !isUnsure) this.#known.delete(address);
      else if (isUsed && renewed < MAX_RENEWED) {
        renewed += 1;
        this.#lookUpNext(address);
      }
    }
  }
}
