// The controller's work in a Kubernetes cluster. While it leads, it runs policy resources, attaches policies to gateways and
// scales objects. Whether it leads or not, it judges policies for the API server and lists what can be scaled.

import type { ScalableObjects } from "#api/fleet/scale-points.ts";
import { Fault } from "#base/fault.ts";
import type { Route } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import { listed } from "#base/text/listed.ts";
import type { ControllerConfig } from "#config/tree.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import type { ApiServer, ClusterPart } from "#kube/api/api-server.ts";
import type { KubeClient } from "#kube/api/client.ts";
import { EventRecorder, type RecordEvent } from "#kube/api/events.ts";
import { Attacher, type AttacherOptions } from "#kube/gateways/attacher.ts";
import { policyWebhook } from "#kube/policies/policy-webhook.ts";
import {
  type CompileText,
  ResourceSource,
  type ResourceSourceOptions,
} from "#kube/policies/resource-source.ts";
import { controlPoints, MAX_POINTS } from "#kube/scale/control-points.ts";
import { Scaling, type ScalingOptions } from "#kube/scale/scaling.ts";
import { needsAttachment, needsAutoScale, unmetNeeds } from "#policy/unmet-needs.ts";
import type { Dependency } from "#runtime/status/health.ts";
import { Compiler } from "./compiling/compiler.ts";

/** Each part is absent where the configuration does not ask for it. */
export interface Cluster {
  /** Opens the source of policies that are resources. */
  readonly policies?: (
    ports: Pick<
      ResourceSourceOptions,
      "attacher" | "compile" | "inForce" | "lastGood" | "rollout" | "warnings"
    >,
  ) => ResourceSource;
  /** The route that the API server calls before it stores a policy. */
  readonly webhook?: Route;
  /** Opens the part that scales objects. */
  readonly scaling?: (ports: Pick<ScalingOptions, "store" | "warned" | "failed">) => Scaling;
  /** Opens the part that attaches policies to gateways and routes. */
  readonly attaching?: (ports: Pick<AttacherOptions, "changed">) => Attacher;
  /** Lists the objects that could be scaled. */
  readonly scalable?: ScalableObjects;
}

/**
 * Calls nothing yet. Ends with the process.
 * @throws Fault when the address of the API server is unknown, or its certificates cannot be used
 */
export async function openCluster(
  process: SluiceProcess,
  settings: ControllerConfig,
  apiServer: ApiServer,
): Promise<Cluster> {
  const { auto_scale, gateway_api, policies } = settings;
  const client = await apiServer.client().catch((thrown: unknown) => {
    const { code, message } = Fault.from(thrown);
    const keys = [
      ...(auto_scale.kubernetes.enabled ? ["auto_scale.kubernetes.enabled"] : []),
      ...(policies.cr_watcher.enabled ? ["policies.cr_watcher.enabled"] : []),
    ];
    throw new Fault(code, `${keys.join(" and ")}: ${message}`);
  });
  const { clock, log, scope } = process;
  const events = new EventRecorder({ client, clock, log: log.child("kubernetes") });
  scope.add("events of Kubernetes objects", () => events.close());
  const connection = { client, apiServer, record: events.record };
  return {
    ...(policies.cr_watcher.enabled ? policyParts(process, settings, connection) : {}),
    ...(auto_scale.kubernetes.enabled ? scalingParts(process, connection) : {}),
    ...(gateway_api.enabled ? attachingParts(process, settings, connection) : {}),
  };
}

interface Connection {
  readonly client: KubeClient;
  readonly apiServer: ApiServer;
  readonly record: RecordEvent;
}

const STANDING_BY = "policy resources are followed by the controller that leads";

function policyParts(
  { clock, chance, log: processLog, health, scope }: SluiceProcess,
  settings: ControllerConfig,
  { client, apiServer, record }: Connection,
): Pick<Cluster, "policies" | "webhook"> {
  const log = processLog.child("kubernetes");
  const { namespace } = client;
  const {
    namespaces,
    namespace_quota: quota,
    default_agent_group: defaultGroup,
  } = settings.policies;
  const dependency = health.dependency("kubernetes");
  dependency.ok(STANDING_BY);
  const followed = followedNamespaces(apiServer, dependency, log);
  const queries = settings.prometheus.address === "" ? "own" : "prometheus";
  const compiler = new Compiler({ settings: { queries, defaultGroup }, clock });
  scope.add("compiler of the webhook", () => compiler.close());
  return {
    policies: (ports) => {
      const watched = { client, namespaces, quota, followed, record };
      return new ResourceSource({ ...ports, ...watched, clock, chance, log });
    },
    webhook: policyWebhook({
      compile: withClusterWarnings(compiler, settings),
      namespace,
      namespaces,
      clock,
    }),
  };
}

