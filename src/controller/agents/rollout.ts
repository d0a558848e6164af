// The rollout of a policy: the agents that apply its running version, and those that do not yet.

import type { PolicyRollout } from "#api/policies.ts";
import { type FollowedApplied, versionNumber } from "#fleet/applied.ts";
import type { Member } from "#fleet/members.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import { FOLLOWED_KINDS } from "#sync/follow/kinds.ts";

/** Kinds of configuration that agents run and that carry the hash of their policy: all but flux meters. */
const KINDS: ReadonlySet<string> = new Set(
  [...FOLLOWED_KINDS.keys()].filter((kind) => kind !== "flux_meter"),
);

/** Agents that are named. */
const MAX_NAMED = 20;

/** Undefined where nothing in the policy can tell. */
export function rolloutOf(
  {
    name: policyName,
    hash: policyHash,
    configs,
  }: Pick<CompiledPolicy, "name" | "hash" | "configs">,
  agents: readonly Member[],
  applied: Pick<FollowedApplied, "of">,
): PolicyRollout | undefined {
  const groups = new Set(
    configs.flatMap(({ kind, agentGroups }) => (KINDS.has(kind) ? agentGroups : [])),
  );
  if (groups.size === 0) return undefined;
  const version = versionNumber({ policyName, policyHash });
  const concerned = agents.filter(({ group }) => groups.has(group));
  const telling = concerned.filter(({ id }) => id !== "");
  const behind = telling.filter((agent) => applied.of(agent)?.versions.has(version) !== true);
  const refused = behind.flatMap((agent) => {
    const reason = applied.of(agent)?.refusals.get(policyName);
    return reason === undefined ? [] : [`${agent.address}: ${reason}`];
  });
  return {
    agents: telling.length,
    applied: telling.length - behind.length,
    behind: behind.slice(0, MAX_NAMED).map(({ address }) => address),
    unknown: concerned.length - telling.length,
    ...(refused.length > 0 && { refused: refused.slice(0, MAX_NAMED) }),
  };
}
