// The real limit, as the simulations ask it: the slots of one key, counted in process.

import { seededChance } from "#base/chance.ts";
import type { SlotParams } from "#flow/counters/counter-engine.ts";
import { KeyHash } from "#flow/counters/local/keys/key-hash.ts";
import { LocalSlots } from "#flow/counters/local/local-slots.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import type { AdaptiveBounds } from "#flow/rules.ts";
import type { Limit } from "./upstream.ts";

export const BOUNDS: AdaptiveBounds = { min: 4, max: 10_000, start: 20, tolerance: 1.5 };

export interface RealLimit extends Limit {
  readonly slots: LocalSlots;
}

/** An adaptive limit, in virtual time. Slots expire after `maxInflightMs`. */
export function adaptiveLimit(
  over: Partial<AdaptiveBounds> = {},
  maxInflightMs = 60_000,
): RealLimit {
  const adaptive = { ...BOUNDS, ...over };
  return slotLimit({ max: adaptive.max, maxInflightMs, adaptive });
}

export function slotLimit(params: SlotParams): RealLimit {
  const chance = seededChance(1);
  let now = 0;
  const slots = new LocalSlots({
    clock: { now: () => now, wall: () => now, wallOf: (at) => at, alarm: () => () => undefined },
    chance,
    observer: NO_OBSERVER,
    keyHash: KeyHash.seeded(chance),
    maxKeys: 100,
  });
  return {
    slots,
    take(at) {
      now = at;
      const { outcome, id } = slots.take(undefined, 1, params, at);
      if (outcome !== "granted") return undefined;
      return (end) => {
        now = end;
        slots.giveBack(undefined, 1, id, params);
      };
    },
    now(at) {
      const { remaining, current } = slots.peek(undefined, 1, params, at);
      return remaining + current;
    },
  };
}
