// The keys under which controllers leave rules and numbers for agents.

export const LIMITER_KINDS = ["rate_limiter", "concurrency_limiter", "sampler"] as const;
export type Kind = (typeof LIMITER_KINDS)[number] | "classifiers" | "flux_meter";

export const KINDS: readonly Kind[] = [...LIMITER_KINDS, "classifiers", "flux_meter"];

export function componentKey(group: string, policyName: string, componentId: string): string {
  return `agent_group-${group}-policy-${policyName}-component_id-${componentId}`;
}

export function classifierKey(group: string, policyName: string, index: number | string): string {
  return `agent_group-${group}-policy-${policyName}-classifier_index-${index}`;
}

export function fluxMeterKey(group: string, name: string): string {
  return `agent_group-${group}-flux_meter-${name}`;
}

export function infraMeterKey(group: string, policyName: string, name: string): string {
  return `agent_group-${group}-policy-${policyName}-infra_meter-${name}`;
}

export interface ParsedKey {
  readonly tree: "config" | "decisions";
  readonly kind: Kind;
  /** The last segment, which names the group and the component. */
  readonly name: string;
}

const KEY = /^\/(config|decisions)\/([a-z_]+)\/(agent_group-[^/]+)$/;

/** The parts of an agent's key; undefined for keys that are not for agents of this version. */
export function parseKey(key: string): ParsedKey | undefined {
  const [, tree, kind, name] = KEY.exec(key) ?? [];
  const known = KINDS.find((one) => one === kind);
  if (known === undefined || name === undefined) return undefined;
  return { tree: tree === "config" ? "config" : "decisions", kind: known, name };
}
