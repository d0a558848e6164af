// The controller's work in a Kubernetes cluster: it runs policy resources and scales objects while it
// leads; it judges policies for the API server, and lists what can be scaled, whether it leads or not.

import type { ScalableObjects } from "#api/fleet/scale-points.ts";
import { Fault } from "#base/fault.ts";
import type { Route } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import { listed } from "#base/text/listed.ts";
import type { ControllerConfig } from "#config/tree.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import type { KubeClient } from "#kube/api/client.ts";
import { EventRecorder, type RecordEvent } from "#kube/api/events.ts";
import { Attacher, type AttacherOptions } from "#kube/gateways/attacher.ts";
import { controlPoints, MAX_POINTS } from "#kube/scale/control-points.ts";
import { needsAttachment, needsAutoScale, unmetNeeds } from "#policy/unmet-needs.ts";
import { Compiler } from "./compiling/compiler.ts";
import type { ApiServer, ClusterPart } from "./kubernetes/api-server.ts";
import { policyWebhook } from "./resources/policy-webhook.ts";
import {
  type CompileText,
  ResourceSource,
  type ResourceSourceOptions,
} from "./resources/resource-source.ts";
import { Scaling, type ScalingOptions } from "./scaling/scaling.ts";

export interface Cluster {
  /** The policies of resources, as a source for a controller that leads; absent where none are looked for. */
  readonly policies?: (
    own: Omit<
      ResourceSourceOptions,
      "client" | "namespaces" | "quota" | "followed" | "record" | "clock" | "chance" | "log"
    >,
  ) => ResourceSource;
  /** The route that the API server calls before it stores a policy; absent where policies are no resources. */
  readonly webhook?: Route;
  /** Scales objects for a controller that leads; absent where it scales nothing. */
  readonly scaling?: (own: Pick<ScalingOptions, "store" | "warned" | "failed">) => Scaling;
  /** Attaches policies to gateways and routes for a controller that leads; absent where none is attached. */
  readonly attaching?: (own: Pick<AttacherOptions, "changed">) => Attacher;
  /** The objects that could be scaled; absent where nothing is scaled. */
  readonly scalable?: ScalableObjects;
}

/**
 * Ends with the process. Nothing is called yet.
 * @throws Fault when it is unknown where the API server is, or its certificates cannot be used
 */
export async function openCluster(
  process: SluiceProcess,
  settings: ControllerConfig,
  apiServer: ApiServer,
): Promise<Cluster> {
  const client = await apiServer.client().catch((thrown: unknown) => {
    const { code, message } = Fault.from(thrown);
    throw new Fault(code, `${askingKeys(settings).join(" and ")}: ${message}`);
  });
  const { clock, log, scope } = process;
  const events = new EventRecorder({ client, clock, log: log.child("kubernetes") });
  scope.add("events of Kubernetes objects", () => events.close());
  const through = { client, apiServer, record: events.record };
  return {
    ...(settings.policies.cr_watcher.enabled ? policyParts(process, settings, through) : {}),
    ...(settings.auto_scale.kubernetes.enabled ? scalingParts(process, through) : {}),
    ...(settings.gateway_api.enabled ? attachingParts(process, settings, through) : {}),
  };
}

interface Through {
  readonly client: KubeClient;
  readonly apiServer: ApiServer;
  readonly record: RecordEvent;
}

/** The keys that ask for an API server. */
function askingKeys({ auto_scale, policies }: ControllerConfig): readonly string[] {
  return [
    ...(auto_scale.kubernetes.enabled ? ["auto_scale.kubernetes.enabled"] : []),
    ...(policies.cr_watcher.enabled ? ["policies.cr_watcher.enabled"] : []),
  ];
}

const STANDING_BY = "policy resources are followed by the controller that leads";

function policyParts(
  { clock, chance, log: processLog, health, scope }: SluiceProcess,
  settings: ControllerConfig,
  { client, apiServer, record }: Through,
): Pick<Cluster, "policies" | "webhook"> {
  const log = processLog.child("kubernetes");
  const { namespace } = client;
  const { namespaces, namespace_quota: quota } = settings.policies;
  const dependency = health.dependency("kubernetes");
  dependency.ok(STANDING_BY);
  const followed = followedNamespaces(apiServer, dependency, log);
  const dialect = settings.prometheus.address === "" ? "own" : "prometheus";
  const defaultGroup = settings.policies.default_agent_group;
  const compiler = new Compiler({ settings: { queries: dialect, defaultGroup }, clock });
  scope.add("compiler of the webhook", () => compiler.close());
  const compile: CompileText = async (source, defaultName, text, confined) => {
    const [set] = await compiler.compile([{ source, defaultName, text, namespace: confined }]);
    if (set === undefined) return { policies: [], findings: [], warnings: [] };
    const unmet = unmetNeeds(
      set.policies.map((policy) => ({
        ...policy,
        needs: policy.needs.filter(({ kind }) => kind === "scaled_object" || kind === "target"),
      })),
      {
        scaling: settings.auto_scale.kubernetes.enabled ? undefined : needsAutoScale,
        attaching: settings.gateway_api.enabled ? undefined : needsAttachment,
      },
    );
    const more = [...unmet.values()].flat().map((warning) => ({ ...warning, source }));
    return { ...set, warnings: [...set.warnings, ...more] };
  };
  return {
    policies: (own) => {
      const watched = { client, namespaces, quota, followed, record };
      return new ResourceSource({ ...own, ...watched, clock, chance, log });
    },
    webhook: policyWebhook({ compile, namespace, namespaces, clock }),
  };
}

