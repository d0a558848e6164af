// Opens the counters that agents share, where they are configured.

import { splitHostPort } from "#base/net/host-port.ts";
import type { AgentConfig } from "#config/tree.ts";
import type { EngineName } from "#counters/group-engines.ts";
import { type OpenCounters, openSharedCounters } from "#counters/open-counters.ts";
import { openPeerPort } from "#daemon/peer-port.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import type { OwnGroup } from "#fleet/members.ts";
import type { BucketStoreContext } from "#flow/counters/bucket-store.ts";
import { podAddress } from "./peers.ts";

export async function openCounters(
  process: SluiceProcess,
  { agent_info, counters, dist_cache, peer_discovery }: AgentConfig,
  members: OwnGroup,
  context: BucketStoreContext,
  byDefault: EngineName,
): Promise<OpenCounters> {
  const { clock, env, health, id, isChosen, metrics, scope, store } = process;
  const opened = await openSharedCounters(counters, {
    byDefault,
    clock,
    id,
    isChosen,
    members,
    store,
    context,
    distCache: dist_cache,
    group: agent_info.agent_group,
    log: process.log.child("counters"),
    advertisedHost: splitHostPort(peer_discovery.advertisement_addr).host || podAddress(env),
    // Not a part of readiness: without shared counters the agent still answers, by `on_failure`.
    status: () => health.root.at("system", "counters"),
    async listen(service, sharedKey) {
      const { ca_file, cert_file, key_file, allowed_cn } = dist_cache.tls;
      const certificates = { cert_file, key_file, client_ca_file: ca_file, allowed_cn };
      const port = await openPeerPort(process, {
        addr: dist_cache.bind_addr,
        key: "dist_cache.bind_addr",
        service,
        sharedKey,
        tls: { enabled: sharedKey === undefined, key: "dist_cache.tls", ...certificates },
      });
      return { address: port.address, close: () => port.cut() };
    },
  });
  metrics.add(opened.metrics);
  scope.add("counters", () => opened.close());
  return opened;
}
