// Service discovery through the API server of the cluster in which an agent runs. The Kubernetes client is loaded only here.

import { within } from "#base/async/wait.ts";
import { Fault } from "#base/fault.ts";
import type { AgentConfig } from "#config/tree.ts";
import type { SluiceProcess } from "#daemon/process.ts";

/** Time that a start waits for the pods and services of the cluster, ms. Until they are known, no check has services. */
const LIST_MS = 2_000;

/**
 * Follows the cluster. Resolves when its pods and services are known, or when the API server takes too long; with undefined
 * where the API server cannot be used.
 */
export async function discoverInCluster(process: SluiceProcess, config: AgentConfig) {
  const { clock, chance, env, health, metrics, scope, settings } = process;
  const log = process.log.child("discovery");
  const status = health.dependency("discovery");
  const followed = (fault: Fault | undefined) => {
    if (fault === undefined) status.ok("the pods and services of the cluster are followed");
    else {
      status.degraded(fault.message);
      // Checks are answered with the services that were known last.
      health.doWithout("discovery");
    }
  };
  const { openDiscovery } = await import("#kube/discovery/discovery.ts");
  const { http_client } = config.kubernetes_client;
  const { proxy } = settings.client;
  const around = { env, clock, chance, log, followed };
  try {
    const discovery = await openDiscovery({ settings: http_client, proxy, ...around });
    scope.add("discovery", () => discovery.close());
    const { entities } = discovery;
    metrics.add({
      collect(to) {
        to.number("sluice_discovery_addresses", [], entities.size);
        to.number("sluice_discovery_addresses_left_out", [], entities.leftOut);
      },
    });
    await within(LIST_MS, clock, discovery.listed);
    return { lookup: entities, entities };
  } catch (thrown) {
    // Pods without a service account run without discovery.
    const fault = Fault.from(thrown);
    log.warn({}, `pods and services are not followed: ${fault.message}`);
    followed(fault);
    return undefined;
  }
}
