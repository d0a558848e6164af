// Service discovery of an agent: through the API server of the cluster that it runs in, where it may read from it. What
// speaks to Kubernetes is loaded only then; sidecars have discovery switched off.

import { type EntityDirectory, NO_ENTITIES } from "#api/fleet/entities.ts";
import { NO_SERVICES, type ServiceLookup } from "#api/service-lookup.ts";
import { within } from "#base/async/wait.ts";
import { Fault } from "#base/fault.ts";
import type { AgentConfig } from "#config/tree.ts";
import type { SluiceProcess } from "#process/process.ts";

export interface Discovered {
  readonly lookup: ServiceLookup;
  readonly entities: EntityDirectory;
}

const NOTHING: Discovered = { lookup: NO_SERVICES, entities: NO_ENTITIES };
/** Milliseconds that a start waits for what is in the cluster. Until that is known, no check has services. */
const LIST_MS = 2_000;
/** Kubernetes puts it into every container. */
const IN_CLUSTER = "KUBERNETES_SERVICE_HOST";

/**
 * Starts service discovery. Resolves when the pods and services of the cluster are known, or when the API server takes
 * too long.
 */
export async function discover(process: SluiceProcess, config: AgentConfig): Promise<Discovered> {
  const { clock, chance, env, health, metrics, scope, settings } = process;
  const { enabled } = config.service_discovery.kubernetes;
  if (!enabled || !env[IN_CLUSTER]) return NOTHING;
  const log = process.log.child("discovery");
  const status = health.dependency("discovery");
  let wasAway = false;
  const followed = (fault: Fault | undefined) => {
    if (fault === undefined) {
      status.ok("the pods and services of the cluster are followed");
      const line = "pods and services are followed";
      log.info({}, wasAway ? `${line} again` : line);
    } else {
      status.degraded(fault.message);
      // Checks are answered all the same: by what was known last, and at first without services.
      health.doWithout("discovery");
      const line = "pods and services are not followed, and what is known stays";
      log.warn({}, `${line}: ${fault.message}`);
    }
    wasAway = fault !== undefined;
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
    // Pods without a service account run as before.
    followed(Fault.from(thrown));
    return NOTHING;
  }
}
