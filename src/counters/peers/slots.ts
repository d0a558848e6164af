// One limiter's concurrency slots, counted by the agents of the group.

import type { AdaptiveSummary } from "#flow/counters/adaptive-limits.ts";
import { type EngineAnswer, type SlotParams, UNDECIDED } from "#flow/counters/counter-engine.ts";
import type { CounterName, SharedEngine } from "#flow/counters/shared-counters.ts";
import type { Pending } from "#flow/flow.ts";
import { isSlotId } from "../slot-ends.ts";
import type { CountedKey } from "./exchange/keys.ts";
import type { OwnedSlotLimiter } from "./owned-slots.ts";
import type { PeerGroup } from "./peer-group.ts";

export class PeerSlots implements SharedEngine<SlotParams> {
  readonly #group: PeerGroup;
  readonly #name: CounterName;
  /** Undefined before the first numbers and after `close`. */
  #limiter: OwnedSlotLimiter | undefined;
  #closed = false;

  constructor(group: PeerGroup, name: CounterName) {
    this.#group = group;
    this.#name = name;
  }

  adopt(params: SlotParams): void {
    this.#limiterNow().slots = params;
  }

  take(
    value: string | undefined,
    want: number,
    params: SlotParams,
    now: number,
  ): EngineAnswer | Pending<EngineAnswer> {
    if (!this.#group.ready) return UNDECIDED;
    return this.#group.slots.take(this.#key(value), want, params, now);
  }

  giveBack(
    value: string | undefined,
    _amount: number,
    id: string,
    params: SlotParams,
    unused = false,
  ): boolean | Pending<boolean> {
    if (!this.#group.ready || !isSlotId(id)) return false;
    return this.#group.slots.end(this.#key(value), id, params, unused);
  }

  adaptive(now: number): AdaptiveSummary | undefined {
    return this.#limiter?.limits.summary(now);
  }

  close(): void {
    this.#closed = true;
    if (this.#limiter !== undefined) this.#group.owned.slots.unplan(this.#limiter);
    this.#limiter = undefined;
  }

  /** After `close`, requests that are still under way are counted without returning the limiter to the plan. */
  #limiterNow(): OwnedSlotLimiter {
    const { slots } = this.#group.owned;
    if (this.#closed) return slots.known(this.#name);
    this.#limiter ??= slots.plan(this.#name);
    return this.#limiter;
  }

  #key(value: string | undefined): CountedKey<OwnedSlotLimiter> {
    const limiter = this.#limiterNow();
    const { lo, hi } = this.#group.owned.hashOf(value, limiter);
    return { limiter, lo, hi };
  }
}
