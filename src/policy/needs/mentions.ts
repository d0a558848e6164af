// The parts of a document that name something outside it.

import type { Path } from "../document/tree.ts";
import type { Message } from "../language/field.ts";
import { type Policy, policy as policyTable } from "../language/policy.ts";
import { infraMeter as infraMeterTable } from "../language/resources.ts";
import { type KubernetesObjectSelector, kubernetesObjectSelector } from "../language/scale.ts";
import {
  type LabelMatcher,
  labelMatcher,
  MATCHED_LABEL,
  type Selector,
  selector as selectorTable,
} from "../language/selector.ts";
import { type Part, visitMessages } from "../walk.ts";

export interface Mentions {
  /** The labels that limiters and schedulers are keyed by. */
  readonly labelKeys: readonly { readonly name: string; readonly path: Path }[];
  /** The labels that selectors and workloads ask for. */
  readonly matchedLabels: readonly { readonly name: string; readonly path: Path }[];
  /** The first selector of each agent group and control point. */
  readonly selectors: ReadonlyMap<string, { readonly value: Selector; readonly path: Path }>;
  /** The place where each agent group is named first, or would be if it were not the default. */
  readonly groups: ReadonlyMap<string, Path>;
  /** The selectors of Kubernetes objects. */
  readonly objects: readonly {
    readonly value: KubernetesObjectSelector;
    readonly path: Path;
    readonly dryRun: boolean;
  }[];
}

/** Labels that are made of headers. */
export const HEADER = /^http\.request\.header\./;

/** An infra meter has the group of the collector around it, and objects are scaled by controllers. */
const GROUPS_WITHOUT_AGENTS: ReadonlySet<Message> = new Set<Message>([
  infraMeterTable,
  kubernetesObjectSelector,
]);

/** Collects the mentions of a document. */
export function mentionsOf(document: Policy): Mentions {
  const labelKeys: { name: string; path: Path }[] = [];
  const matchedLabels: { name: string; path: Path }[] = [];
  const selectors = new Map<string, { value: Selector; path: Path }>();
  const groups = new Map<string, Path>();
  const objects: { value: KubernetesObjectSelector; path: Path; dryRun: boolean }[] = [];
  visitMessages(policyTable, document, [], ({ message, value, path, outer }) => {
    const members = value as Readonly<Record<string, unknown>>;
    const { agent_group: group } = members;
    if (typeof group === "string" && !GROUPS_WITHOUT_AGENTS.has(message) && !groups.has(group)) {
      groups.set(group, [...path, "agent_group"]);
    }
    if (message === kubernetesObjectSelector) {
      const object = value as KubernetesObjectSelector;
      objects.push({ value: object, path, dryRun: mayRunDry(outer) });
    }
    if (message === selectorTable) {
      const own = value as Selector;
      const key = JSON.stringify([own.agent_group, own.control_point]);
      if (!selectors.has(key)) selectors.set(key, { value: own, path });
    }
    if (message === labelMatcher) {
      for (const name of (value as LabelMatcher).match_labels.keys()) {
        matchedLabels.push({ name, path: [...path, "match_labels", name] });
      }
    }
    const labelIn = MATCHED_LABEL.get(message);
    const matched = labelIn === undefined ? undefined : members[labelIn];
    if (labelIn !== undefined && typeof matched === "string") {
      matchedLabels.push({ name: matched, path: [...path, labelIn] });
    }
    for (const [name, { labelKey }] of Object.entries(message.fields)) {
      const own = members[name];
      if (labelKey && typeof own === "string" && own !== "") {
        labelKeys.push({ name: own, path: [...path, name] });
      }
    }
  });
  return { labelKeys, matchedLabels, selectors, groups, objects };
}

/** True if a component around a message is, or may be switched to, a dry run. */
function mayRunDry(part: Part | undefined): boolean {
  if (part === undefined) return false;
  const { dry_run, dry_run_config_key } = part.value as {
    readonly dry_run?: boolean;
    readonly dry_run_config_key?: string;
  };
  return dry_run === true || (dry_run_config_key ?? "") !== "" || mayRunDry(part.outer);
}
