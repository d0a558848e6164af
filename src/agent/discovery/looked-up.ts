// The pods and Services at addresses that are not this pod's: looked up in the background when a check names one, and
// remembered for a while. No check waits for a look-up.

import { isIP } from "node:net";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Entity } from "#base/net/entity.ts";

export interface LookedUpOptions {
  readonly clock: Clock;
  /** Undefined where nothing stands at the address. */
  readonly find: (address: string) => Promise<Entity | undefined>;
  /** Whether the store is away, or lost what it had: then nothing that is known is forgotten. */
  readonly isUnsure: () => boolean;
  /** Called after each look-up, with the reason where it failed. */
  readonly reached: (fault: Fault | undefined) => void;
}

/** The most addresses that are remembered. */
export const MAX_ADDRESSES = 2_048;
/** The most look-ups at a time, and the most that wait for one of these to end. */
const MAX_AT_ONCE = 8;
const MAX_WAITING = 256;
/** The most new addresses a second: who sends checks chooses them. */
export const MAX_PER_SECOND = 50;
/** Milliseconds between two rounds that renew what is used and forget what is not, and the most renewals of a round. */
export const ROUND_MS = 5_000;
const MAX_RENEWED = 250;
/** Milliseconds after which what was found is looked up again. */
export const FOUND_MS = 60_000;
/** The same where nothing was found, or the look-up failed: at first, and twice as long each time up to `FOUND_MS`. */
const UNKNOWN_MS = 5_000;

interface Known {
  entity: Entity | undefined;
  /** When it is looked up again, on `clock.now()`. */
  until: number;
  /** Look-ups one after the other that found nothing. */
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
  /** Addresses that wait for a look-up; those that are being looked up come first. */
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

  /** The number of addresses where something is known to stand. */
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

  /** Services of an address in canonical form, as far as they are known. One that is not is looked up from now on. */
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
    // Other text would be a part of a key.
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
    while (this.#underWay < MAX_AT_ONCE) {
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

  /** The oldest of those that no check asks for, or the oldest of all where each of the first is asked for. */
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
