// Starts a controller, as a part of a process or as a process of its own that shares a store with agents.

import { controllerGrpcService, controllerRoutes } from "#api/fleet/controller.ts";
import { entityGrpcService, entityRoutes } from "#api/fleet/entities.ts";
import { scalePointGrpcService, scalePointRoutes } from "#api/fleet/scale-points.ts";
import { type PolicyOperations, policyGrpcService, policyRoutes } from "#api/policies.ts";
import type { Stop } from "#base/scope.ts";
import type { Loaded } from "#config/load.ts";
import type { ControllerConfig } from "#config/tree.ts";
import { openPorts, type Ports } from "#daemon/ports.ts";
import {
  type ProcessOptions,
  type ProcessPart,
  type SluiceProcess,
  startProcess,
} from "#daemon/process.ts";
import { ApiServer } from "#kube/api/api-server.ts";
import { PolicyMetrics } from "#telemetry/metrics/policies.ts";
import { type Fleet, followAgents } from "./agents/fleet.ts";
import { AgentOperations } from "./agents/operations.ts";
import type { ControllerOptions } from "./assembly.ts";
import type { Cluster } from "./cluster.ts";
import { type Controller, startController } from "./controller.ts";
import { type ClusterDiscovery, clusterDiscovery } from "./discovery/cluster-discovery.ts";
import { noLeaderKnown, policiesOf, standingBy, storeIsAway } from "./leadership/standby.ts";
import { Candidate } from "./leadership.ts";

interface ControllerProcessOptions extends Omit<ProcessOptions, "configs"> {
  readonly config: Loaded<"controller">;
  /** Directories of policy documents. */
  readonly policies: readonly string[];
}

/**
 * Opens the ports, and runs the policies whenever this process leads. Resolves when the rules are in the store, or when the
 * process stands by because another controller leads or the store is away.
 */
export async function startControllerProcess(options: ControllerProcessOptions): Promise<Ports> {
  const process = startProcess({ ...options, configs: [options.config] });
  const fleet = followAgents(process);
  const apiServer = apiServerOf(process, options.config.config);
  const cluster = await clusterOf(process, options.config.config, apiServer);
  const discovery = clusterDiscovery(process, options.config.config, apiServer);
  let leading: Controller | undefined;
  const candidate = new Candidate(process, async (store, over) => {
    const controller = await openController({ ...process, store }, options, {
      over,
      sharesStore: true,
      rollout: fleet.rollout,
      cluster,
    });
    leading = controller;
    const endDiscovery = discovery.lead(store);
    const stop: Stop = async (speed) => {
      leading = undefined;
      await Promise.all([endDiscovery(), controller.stop(speed)]);
    };
    return { stop };
  });
  process.scope.add("candidacy", () => candidate.close());
  process.onReload(() => void leading?.reload());
  const isStoreAway = () => process.health.degraded.get("store") === true;
  const policies = policiesOf(
    () => {
      // Another controller may lead by now.
      if (leading === undefined)
        throw isStoreAway() ? noLeaderKnown() : standingBy(candidate.leader);
      return leading.policies;
    },
    () => {
      if (isStoreAway()) throw storeIsAway();
    },
  );
  const ports = await openPorts(process, [
    controllerPart(process, policies, fleet, cluster, discovery),
  ]);
  const { enabled } = process.settings.server.administration;
  await candidate.stand(enabled ? (ports.administration ?? ports.main).address : undefined);
  return ports;
}

/** Starts the controller as a part of a process that does not share its store. */
export async function startControllerPart(
  process: SluiceProcess,
  settings: ControllerConfig,
  directories: readonly string[],
  { agentGroup }: { readonly agentGroup: string },
): Promise<ProcessPart> {
  const options = { config: { config: settings }, policies: directories };
  const fleet = followAgents(process);
  const cluster = await clusterOf(process, settings, apiServerOf(process, settings));
  const own = { agentGroup, rollout: fleet.rollout, cluster };
  const controller = await openController(process, options, own);
  process.scope.add("controller", controller.stop);
  process.onReload(() => void controller.reload());
  return controllerPart(process, controller.policies, fleet, cluster);
}

function apiServerOf(
  { env, clock, log, scope }: SluiceProcess,
  { kubernetes_client, client }: ControllerConfig,
): ApiServer {
  const { http_client: settings } = kubernetes_client;
  const { proxy } = client;
  const apiServer = new ApiServer({ settings, proxy, env, clock, log: log.child("kubernetes") });
  scope.add("Kubernetes client", () => apiServer.close());
  return apiServer;
}

/** Loads the parts that work with Kubernetes only where they are configured. */
async function clusterOf(
  process: SluiceProcess,
  settings: ControllerConfig,
  apiServer: ApiServer,
): Promise<Cluster | undefined> {
  const { policies, auto_scale } = settings;
  if (!policies.cr_watcher.enabled && !auto_scale.kubernetes.enabled) return undefined;
  const { openCluster } = await import("./cluster.ts");
  return openCluster(process, settings, apiServer);
}

function controllerPart(
  { health, log }: SluiceProcess,
  policies: PolicyOperations,
  { agents, service }: Fleet,
  cluster: Cluster | undefined,
  { entities }: Pick<ClusterDiscovery, "entities"> = { entities: undefined },
): ProcessPart {
  const scalable = cluster?.scalable;
  const status = health.root;
  const fleet = new AgentOperations({ agents, scalable, status, log: log.child("agents") });
  return {
    routes: [
      ...policyRoutes(policies),
      ...controllerRoutes(fleet),
      ...(entities === undefined ? [] : entityRoutes(entities)),
      ...scalePointRoutes(scalable),
      ...(cluster?.webhook === undefined ? [] : [cluster.webhook]),
    ],
    services: [
      policyGrpcService(policies),
      controllerGrpcService(fleet, policies),
      scalePointGrpcService(scalable),
      service,
      ...(entities === undefined ? [] : [entityGrpcService(entities)]),
    ],
  };
}

async function openController(
  { store, clock, chance, env, log, health, metrics, fail }: SluiceProcess,
  {
    config,
    policies,
  }: {
    readonly config: { readonly config: ControllerConfig };
    readonly policies: readonly string[];
  },
  own: Pick<ControllerOptions, "agentGroup" | "cluster" | "over" | "rollout" | "sharesStore">,
): Promise<Controller> {
  const counts = new PolicyMetrics();
  const removeCounts = metrics.add(counts);
  const forget = () => {
    removeCounts();
    health.root.remove("system", "policies");
  };
  try {
    const controller = await startController({
      settings: config.config,
      directories: policies,
      store,
      clock,
      chance,
      env,
      log: log.child("policies"),
      status: health.root,
      counts,
      meters: metrics,
      fail,
      ...own,
    });
    const stop: Stop = async (speed) => {
      await controller.stop(speed);
      forget();
    };
    return { ...controller, stop };
  } catch (thrown) {
    forget();
    throw thrown;
  }
}
