// The store's key layout, shared by both halves. It is public: other implementations of a controller or an
// agent read and write the same keys.

/** Keys that the API writes; everything else below `PUBLISHED` is written by the leading controller. */
export const API = "/config/api/";

/** The prefixes of all keys that a controller publishes. */
export const PUBLISHED: readonly string[] = ["/config/", "/decisions/"];

/**
 * Confirms that the store has everything that the leading controller publishes. The controller writes a new value once its
 * policies run, and after each removal. Agents follow the removal of their rules after this confirmation.
 */
export const COMPLETE = "/config/complete";

/** The election of the controller that runs policies. */
export const CONTROLLER_ELECTION = "/controller-election";

/** Checkpoints of circuits, one JSON document per policy name. Only leading controllers read and write them. */
export const CHECKPOINTS = "/checkpoints/";

/** Policies as they run, one wrapper message per policy name. */
export const POLICIES = "/config/policies/";

/** Dynamic configurations in force, one JSON object per policy name. */
export const DYNAMIC_CONFIGS = "/config/dynamic-config-policies/";

/** Policies as the API received them, one JSON document per policy name. */
export const API_POLICIES = "/config/api/policies/";

/** Dynamic configurations as the API received them, one JSON object per policy name. */
export const API_DYNAMIC_CONFIGS = "/config/api/dynamic-config-policies/";

/** Replica counts that agents report about the objects they scale. */
export const REPLICAS = "/status/pod_scaler/";

/** The prefix of the keys that the leading controller publishes about its Kubernetes cluster. */
export const DISCOVERY = "/discovery/";

/** The pods and Services at IP addresses, one key for each address. */
export const ENTITIES = "/discovery/addresses/";

/** Confirms that the store has everything that the leading controller discovered. Each confirmation has a new value. */
export const DISCOVERED = "/discovery/complete";

/** The prefix of the key of an address in canonical form. The final slash keeps out longer addresses. */
export function entityPrefix(address: string): string {
  return `${ENTITIES}${address}/`;
}

export function entityKey(address: string): string {
  return `${entityPrefix(address)}entity`;
}

/** The records of all agents, by group and advertised address. */
export const PEERS = "/peers/aperture-agent/";

/** The record of one agent. */
export function peerKey(group: string, address: string): string {
  return `${PEERS}${group}/${address}`;
}

/** Undefined when the key is not that of an agent's record. The name of a group may contain `/`; an address cannot. */
export function parsePeerKey(
  key: string,
): { readonly group: string; readonly address: string } | undefined {
  const at = key.lastIndexOf("/");
  if (!key.startsWith(PEERS) || at < PEERS.length || at === key.length - 1) return undefined;
  return { group: key.slice(PEERS.length, at), address: key.slice(at + 1) };
}

/** Requests of controllers, by the id or the host name of the agent that they are for. */
export function requestKey(agent: string, call: string): string {
  return `/rpc/request/${agent}/${call}`;
}

/** The answers of all agents. */
export const RESPONSES = "/rpc/response/";

export function responseKey(agent: string, call: string): string {
  return `${RESPONSES}${agent}/${call}`;
}

/** Reports of agents on the policies that they apply, by group and id of the agent. */
export const APPLIED = "/status/policies/";

export function appliedKey(group: string, id: string): string {
  return `${APPLIED}${group}/${id}`;
}

/** Configuration of one component for the agents of one group. */
export function configKey(kind: string, name: string): string {
  return `/config/${kind}/${name}`;
}

/** Latest decision for one component and the agents of one group. */
export function decisionKey(kind: string, name: string): string {
  return `/decisions/${kind}/${name}`;
}

/** The prefix of every name for the agents of a group. Names of a group `group-…` start with it too. */
export function groupPrefix(group: string): string {
  return `agent_group-${group}-`;
}

export function componentName(group: string, policyName: string, componentId: string): string {
  return `${groupPrefix(group)}policy-${policyName}-component_id-${componentId}`;
}

export function classifierName(group: string, policyName: string, index: number | string): string {
  return `${groupPrefix(group)}policy-${policyName}-classifier_index-${index}`;
}

/** Flux meter names are unique across policies, so the policy is not part of the key. */
export function fluxMeterName(group: string, name: string): string {
  return `${groupPrefix(group)}flux_meter-${name}`;
}

export function infraMeterName(group: string, policyName: string, name: string): string {
  return `${groupPrefix(group)}policy-${policyName}-infra_meter-${name}`;
}

/** True if a name is for the agents of this group, and not for those of a group `group-…`. */
export function isNameInGroup(name: string, group: string): boolean {
  const prefix = groupPrefix(group);
  return name.startsWith(`${prefix}policy-`) || name.startsWith(`${prefix}flux_meter-`);
}

/** The parts of an agent's key. */
export interface AgentKey {
  readonly tree: "config" | "decisions";
  readonly kind: string;
  /** The rest of the key: names the agent group and the component. Names of flux meters may hold `/`. */
  readonly name: string;
}

const AGENT_KEY = /^\/(config|decisions)\/([a-z_]+)\/(agent_group-.+)$/s;

/** Undefined when the key is not addressed to agents. */
export function parseAgentKey(key: string): AgentKey | undefined {
  const [, tree, kind, name] = AGENT_KEY.exec(key) ?? [];
  if (kind === undefined || name === undefined) return undefined;
  return { tree: tree === "config" ? "config" : "decisions", kind, name };
}

/** The key of a rule, and of its numbers, in a rulebook: a key of either tree without the name of the tree. */
export function ruleKey(key: string): string {
  return key.replace(/^\/(?:config|decisions)\//, "");
}

/**
 * The secret with which the agents of a group authenticate each other. The first agent creates it. Anyone who can read it
 * can impersonate an agent, and nobody but the agents needs it.
 */
export function groupSecretKey(group: string): string {
  return `/secrets/aperture-agent/${group}`;
}
