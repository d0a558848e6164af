// The controller's work in a Kubernetes cluster: it runs the policy resources of its namespace while it leads, and
// judges policies for the API server whether it leads or not.

import type { Route } from "#base/handler.ts";
import type { ControllerConfig } from "#config/tree.ts";
import { findAccess } from "#kube/api/access.ts";
import { KubeClient } from "#kube/api/client.ts";
import type { Following } from "#kube/api/reflector.ts";
import type { SluiceProcess } from "#process/process.ts";
import { Compiler } from "../compiling/compiler.ts";
import { policyWebhook } from "./policy-webhook.ts";
import { ResourceSource, type ResourceSourceOptions } from "./resource-source.ts";

export interface Cluster {
  /** The policies of resources, as a source for a controller that leads. */
  policies(
    own: Omit<ResourceSourceOptions, "client" | "followed" | "clock" | "chance" | "log">,
  ): ResourceSource;
  /** The route that the API server calls before it stores a policy. */
  readonly webhook: Route;
}

const STANDING_BY = "policy resources are followed by the controller that leads";

/**
 * Ends with the process. Nothing is called yet.
 * @throws Fault when it is unknown where the API server is, or its certificates cannot be used
 */
export async function openCluster(
  { clock, chance, env, log: processLog, health, scope }: SluiceProcess,
  settings: ControllerConfig,
): Promise<Cluster> {
  const log = processLog.child("kubernetes");
  const access = await findAccess(env, clock);
  const { http_client } = settings.kubernetes_client;
  const proxy = settings.client.proxy;
  const client = new KubeClient({ access, settings: http_client, proxy, env, clock, log });
  scope.add("Kubernetes client", () => client.close());
  const { namespace } = client;
  const dependency = health.dependency("kubernetes");
  dependency.ok(STANDING_BY);
  let isAway = false;
  const followed = (following: Following) => {
    if (following.state === "away") {
      const { message } = following.fault;
      dependency.degraded(message);
      log.warn({}, `policy resources are not followed, and what is known stays: ${message}`);
    } else if (following.state === "starting") dependency.ok(STANDING_BY);
    else {
      dependency.ok(`policy resources of the namespace ${namespace} are followed`);
      const line = isAway ? "policy resources are followed again" : "follows policy resources";
      log.info({ namespace }, line);
    }
    isAway = following.state === "away";
  };
  const dialect = settings.prometheus.address === "" ? "own" : "prometheus";
  const defaultGroup = settings.policies.default_agent_group;
  const compiler = new Compiler({ settings: { queries: dialect, defaultGroup }, clock });
  scope.add("compiler of the webhook", () => compiler.close());
  const compile = async (source: string, defaultName: string, text: string) => {
    const [set] = await compiler.compile([{ source, defaultName, text }]);
    return set ?? { policies: [], findings: [], warnings: [] };
  };
  return {
    policies: (own) => new ResourceSource({ ...own, client, followed, clock, chance, log }),
    webhook: policyWebhook({ compile, namespace, clock }),
  };
}
