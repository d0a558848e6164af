// How far a version of a policy has reached its agents, in words. The argument is the `rollout` of a policy, as the controller shows it.

import { printable } from "#base/text/printable.ts";
import type { Json } from "../server.ts";

/** True if some agents do not apply the version yet. */
export function isBehind(rollout: unknown): boolean {
  if (typeof rollout !== "object" || rollout === null) return false;
  const { agents, applied } = rollout as Json;
  return Number(applied) < Number(agents);
}

/** `2 of 3`, or `-` where nothing in a policy concerns agents. */
export function agentsText(rollout: unknown): string {
  if (typeof rollout !== "object" || rollout === null) return "-";
  const { agents, applied, unknown } = rollout as Json;
  const more = Number(unknown ?? 0) > 0 ? `, ${String(unknown)} unknown` : "";
  return `${String(applied)} of ${String(agents)}${more}`;
}

export function rolloutText(rollout: unknown): string {
  if (typeof rollout !== "object" || rollout === null) return "";
  const { agents, applied, behind } = rollout as Json;
  const names = Array.isArray(behind) ? behind.map((name) => printable(String(name))) : [];
  const missing = Number(agents) - Number(applied);
  const more = missing > names.length ? ` and ${missing - names.length} more` : "";
  const late = names.length === 0 ? "" : `; behind: ${names.join(", ")}${more}`;
  return `; ${agentsText(rollout)} agents at this version${late}`;
}

/**
 * The first agent that does not apply the version of a policy, in one line: one that refuses it or, without any, one
 * that has not reported it yet.
 */
export function behindText(rollout: unknown): string {
  const { agents, applied, behind, refused } = (rollout ?? {}) as Json;
  const refusals = Array.isArray(refused) ? refused : [];
  if (refusals.length > 0) {
    const others = refusals.length > 1 ? `; ${refusals.length - 1} more refuse it` : "";
    return `refused by ${String(refusals[0])}${others}`;
  }
  const names = Array.isArray(behind) ? behind : [];
  if (names.length === 0) return "";
  const missing = Number(agents) - Number(applied);
  const more = missing > 1 ? ` and ${missing - 1} more` : "";
  return `not yet at ${String(names[0])}${more}`;
}

/** A line for each agent that refuses rules of the policy. */
export function refusedText(rollout: unknown): string {
  const { refused } = (rollout ?? {}) as Json;
  const each = Array.isArray(refused) ? refused : [];
  return each.map((one) => `\n  refused by ${printable(String(one))}`).join("");
}
