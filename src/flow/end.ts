// Ending flows: concurrency slots go back by reference, also from another connection and after the policy
// that took them has changed.

import type { Limiter } from "./limit.ts";
import type { Rulebook } from "./rulebook.ts";

/** Names one slot as the reply of its check did. */
export interface SlotRef {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  readonly label: string;
  readonly requestId: string;
  readonly tokens: number;
}

export interface SlotReturn {
  readonly returned: boolean;
  /** Why not, where that is a mistake of the caller; "" for an unknown or expired slot. */
  readonly error: string;
}

/** Gives back one slot. Never throws: the answer is per reference. */
export function endSlot(book: Rulebook, ref: SlotRef): SlotReturn {
  const { policyName, componentId, label, requestId } = ref;
  const enders = book.limiters(policyName).filter(({ end }) => end !== undefined);
  const named = enders.filter(({ component }) => component.componentId === componentId);
  // Inserting a component renumbers its sisters; slot ids are unique, so a sister may know the slot.
  const asked: readonly Limiter[] = [...named, ...enders.filter((ender) => !named.includes(ender))];
  if (asked.length === 0) return { returned: false, error: "flow ender not found for limiter id" };
  if (requestId === "") return { returned: false, error: "request id cannot be empty" };
  const grant = { policyName, componentId, key: label, id: requestId, amount: ref.tokens };
  return { returned: asked.some((limiter) => limiter.end?.(grant) === true), error: "" };
}
