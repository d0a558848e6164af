// Service discovery of an agent: it finds the pods and Services at the addresses of requests. They come from the API server of
// the cluster or, for agents without access to it, from the store, where the leading controller publishes them.

import { type EntityDirectory, NO_ENTITIES } from "#api/fleet/entities.ts";
import { NO_SERVICES, type ServiceLookup } from "#api/service-lookup.ts";
import type { AgentConfig } from "#config/tree.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import { discoverInCluster } from "./cluster.ts";
import { followPublished } from "./published.ts";

export interface Discovered {
  readonly lookup: ServiceLookup;
  readonly entities: EntityDirectory;
}

const NOTHING: Discovered = { lookup: NO_SERVICES, entities: NO_ENTITIES };
/** Kubernetes sets this variable in every container. */
const IN_CLUSTER = "KUBERNETES_SERVICE_HOST";

/** Resolves when the services of the cluster, or those of this pod, are known, or when that takes too long. */
export async function discover(process: SluiceProcess, config: AgentConfig): Promise<Discovered> {
  const { enabled, source } = config.service_discovery.kubernetes;
  if (!enabled) return NOTHING;
  if (source === "controller") return followPublished(process);
  if (process.env[IN_CLUSTER]) return (await discoverInCluster(process, config)) ?? NOTHING;
  if (process.env["KUBECONFIG"]) {
    const message = `KUBECONFIG is set, but pods and services are not followed: ${IN_CLUSTER} is not, so this agent runs outside a cluster`;
    process.log.child("discovery").info({}, message);
  }
  return NOTHING;
}
