// What controllers and agents leave for each other in a store: keys and wrapper messages out of compiled
// policies and decisions, and back into rules and numbers. The one place that knows both.

import { Fault } from "#base/fault.ts";
import type { Decision, Replicas } from "#circuit/component.ts";
import type { LimiterNumbers, Rule } from "#flow/rules.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import { compactPolicy } from "#policy/message.ts";
import { decode, encodeJson } from "#wire/messages.ts";
import { classifierRule, fluxMeterRule, incomplete } from "./rules/classifier.ts";
import { configBytes, configName, type PolicyIdentity } from "./rules/config.ts";
import { decisionBytes } from "./rules/decision.ts";
import {
  classifierKey,
  componentKey,
  fluxMeterKey,
  KINDS,
  type Kind,
  LIMITER_KINDS,
  type ParsedKey,
  parseKey,
} from "./rules/key.ts";
import { limiterNumbers, limiterRule } from "./rules/limiter.ts";
import type { Batch } from "./store.ts";

/** Where a controller keeps a policy as it runs, for whoever asks which policies there are. */
export function policyEntry(
  { name, hash, document }: PolicyIdentity & Pick<CompiledPolicy, "document">,
  source: "ETCD" | "K8S",
): readonly [key: string, value: Uint8Array] {
  const value = encodeJson("aperture.policy.sync.v1.PolicyWrapper", {
    common_attributes: { policy_name: name, policy_hash: hash },
    policy: compactPolicy(document),
    source,
  });
  return [`/config/policies/${name}`, value];
}

/** What agents run of a policy: a copy for each group that it names. */
export function configEntries(
  policy: PolicyIdentity & Pick<CompiledPolicy, "configs">,
): ReadonlyMap<string, Uint8Array> {
  const entries = new Map<string, Uint8Array>();
  for (const config of policy.configs) {
    const value = configBytes(policy, config);
    for (const group of config.agentGroups) {
      entries.set(`/config/${config.kind}/${configName(group, policy.name, config)}`, value);
    }
  }
  return entries;
}

/** What a decision changes: a copy for each group of the component. Undefined deletes. */
export function decisionEntries(
  policy: PolicyIdentity,
  decision: Decision,
): ReadonlyMap<string, Uint8Array | undefined> {
  const value = decisionBytes(policy, decision);
  const { kind, componentId, agentGroups } = decision;
  return new Map(
    agentGroups.map((group) => [
      `/decisions/${kind}/${componentKey(group, policy.name, componentId)}`,
      value,
    ]),
  );
}

/** Under it agents report the replicas of what they scale. */
export const REPLICAS_PREFIX = "/status/pod_scaler/";

/** Replicas as an agent reported them, and for which version of which component. */
export interface ReportedReplicas extends Replicas {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
}

/** @throws Fault INVALID_ARGUMENT when the bytes are no report. */
export function replicasOf(bytes: Uint8Array): ReportedReplicas {
  const name = "aperture.policy.sync.v1.ScaleStatusWrapper";
  const { commonAttributes, scaleStatus } = decode(name, bytes);
  if (commonAttributes === null || scaleStatus === null) throw incomplete(name);
  const { policyName, policyHash, componentId } = commonAttributes;
  const { configuredReplicas: configured, actualReplicas: actual } = scaleStatus;
  return { policyName, policyHash, componentId, configured, actual };
}

/** What an agent of a group watches. Longer group names may share the prefix; `readBatch` tells them apart. */
export function agentPrefixes(group: string): readonly string[] {
  const own = `agent_group-${group}-`;
  return [
    ...KINDS.map((kind) => `/config/${kind}/${own}`),
    ...LIMITER_KINDS.map((kind) => `/decisions/${kind}/${own}`),
  ];
}

/** A batch as rules and numbers; `undefined` says that the key is gone. */
export interface RuleChanges {
  readonly rules: ReadonlyMap<string, Rule | undefined>;
  readonly numbers: ReadonlyMap<string, LimiterNumbers | undefined>;
  /** Parts of rules that agents of this version do not run, by key. */
  readonly notRun: ReadonlyMap<string, string>;
  /** Values that could not be read. What the key held before stays in force. */
  readonly faults: ReadonlyMap<string, Fault>;
}

/** Reads what a batch changes for the agents of one group. Names are the same for a rule and its numbers. */
export function readBatch(group: string, batch: Batch): RuleChanges {
  const rules = new Map<string, Rule | undefined>();
  const numbers = new Map<string, LimiterNumbers | undefined>();
  const notRun = new Map<string, string>();
  const faults = new Map<string, Fault>();
  for (const key of batch.deletes) {
    const parsed = parseKey(key);
    if (parsed?.tree === "config") rules.set(nameOf(parsed), undefined);
    else if (parsed !== undefined) numbers.set(nameOf(parsed), undefined);
  }
  for (const { key, value } of batch.puts) {
    const parsed = parseKey(key);
    if (parsed === undefined) continue;
    try {
      if (parsed.tree === "config") {
        const { rule, without } = readRule(parsed.kind, value);
        if (nameIn(group, rule) !== parsed.name) continue;
        rules.set(nameOf(parsed), rule);
        if (without !== undefined) notRun.set(key, without);
      } else {
        const read = readNumbers(parsed.kind, value);
        const own = componentKey(group, read.policyName, read.componentId);
        if (own === parsed.name) numbers.set(nameOf(parsed), read);
      }
    } catch (thrown) {
      faults.set(key, Fault.from(thrown));
    }
  }
  return { rules, numbers, notRun, faults };
}

function nameOf({ kind, name }: ParsedKey): string {
  return `${kind}/${name}`;
}

function nameIn(group: string, rule: Rule): string {
  if (rule.kind === "classifier") return classifierKey(group, rule.policyName, rule.index);
  if (rule.kind === "flux_meter") return fluxMeterKey(group, rule.name);
  return componentKey(group, rule.policyName, rule.componentId);
}

function readRule(kind: Kind, value: Uint8Array): ReadRule {
  if (kind === "classifiers") return classifierRule(value);
  return { rule: kind === "flux_meter" ? fluxMeterRule(value) : limiterRule(kind, value) };
}

interface ReadRule {
  readonly rule: Rule;
  /** What was left out of it. */
  readonly without?: string;
}

function readNumbers(kind: Kind, value: Uint8Array): LimiterNumbers {
  if (kind !== "classifiers" && kind !== "flux_meter") return limiterNumbers(kind, value);
  throw new Fault("INVALID_ARGUMENT", `${kind}: has no decisions`);
}