/** Also warns of scaling and attachment that this controller does not do. */
function withClusterWarnings(
  compiler: Compiler,
  { auto_scale, gateway_api }: ControllerConfig,
): CompileText {
  const checks = {
    scaling: auto_scale.kubernetes.enabled ? undefined : needsAutoScale,
    attaching: gateway_api.enabled ? undefined : needsAttachment,
  };
  return async (source, defaultName, text, namespace) => {
    const set = await compiler.compileOne(source, defaultName, text, namespace);
    const policies = set.policies.map((policy) => ({
      ...policy,
      needs: policy.needs.filter(({ kind }) => kind === "scaled_object" || kind === "target"),
    }));
    const unmet = [...unmetNeeds(policies, checks).values()].flat();
    return {
      ...set,
      warnings: [...set.warnings, ...unmet.map((warning) => ({ ...warning, source }))],
    };
  };
}

/** Reports to log and health whether the resources of each namespace are followed. */
function followedNamespaces(
  apiServer: ApiServer,
  dependency: Dependency,
  log: Log,
): ResourceSourceOptions["followed"] {
  const parts = new Map<string, ClusterPart>();
  const following = new Set<string>();
  const faults = new Map<string, Fault>();
  const partOf = (namespace: string): ClusterPart => {
    const which = `policy resources of the namespace ${namespace} are`;
    const part = parts.get(namespace) ?? {
      fails: `${which} not followed, and the known ones stay in use`,
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

/** A part with the messages of its dependency. */
interface Reported extends ClusterPart {
  /** Before it is opened and after it is closed. */
  readonly standsBy: string;
  readonly good: string;
}

/** Reports to log and health whether a part works, and that it is closed. */
function reporting(apiServer: ApiServer, dependency: Dependency, part: Reported) {
  dependency.ok(part.standsBy);
  return {
    followed: (fault: Fault | undefined) => {
      if (fault === undefined) dependency.ok(part.good);
      else dependency.degraded(fault.message);
      apiServer.report(part, fault);
    },
    closed: () => {
      dependency.ok(part.standsBy);
      apiServer.forget(part);
    },
  };
}

const ATTACHING: Reported = {
  fails: "policies are attached only in part",
  works: "policies are attached again",
  standsBy: "policies are attached by the controller that leads",
  good: "policies with targets are attached",
};

function attachingParts(
  { clock, chance, log: processLog, health }: SluiceProcess,
  { gateway_api: { agents, fail_open: failOpen } }: ControllerConfig,
  { client, apiServer }: Connection,
): Pick<Cluster, "attaching"> {
  const log = processLog.child("kubernetes");
  const reports = reporting(apiServer, health.dependency("gateway_api"), ATTACHING);
  const settings = { agents, failOpen };
  const own = { client, settings, ...reports, clock, chance, log };
  return { attaching: (ports) => new Attacher({ ...ports, ...own }) };
}

const SCALING: Reported = {
  fails: "scaling works only in part",
  works: "scaling works again",
  standsBy: "objects are scaled by the controller that leads",
  good: "the objects that policies name are scaled",
};

function scalingParts(
  { clock, chance, log: processLog, health }: SluiceProcess,
  { client, apiServer, record }: Connection,
): Pick<Cluster, "scaling" | "scalable"> {
  const log = processLog.child("scaling");
  const reports = reporting(apiServer, health.dependency("auto_scale"), SCALING);
  const own = { client, ...reports, record, clock, chance, log };
  return {
    scaling: (ports) => new Scaling({ ...ports, ...own }),
    scalable: async (signal) => {
      const { points, faults, isCut } = await controlPoints(client, signal);
      for (const { message } of faults)
        log.warn({}, `objects of a kind are not listed as auto-scale control points: ${message}`);
      if (isCut) log.warn({}, `only the first ${MAX_POINTS} auto-scale control points are listed`);
      return { points, errors: faults.length };
    },
  };
}