/** Tells log and health how it stands with the resources of each namespace. */
function followedNamespaces(
  apiServer: ApiServer,
  dependency: { ok(message: string): void; degraded(message: string): void },
  log: Log,
): ResourceSourceOptions["followed"] {
  const parts = new Map<string, ClusterPart>();
  const following = new Set<string>();
  const faults = new Map<string, Fault>();
  const partOf = (namespace: string): ClusterPart => {
    const which = `policy resources of the namespace ${namespace} are`;
    const part = parts.get(namespace) ?? {
      fails: `${which} not followed, and what is known stays`,
      works: `${which} followed again`,
    };
    parts.set(namespace, part);
    return part;
  };
  return (namespace, { state, ...now }) => {
    const part = partOf(namespace);
    faults.delete(namespace);
    if (state === "starting") {
      apiServer.forget(part);
      following.delete(namespace);
    } else {
      const fault = "fault" in now ? now.fault : undefined;
      if (fault !== undefined) faults.set(namespace, fault);
      else if (!following.has(namespace)) log.info({ namespace }, "follows policy resources");
      if (fault === undefined) following.add(namespace);
      apiServer.report(part, fault);
    }
    const [fault] = faults.values();
    const names = listed([...following], (name) => name);
    const of = following.size === 1 ? "the namespace" : "the namespaces";
    if (fault !== undefined) dependency.degraded(fault.message);
    else if (following.size === 0) dependency.ok(STANDING_BY);
    else dependency.ok(`policy resources of ${of} ${names} are followed`);
  };
}

const ATTACHING: ClusterPart = {
  fails: "policies are attached only in part",
  works: "policies are attached again",
};
const NOT_ATTACHING = "policies are attached by the controller that leads";

function attachingParts(
  { clock, chance, log: processLog, health }: SluiceProcess,
  { gateway_api: { agents, fail_open: failOpen } }: ControllerConfig,
  { client, apiServer }: Through,
): Pick<Cluster, "attaching"> {
  const log = processLog.child("kubernetes");
  const dependency = health.dependency("gateway_api");
  dependency.ok(NOT_ATTACHING);
  return {
    attaching: (own) => {
      const followed = (fault: Fault | undefined) => {
        if (fault === undefined) dependency.ok("policies with targets are attached");
        else dependency.degraded(fault.message);
        apiServer.report(ATTACHING, fault);
      };
      const closed = () => {
        dependency.ok(NOT_ATTACHING);
        apiServer.forget(ATTACHING);
      };
      const settings = { agents, failOpen };
      return new Attacher({ ...own, client, settings, followed, closed, clock, chance, log });
    },
  };
}

const SCALING: ClusterPart = {
  fails: "scaling works only in part",
  works: "scaling works again",
};
const NOT_LEADING = "objects are scaled by the controller that leads";

function scalingParts(
  { clock, chance, log: processLog, health }: SluiceProcess,
  { client, apiServer, record }: Through,
): Pick<Cluster, "scaling" | "scalable"> {
  const log = processLog.child("scaling");
  const dependency = health.dependency("auto_scale");
  dependency.ok(NOT_LEADING);
  return {
    scaling: (own) => {
      const followed: ScalingOptions["followed"] = (fault) => {
        if (fault === undefined) dependency.ok("the objects that policies name are scaled");
        else dependency.degraded(fault.message);
        apiServer.report(SCALING, fault);
      };
      const closed = () => {
        dependency.ok(NOT_LEADING);
        apiServer.forget(SCALING);
      };
      return new Scaling({ ...own, client, followed, closed, record, clock, chance, log });
    },
    scalable: async (signal) => {
      const { points, faults, isCut } = await controlPoints(client, signal);
      for (const { message } of faults)
        log.warn({}, `objects of a kind are not listed as auto-scale control points: ${message}`);
      if (isCut) log.warn({}, `only the first ${MAX_POINTS} auto-scale control points are listed`);
      return { points, errors: faults.length };
    },
  };
}
