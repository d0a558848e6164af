// What answers in place of a limiter that has no valid numbers: no decision has arrived, the last one was removed, or
// a signal of its circuit is invalid. The policy's `on_failure` chooses.

import type { FailureMode } from "../rules.ts";

/** Why a limiter has no numbers of its own: its policy lets all flows pass, none are there, or a mode that made them. */
export type Gap = "pass_through" | "no_numbers" | FailureMode;

/** `last_known` counts by numbers that were valid once; the others ask no counter. */
export type StandIn = "pass_through" | "open" | "closed" | "last_known";

/** The gap in decided numbers, or undefined when they are valid. A mode that the controller applied stays as it is. */
export function gapOf(
  numbers:
    | { readonly passThrough: boolean; readonly failure?: FailureMode | undefined }
    | undefined,
): Gap | undefined {
  if (numbers === undefined) return "no_numbers";
  if (numbers.failure !== undefined) return numbers.failure;
  return numbers.passThrough ? "pass_through" : undefined;
}

/** `known` says whether there are numbers that were valid once; `local` means the default of the kind, which is open. */
export function standInOf(gap: Gap, onFailure: FailureMode, known: boolean): StandIn {
  if (gap === "pass_through") return gap;
  const mode = gap === "no_numbers" ? onFailure : gap;
  if (mode === "last_known") return known ? mode : "open";
  return mode === "closed" ? mode : "open";
}
