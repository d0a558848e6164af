// The slots that an accepted flow holds until it ends. A caller that never gets the reply does not know their ids and
// cannot end the flow, so the transport releases them. Tokens stay spent.

import type { Held } from "#base/handler.ts";
import { type Component, type Decision, type Grant, grantOf } from "../flow.ts";
import type { SlotLimiter } from "../limit/limiter.ts";
import type { Observer } from "../observer.ts";

/** Bytes of the objects of one slot, measured, without the text of its key. */
const SLOT_SIZE = 256;

/** The slots that these decisions took; undefined if they took none. */
export function heldSlots(
  decisions: readonly Decision[],
  limiters: ReadonlyMap<Component, SlotLimiter>,
  observer: Observer,
): Held | undefined {
  let held: HeldSlots | undefined;
  for (let at = 0; at < decisions.length; at++) {
    const decision = decisions[at];
    const limiter = decision === undefined ? undefined : limiters.get(decision.component);
    if (decision === undefined || limiter === undefined) continue;
    const grant = grantOf(decision);
    if (grant !== undefined) held = new HeldSlots(limiter, grant, observer, held);
  }
  return held;
}

/** A linked list, because nearly every flow holds at most one slot. Keeps nothing of the request but its key. */
class HeldSlots implements Held {
  readonly size: number;
  readonly #limiter: SlotLimiter;
  readonly #grant: Grant;
  readonly #observer: Observer;
  readonly #next: HeldSlots | undefined;

  constructor(limiter: SlotLimiter, grant: Grant, observer: Observer, next: HeldSlots | undefined) {
    this.#limiter = limiter;
    this.#grant = grant;
    this.#observer = observer;
    this.#next = next;
    this.size = SLOT_SIZE + grant.key.length + (next?.size ?? 0);
  }

  release(): void {
    this.#observer.anomaly("undelivered");
    for (let slot: HeldSlots | undefined = this; slot !== undefined; slot = slot.#next) {
      slot.#limiter.undo(slot.#grant);
    }
  }
}
