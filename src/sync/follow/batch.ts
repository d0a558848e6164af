// A batch of stored changes as rules and numbers for the agents of one group.

import { Fault } from "#base/fault.ts";
import type { RuleChanges } from "#flow/rulebook.ts";
import type { LimiterNumbers, Rule } from "#flow/rules.ts";
import type { StoreUpdate } from "#store/store.ts";
import {
  COMPLETE,
  configKey,
  decisionKey,
  groupPrefix,
  isNameInGroup,
  parseAgentKey,
  ruleKey,
} from "../keys.ts";
import { FOLLOWED_KINDS } from "./kinds.ts";

/**
 * Key prefixes that an agent of a group watches. The prefixes of group `a` also match keys of a group `a-b`;
 * `readBatch` tells them apart.
 */
export function agentPrefixes(group: string): readonly string[] {
  const name = groupPrefix(group);
  const ofKinds = [...FOLLOWED_KINDS].flatMap(([kind, { readNumbers }]) =>
    readNumbers === undefined
      ? [configKey(kind, name)]
      : [configKey(kind, name), decisionKey(kind, name)],
  );
  return [...ofKinds, COMPLETE];
}

/** An update of the store, decoded. Keys are `<kind>/<last segment of the store key>`. */
export interface DecodedUpdate extends RuleChanges {
  /** Parts of rules that this version of the agent does not run, by store key. */
  readonly notRun: ReadonlyMap<string, string>;
  /** Values that could not be read, by store key. The previous value of such a key stays in force. */
  readonly faults: ReadonlyMap<string, Fault>;
}

/** Reads what a batch changes for the agents of one group. Kinds that agents do not run are skipped. */
export function readBatch(group: string, batch: StoreUpdate): DecodedUpdate {
  const rules = new Map<string, Rule | undefined>();
  const numbers = new Map<string, LimiterNumbers | undefined>();
  const notRun = new Map<string, string>();
  const faults = new Map<string, Fault>();
  for (const key of batch.deletes) {
    const parsed = parseAgentKey(key);
    if (parsed === undefined || !FOLLOWED_KINDS.has(parsed.kind)) continue;
    if (parsed.tree === "config") rules.set(ruleKey(key), undefined);
    else numbers.set(ruleKey(key), undefined);
  }
  for (const { key, value } of batch.puts) {
    const parsed = parseAgentKey(key);
    const kind = parsed && FOLLOWED_KINDS.get(parsed.kind);
    if (parsed === undefined || kind === undefined) continue;
    try {
      if (parsed.tree === "config") {
        const { name, rule, without } = kind.readRule(value, group);
        if (name !== parsed.name) continue;
        rules.set(ruleKey(key), rule);
        if (without !== undefined) notRun.set(key, without);
      } else {
        if (kind.readNumbers === undefined) {
          throw new Fault("INVALID_ARGUMENT", `${parsed.kind}: this kind has no decisions`);
        }
        const { name, numbers: read } = kind.readNumbers(value, group);
        if (name === parsed.name) numbers.set(ruleKey(key), read);
      }
    } catch (thrown) {
      // Such a value does not name its group, but its key does.
      if (isNameInGroup(parsed.name, group)) faults.set(key, Fault.from(thrown));
    }
  }
  return { rules, numbers, notRun, faults };
}
