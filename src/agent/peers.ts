// Joins the agents of the group: follows the records of the others, and announces this agent once its port is open.

import { hostname } from "node:os";
import { joinHostPort, splitHostPort } from "#base/net/host-port.ts";
import { listed } from "#base/text/listed.ts";
import type { AgentConfig } from "#config/tree.ts";
import type { ProcessPart, SluiceProcess } from "#daemon/process.ts";
import { JoinedGroup } from "#fleet/joined-group.ts";

/** Returns the group, and a function to call when the main port is open. */
export function joinGroup(
  { store, clock, env, log, id, health, metrics, scope }: SluiceProcess,
  { agent_info, peer_discovery }: Pick<AgentConfig, "agent_info" | "peer_discovery">,
): { readonly group: JoinedGroup; readonly opened: NonNullable<ProcessPart["opened"]> } {
  const status = health.root.at("system", "peers");
  const own = hostname();
  let notAnnounced: string | undefined = "not announced yet";
  const group = new JoinedGroup({
    store,
    group: agent_info.agent_group,
    hostname: own,
    id,
    clock,
    log: log.child("peers"),
    announced: (fault) => {
      notAnnounced = fault && `not announced yet: ${fault.message}`;
      show();
    },
  });
  const show = () => {
    const problems = [notAnnounced, leftOutText(group.leftOut)].filter(
      (each) => each !== undefined,
    );
    if (problems.length > 0) status.fail(problems.join("; "));
    else status.ok(`announced as ${group.self?.address}`);
  };
  group.onChange(show);
  scope.add("peers", () => group.close());
  metrics.add({
    collect(to) {
      to.number("sluice_peers", [], group.list.length);
      to.number("sluice_peer_records_refused_total", [], group.refused);
    },
  });
  const opened = (address: string) => {
    const { advertisement_addr } = peer_discovery;
    group.announce(advertisement_addr || advertised(podAddress(env) || own, address) || id);
    // The agent leaves before it drains, so that the others stop asking it.
    scope.add("announcement", () => group.leave());
  };
  return { group, opened };
}

function leftOutText(leftOut: ReadonlyMap<string, string>): string | undefined {
  if (leftOut.size === 0) return undefined;
  // The log names all of them.
  const named = listed([...leftOut], ([key, why]) => `${key} (${why})`);
  return `records of agents that are left out: ${named}`;
}

/** The address of the pod from the downward API of Kubernetes; "" without one. */
export function podAddress(env: SluiceProcess["env"]): string {
  return env["POD_IP"] ?? "";
}

/** The host with the port of the listener; undefined for a Unix socket, which other machines cannot reach. */
function advertised(host: string, listener: string): string | undefined {
  if (listener.startsWith("unix:")) return undefined;
  return joinHostPort(host, splitHostPort(listener).port);
}
