// What a limiter decides while a signal that it needs is invalid: its `on_failure`, as far as that is possible.

import type { StandIn } from "../decision.ts";
import type { FailureMode } from "../plan.ts";

/** `known` says whether there were valid numbers before; `usual` is what the kind does by default. */
export function standIn(
  onFailure: FailureMode | undefined,
  known: boolean,
  usual: StandIn,
): StandIn {
  if (onFailure === "last_known") return known ? onFailure : usual;
  return onFailure === "open" || onFailure === "closed" ? onFailure : usual;
}
