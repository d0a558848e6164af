// Chooses the answer of a limiter that has no valid numbers, because no decision has arrived, the last one was removed, or a
// signal of its circuit is invalid. The policy's `on_failure` decides.

import { type FailureMode, type StandIn, standInOf } from "#base/failure-mode.ts";
import type { Component } from "../flow.ts";
import { usualFailureMode } from "../rules.ts";

/** Why numbers are not valid: none are there, or a failure mode of the controller made them. */
export type InvalidFailure = "no_numbers" | FailureMode;

/** Why a limiter does not count by valid numbers. */
export type InvalidNumbers = "pass_through" | InvalidFailure;

/** Answers in place of the count, except for `last_known`, which counts by numbers that were valid once. */
export type Fallback = "pass_through" | StandIn;

/** Why decided numbers are not valid; undefined when they are. */
export function whyInvalid(
  numbers:
    | { readonly passThrough: boolean; readonly failure?: FailureMode | undefined }
    | undefined,
): InvalidNumbers | undefined {
  if (numbers === undefined) return "no_numbers";
  if (numbers.failure !== undefined) return numbers.failure;
  return numbers.passThrough ? "pass_through" : undefined;
}

/** Undefined for valid numbers. `known` says whether there were valid numbers before. */
export function fallbackFor<Invalid extends InvalidNumbers | undefined>(
  invalid: Invalid,
  component: Component,
  known: boolean,
): Extract<Invalid, "pass_through" | undefined> | StandIn;
export function fallbackFor(
  invalid: InvalidNumbers | undefined,
  { kind, onFailure }: Component,
  known: boolean,
): Fallback | undefined {
  if (invalid === undefined || invalid === "pass_through") return invalid;
  const byDefault = usualFailureMode(kind) === "closed" ? "closed" : "open";
  return standInOf(invalid === "no_numbers" ? onFailure : invalid, byDefault, known);
}
