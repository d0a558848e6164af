// Finds out why a limiter has no valid numbers, and what replaces them: no decision has arrived, the last one was
// removed, or a signal of its circuit is invalid. The policy's `on_failure` chooses.

import { type FailureMode, type StandIn, standInOf } from "#base/failure-mode.ts";
import type { Component } from "../flow.ts";
import { usualFailureMode } from "../rules.ts";

/** A limiter without valid numbers of its own: none are there, or a failure mode made those that are. */
export type FailureGap = "no_numbers" | FailureMode;

/** The reason why a limiter does not count by valid numbers: its policy lets all flows pass, or it has none. */
export type Gap = "pass_through" | FailureGap;

/** The replacement for the count. `last_known` counts by numbers that were valid once; the others ask no counter. */
export type Substitute = "pass_through" | StandIn;

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

/** `known` says whether there were valid numbers before. */
export function standInFor(gap: FailureGap, component: Component, known: boolean): StandIn {
  const byDefault = usualFailureMode(component.kind) === "closed" ? "closed" : "open";
  return standInOf(gap === "no_numbers" ? component.onFailure : gap, byDefault, known);
}
