// The status of a policy resource: a pure function of the state of its policy.

import { printable } from "#base/text/printable.ts";
import type { PolicyWarning } from "#policy/document/warning.ts";
import { runningWarningLine } from "#policy/format.ts";
import type { EventText } from "../api/events.ts";
import { fieldOf, textOf } from "../api/objects.ts";
import {
  CONDITIONS,
  type Condition,
  type ConditionType,
  conditionOf,
  type FindingText,
  type PolicyResource,
  type PolicyResourceStatus,
} from "./resource.ts";

/** The agents that should apply a version, and those that do. */
export interface Rollout {
  readonly agents: number;
  readonly applied: number;
  /** Agents that refused the version, each with its reason. */
  readonly refused?: readonly string[];
}

/** A resource and the state of its policy. */
export interface ResourceState {
  readonly resource: PolicyResource;
  /** Hash of this generation's document; undefined for an invalid document. */
  readonly hash: string | undefined;
  readonly findings: readonly FindingText[];
  readonly warnings: readonly PolicyWarning[];
  /** Undefined if the resource has no dynamic configuration. */
  readonly dynamicConfig: DynamicConfigState | undefined;
  /** True if the policy has scalers other than dry runs. */
  readonly scales: boolean;
  /** The gateways and routes that the policy attaches to, each with the reason why its requests are not checked. */
  readonly targets: readonly {
    readonly controlPoint: string;
    readonly fault: string | undefined;
  }[];
  /** Hash of the running version that came from this resource; undefined for none. */
  readonly running: string | undefined;
  /** Reason why the policy does not run although its document is valid; undefined when it may run. */
  readonly leftOut: string | undefined;
  /** The quota of its namespace, if the resource exceeds it and so is not compiled. */
  readonly quota: number | undefined;
  readonly rollout: Rollout | undefined;
}

export interface DynamicConfigState {
  /** Reasons why it was refused, by key; empty if it was accepted. */
  readonly refused: ReadonlyMap<string, string>;
  /** True if a configuration from the API or a file is in force instead. */
  readonly isOverridden: boolean;
}

/** A one-word reason for programs, and a sentence without a full stop. */
type Because = readonly [reason: string, message: string];

/** The most findings and warnings in a status: the whole object must fit into etcd. */
const MAX_LISTED = 20;
const MAX_TEXT = 500;

