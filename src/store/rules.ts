// Rules as they lie in a store, and back: the one place that knows both the mind's rules and the wrapper
// messages that controllers and agents exchange.

import { Fault } from "#base/fault.ts";
import type { LimiterNumbers, LimiterRule, Rule } from "#flow/rules.ts";
import {
  classifierBytes,
  classifierRule,
  fluxMeterBytes,
  fluxMeterRule,
} from "./rules/classifier.ts";
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
import { limiterBytes, limiterNumbers, limiterRule, numbersBytes } from "./rules/limiter.ts";
import type { Batch } from "./store.ts";

/**
 * What a controller leaves in the store: key to value, a copy for each agent group that a rule's selectors
 * name.
 */
export function storedRules(
  rules: readonly Rule[],
  numbers: readonly LimiterNumbers[],
): ReadonlyMap<string, Uint8Array> {
  const stored = new Map<string, Uint8Array>();
  const numbersOf = new Map(numbers.map((one) => [ownerName(one), one]));
  for (const rule of rules) {
    const groups = new Set(rule.selectors.map(({ agentGroup }) => agentGroup));
    for (const group of groups) {
      const name = nameIn(group, rule);
      const kind = kindOf(rule);
      stored.set(`/config/${kind}/${name}`, ruleBytes(rule));
      const decision = isLimiter(rule) ? numbersOf.get(ownerName(rule)) : undefined;
      if (decision !== undefined) stored.set(`/decisions/${kind}/${name}`, numbersBytes(decision));
    }
  }
  return stored;
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
  /** Values that could not be read. What the key held before stays in force. */
  readonly faults: ReadonlyMap<string, Fault>;
}

/** Reads what a batch changes for the agents of one group. Names are the same for a rule and its numbers. */
export function readBatch(group: string, batch: Batch): RuleChanges {
  const rules = new Map<string, Rule | undefined>();
  const numbers = new Map<string, LimiterNumbers | undefined>();
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
        const rule = readRule(parsed.kind, value);
        if (nameIn(group, rule) === parsed.name) rules.set(nameOf(parsed), rule);
      } else {
        const read = readNumbers(parsed.kind, value);
        const own = componentKey(group, read.policyName, read.componentId);
        if (own === parsed.name) numbers.set(nameOf(parsed), read);
      }
    } catch (thrown) {
      faults.set(key, Fault.from(thrown));
    }
  }
  return { rules, numbers, faults };
}

function nameOf({ kind, name }: ParsedKey): string {
  return `${kind}/${name}`;
}

function ownerName({ kind, policyName, componentId }: LimiterNumbers | LimiterRule): string {
  return `${kind}/${policyName}/${componentId}`;
}

function isLimiter(rule: Rule): rule is LimiterRule {
  return rule.kind !== "classifier" && rule.kind !== "flux_meter";
}

function kindOf(rule: Rule): Kind {
  return rule.kind === "classifier" ? "classifiers" : rule.kind;
}

function nameIn(group: string, rule: Rule): string {
  if (rule.kind === "classifier") return classifierKey(group, rule.policyName, rule.index);
  if (rule.kind === "flux_meter") return fluxMeterKey(group, rule.name);
  return componentKey(group, rule.policyName, rule.componentId);
}

function ruleBytes(rule: Rule): Uint8Array {
  if (rule.kind === "classifier") return classifierBytes(rule);
  return rule.kind === "flux_meter" ? fluxMeterBytes(rule) : limiterBytes(rule);
}

function readRule(kind: Kind, value: Uint8Array): Rule {
  if (kind === "classifiers") return classifierRule(value);
  return kind === "flux_meter" ? fluxMeterRule(value) : limiterRule(kind, value);
}

function readNumbers(kind: Kind, value: Uint8Array): LimiterNumbers {
  if (kind !== "classifiers" && kind !== "flux_meter") return limiterNumbers(kind, value);
  throw new Fault("INVALID_ARGUMENT", `${kind}: has no decisions`);
}
