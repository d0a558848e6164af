// The store entries of one policy: its version and its decisions. Their keys are remembered, so that a new version deletes the
// keys that it no longer has.

import type { CircuitDecision } from "#circuit/decision.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import { DYNAMIC_CONFIGS } from "#sync/keys.ts";
import { decisionEntries } from "#sync/publish/decision.ts";
import { configEntries, policyEntry } from "#sync/publish/policy.ts";
import { POLICY_ORIGINS, type PolicyVersion } from "../policy-source.ts";
import type { StoreWrites } from "./outbox.ts";

/** The policy itself, the configurations for agents and the dynamic configuration. */
export function versionEntries({ policy, origin, dynamicConfig }: PolicyVersion): StoreWrites {
  return new Map<string, Uint8Array | undefined>([
    policyEntry(policy, POLICY_ORIGINS[origin].wrapperSource),
    ...configEntries(policy),
    ...dynamicConfigEntry(policy.name, dynamicConfig),
  ]);
}

/** The dynamic configuration in force; undefined deletes the key. */
export function dynamicConfigEntry(name: string, config: JsonObject | undefined): StoreWrites {
  const bytes = config === undefined ? undefined : new TextEncoder().encode(JSON.stringify(config));
  return new Map([[DYNAMIC_CONFIGS + name, bytes]]);
}

/** The entries of decisions. Calls `failed` for each decision that cannot be encoded. */
export function entriesOf(
  policy: CompiledPolicy,
  decisions: Iterable<CircuitDecision>,
  failed: (decision: CircuitDecision, thrown: unknown) => void,
): StoreWrites {
  const entries = new Map<string, Uint8Array | undefined>();
  for (const decision of decisions) {
    try {
      for (const [key, value] of decisionEntries(policy, decision)) entries.set(key, value);
    } catch (thrown) {
      failed(decision, thrown);
    }
  }
  return entries;
}

/** The store keys of a policy, including those that are about to be written. */
export class PublishedKeys {
  #keys = new Set<string>();

  /** Replaces all entries of the policy: adds the deletes of all other keys. */
  replace(entries: StoreWrites): StoreWrites {
    const before = this.#keys;
    this.#keys = new Set(entries.keys());
    const changes = new Map(entries);
    for (const key of before) if (!this.#keys.has(key)) changes.set(key, undefined);
    return changes;
  }

  /** Changes a part of the policy's entries. */
  update(entries: StoreWrites): StoreWrites {
    for (const key of entries.keys()) this.#keys.add(key);
    return entries;
  }

  clear(): StoreWrites {
    return this.replace(new Map());
  }
}