/** `wall` (Unix ms) is the transition time of conditions that change. */
export function statusOf(state: ResourceState, wall: number): PolicyResourceStatus {
  const { resource, hash, running, rollout } = state;
  const isValid = hash !== undefined;
  const isRunning = isValid && running === hash && state.leftOut === undefined;
  const config = isRunning ? configFault(state) : undefined;
  const scaling = isRunning ? scalingFault(state) : undefined;
  const attaching = isRunning ? attachingFault(state) : undefined;
  const unready = unreadiness(state) ?? config ?? scaling ?? attaching ?? agentsFault(state);
  /** `fault` is undefined where the condition holds. */
  const condition = (
    type: ConditionType,
    fault: Because | undefined,
    good: Because,
    bad: "False" | "Unknown" = "False",
  ): Condition => {
    const [reason, message] = fault ?? good;
    const before = conditionOf(resource.status, type);
    const status = fault === undefined ? "True" : bad;
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
  const unjudged = state.quota === undefined ? "False" : "Unknown";
  const warnings = [...new Set(state.warnings.map(runningWarningLine))];
  return {
    status: isRunning ? "uploaded" : isValid ? "uploading" : "rejected",
    observedGeneration: resource.generation,
    hash: running ?? null,
    conditions: [
      condition("Valid", invalidity(state), ["Compiled", CONDITIONS.Valid], unjudged),
      condition("Ready", unready, ["Running", `version ${running} is in force`]),
      ...(isRunning && state.dynamicConfig !== undefined
        ? [condition("DynamicConfigApplied", config, ["Applied", "all of its values are in force"])]
        : []),
      ...(isRunning && state.scales
        ? [condition("Scaling", scaling, ["Followed", CONDITIONS.Scaling])]
        : []),
      ...(isRunning && state.targets.length > 0
        ? [condition("Attached", attaching, ["Attached", CONDITIONS.Attached])]
        : []),
    ],
    findings: listed(state.findings).map(({ path, message }) => ({ path, message: cut(message) })),
    warnings: listed(warnings).map(cut),
    warningCount: warnings.length,
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

/** Reason why the document is invalid, or was not compiled; undefined when it is valid. */
function invalidity({ hash, findings, quota, resource }: ResourceState): Because | undefined {
  if (quota !== undefined) return overQuota(resource, quota);
  return hash === undefined ? ["Invalid", firstOf(findings)] : undefined;
}

function overQuota({ namespace }: PolicyResource, quota: number): Because {
  const most = quota === 1 ? "1 policy" : `${quota} policies`;
  const text = `the namespace ${namespace} may have ${most} in force (policies.namespace_quota), and older ones take all places`;
  return ["OverQuota", text];
}

/** The reason why this version of the policy does not run; undefined when it does. */
function unreadiness({
  hash,
  running,
  leftOut,
  findings,
  quota,
  resource,
}: ResourceState): Because | undefined {
  if (quota !== undefined) return overQuota(resource, quota);
  if (leftOut !== undefined) return ["LeftOut", leftOut];
  if (hash !== undefined && hash === running) return undefined;
  if (hash !== undefined) return [STARTING, "this version is about to run"];
  if (running === undefined) return ["Invalid", `no version runs: ${firstOf(findings)}`];
  const stays = `the last good version (${running}) stays in force: ${firstOf(findings)}`;
  return ["LastGoodVersion", stays];
}

function configFault({ dynamicConfig }: ResourceState): Because | undefined {
  const [first] = dynamicConfig?.refused ?? [];
  if (first !== undefined) {
    const [key, why] = first;
    return ["DynamicConfigRefused", `dynamicConfig.${key}: ${why}; none of its values is in force`];
  }
  if (dynamicConfig?.isOverridden !== true) return undefined;
  const instead =
    "a dynamic configuration from another source is in force, set over the API or by a file";
  return ["DynamicConfigOverridden", instead];
}

function scalingFault({ scales, warnings }: ResourceState): Because | undefined {
  if (!scales) return undefined;
  const found = warnings.find(({ code }) => code === "not_scaled" || code === "needs_auto_scale");
  return found && ["NotScaled", runningWarningLine(found)];
}

function attachingFault({ targets }: ResourceState): Because | undefined {
  const faulty = targets.filter(({ fault }) => fault !== undefined);
  if (faulty.length === 0) return undefined;
  const each = faulty.map(({ controlPoint, fault }) => `${controlPoint}: ${fault}`);
  return ["NotAttached", each.join("; ")];
}

function agentsFault({ rollout }: ResourceState): Because | undefined {
  const [first] = rollout?.refused ?? [];
  return first === undefined ? undefined : ["RefusedByAgents", first];
}

const STARTING = "Starting";

/** The events of the resource: one for each changed condition. */
export function eventsBetween(before: unknown, after: PolicyResourceStatus): readonly EventText[] {
  const events = after.conditions.flatMap((condition): readonly EventText[] => {
    const { type, status, reason, message } = condition;
    const was = conditionOf(before, type);
    const isSame = fieldOf(was, "status") === status && fieldOf(was, "message") === message;
    if (isSame || reason === STARTING) return [];
    return [{ type: status === "True" ? "Normal" : "Warning", reason, note: message }];
  });
  // A failed condition also makes Ready False for the same reason; one event is enough.
  return events.filter(
    ({ reason }, at) => events.findIndex((other) => other.reason === reason) === at,
  );
}

/** True if a resource already has these members in its status. */
export function hasStatus(
  { status }: PolicyResource,
  wanted: Partial<PolicyResourceStatus>,
): boolean {
  return Object.entries(wanted).every(([name, value]) => isSame(fieldOf(status, name), value));
}

/** Compares JSON without regard to the order of members. Servers omit members that are null. */
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
