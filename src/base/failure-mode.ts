// Failure modes (`on_failure` in policies): the behaviour of a limiter that cannot decide, for the circuit, which
// decides numbers, and for agents, which decide flows.

export const FAILURE_MODES = ["open", "closed", "local", "last_known"] as const;

/** `local` is specific to the kind: counting in process where shared counters do not answer, else its default. */
export type FailureMode = (typeof FAILURE_MODES)[number];

/** True if a mode answers without any count. */
export function decidesAlone(mode: FailureMode): mode is "open" | "closed" {
  return mode === "open" || mode === "closed";
}

/** Accepts everything, refuses everything, or continues with the last valid numbers. */
export type StandIn = "open" | "closed" | "last_known";

/**
 * Returns what replaces the decision of a limiter without valid numbers. `mode` is undefined where the policy names
 * none, `byDefault` is the default of the kind, and `known` says whether there were valid numbers before.
 */
export function standInOf(
  mode: FailureMode | undefined,
  byDefault: "open" | "closed",
  known: boolean,
): StandIn {
  if (mode === "last_known") return known ? mode : byDefault;
  return mode !== undefined && decidesAlone(mode) ? mode : byDefault;
}
