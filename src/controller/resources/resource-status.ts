// The status of a policy resource: a pure function of what is known about it.

import type { PolicyRollout } from "#api/policies.ts";
import { printable } from "#base/text/printable.ts";
import { fieldOf, textOf } from "#kube/api/objects.ts";
import {
  type Condition,
  type ConditionType,
  conditionOf,
  type FindingText,
  type PolicyResource,
  type PolicyResourceStatus,
} from "#kube/policies/resource.ts";

/** A resource and the state of the policy that it describes. */
export interface Known {
  readonly resource: PolicyResource;
  /** Hash of the document of this generation; undefined where it has faults. */
  readonly hash: string | undefined;
  readonly findings: readonly FindingText[];
  readonly warnings: readonly string[];
  /** Hash of the version that runs and came from this resource; undefined where none does. */
  readonly running: string | undefined;
  /**
   * Reason why the policy does not run although its document is valid; undefined where nothing keeps it from running.
   */
  readonly leftOut: string | undefined;
  readonly rollout: PolicyRollout | undefined;
}

/** The most findings and warnings of a status: the whole object must fit into the store of the API server. */
const MAX_LISTED = 20;
const MAX_TEXT = 500;

/** `wall` is the time in Unix ms, for conditions that change now. */
export function statusOf(known: Known, wall: number): PolicyResourceStatus {
  const { resource, hash, findings, running, rollout } = known;
  const isValid = hash !== undefined;
  const isReady = isValid && running === hash && known.leftOut === undefined;
  const condition = (
    type: ConditionType,
    holds: boolean,
    [reason, message]: readonly [reason: string, message: string],
  ): Condition => {
    const before = conditionOf(resource.status, type);
    const status = holds ? "True" : "False";
    const since = textOf(before, "status") === status ? textOf(before, "lastTransitionTime") : "";
    return {
      type,
      status,
      reason,
      message: cut(message),
      observedGeneration: resource.generation,
      lastTransitionTime: since || secondsOf(wall),
    };
  };
  return {
    status: isReady ? "uploaded" : isValid ? "uploading" : "rejected",
    observedGeneration: resource.generation,
    hash: running ?? null,
    conditions: [
      condition("Valid", isValid, isValid ? ["Compiled", ""] : ["Invalid", firstOf(findings)]),
      condition("Ready", isReady, readiness(known, isReady)),
    ],
    findings: listed(findings).map(({ path, message }) => ({ path, message: cut(message) })),
    warnings: listed(known.warnings).map(cut),
    agents:
      rollout === undefined
        ? null
        : {
            wanted: rollout.agents,
            applied: rollout.applied,
            summary: `${rollout.applied}/${rollout.agents}`,
          },
  };
}

function readiness(
  { hash, running, leftOut, findings }: Known,
  isReady: boolean,
): readonly [reason: string, message: string] {
  if (isReady) return ["Running", ""];
  if (leftOut !== undefined) return ["LeftOut", leftOut];
  if (hash !== undefined) return ["Starting", ""];
  if (running === undefined) return ["Invalid", `no version runs: ${firstOf(findings)}`];
  const stays = `the last good version (${running}) stays in force: ${firstOf(findings)}`;
  return ["LastGoodVersion", stays];
}

/** Whether a resource has this status already, apart from the members that are left out. */
export function hasStatus(
  { status }: PolicyResource,
  wanted: Partial<PolicyResourceStatus>,
): boolean {
  return Object.entries(wanted).every(([name, value]) => isSame(fieldOf(status, name), value));
}

/** Equal JSON, whatever the order of members. A server leaves members that are null out. */
function isSame(left: unknown, right: unknown): boolean {
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) {
    return (left ?? null) === (right ?? null);
  }
  const names = new Set([...Object.keys(left), ...Object.keys(right)]);
  return (
    Array.isArray(left) === Array.isArray(right) &&
    [...names].every((name) => isSame(fieldOf(left, name), fieldOf(right, name)))
  );
}

function firstOf(findings: readonly FindingText[]): string {
  const [first] = findings;
  if (first === undefined) return "";
  const place = first.path === "" ? "" : `${first.path}: `;
  const more = findings.length > 1 ? ` (and ${findings.length - 1} more)` : "";
  return `${place}${first.message}${more}`;
}

function listed<T>(all: readonly T[]): readonly T[] {
  return all.slice(0, MAX_LISTED);
}

function cut(text: string): string {
  const shown = printable(text);
  return shown.length > MAX_TEXT ? `${shown.slice(0, MAX_TEXT)}…` : shown;
}

/** RFC 3339 without fractions, as times of the API are. */
function secondsOf(wall: number): string {
  return `${new Date(wall).toISOString().slice(0, 19)}Z`;
}
