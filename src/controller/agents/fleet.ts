// The agents of a controller: who they are, how it asks them, and which versions of policies they apply.

import type { PolicyRollout } from "#api/policies.ts";
import type { GrpcService } from "#base/handler.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import { FollowedApplied } from "#fleet/applied.ts";
import { Agents } from "#fleet/calls/agents.ts";
import { Connections } from "#fleet/calls/connections.ts";
import { Questions } from "#fleet/calls/questions.ts";
import { FollowedMembers } from "#fleet/members.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import { rolloutOf } from "./rollout.ts";

export interface Fleet {
  readonly agents: Agents;
  /** The rollout of a policy; undefined where nothing in it concerns agents. */
  readonly rollout: (policy: CompiledPolicy) => PolicyRollout | undefined;
  /** The service that agents connect to. */
  readonly service: GrpcService;
}

/** Ends with the process. */
export function knowAgents({
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
