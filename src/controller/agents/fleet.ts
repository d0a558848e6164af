// The agents of a controller: who they are, how it asks them, and which versions of policies they apply.

import type { PolicyRollout } from "#api/policies.ts";
import type { GrpcService } from "#base/handler.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import { FollowedApplied, versionNumber } from "#fleet/applied.ts";
import { Agents } from "#fleet/calls/agents.ts";
import { Connections } from "#fleet/calls/connections.ts";
import { Questions } from "#fleet/calls/questions.ts";
import { FollowedMembers, type Member } from "#fleet/members.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import { FOLLOWED_KINDS } from "#sync/follow/kinds.ts";

export interface Fleet {
  readonly agents: Agents;
  /** The rollout of a policy; undefined if nothing in it concerns agents. */
  readonly rollout: (policy: CompiledPolicy) => PolicyRollout | undefined;
  /** The service that agents connect to. */
  readonly service: GrpcService;
}

/** Ends with the process. */
export function followAgents({
  store,
  clock,
  chance,
  log: processLog,
  metrics,
  scope,
}: Pick<SluiceProcess, "store" | "clock" | "chance" | "log" | "metrics" | "scope">): Fleet {
  const log = processLog.child("agents");
  const members = new FollowedMembers({ store, clock, log });
  const applied = new FollowedApplied({ store, clock, log });
  const questions = new Questions(store, chance);
  const connections = new Connections();
  const agents = new Agents({ members, questions, connections, clock, log });
  const remove = metrics.add({
    collect(to) {
      for (const result of ["answered", "failed"] as const)
        to.number("sluice_agent_calls_total", [result], agents.counts[result]);
      for (const way of ["store", "connection"] as const) {
        const reached = agents.list.filter((agent) => agents.reachedBy(agent) === way);
        to.number("sluice_agents", [way], reached.length);
      }
    },
  });
  scope.add("agents", async () => {
    remove();
    await Promise.all([questions.close(), applied.close(), members.close()]);
  });
  const rollout = (policy: CompiledPolicy) => rolloutOf(policy, agents.list, applied);
  return { agents, rollout, service: connections.service };
}

/** Kinds of configuration that agents run and that carry the hash of their policy: all but flux meters. */
const KINDS: ReadonlySet<string> = new Set(
  [...FOLLOWED_KINDS.keys()].filter((kind) => kind !== "flux_meter"),
);

/** The most agents that are named. */
const MAX_NAMED = 20;

/** Undefined if nothing in the policy carries its hash to agents. */
function rolloutOf(
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
