// A controller's service for the command line (`aperture.cmd.v1.Controller`), and its JSON routes about agents. The methods for
// policies, their decisions and their dynamic configuration are those of the policy service.

import { Fault } from "#base/fault.ts";
import type { GrpcService, Route } from "#base/handler.ts";
import type { Json } from "../policies/request.ts";
import { type JsonOperation, POLICY_RPCS, type PolicyOperations, rpcMethods } from "../policies.ts";
import { administrationService, viewRoute } from "../reply/json-reply.ts";

const CONTROLLER_SERVICE = "aperture.cmd.v1.Controller";

/** A controller's answers about its agents. Requests and replies are JSON with the names of the messages. */
export interface FleetOperations {
  /** Undefined: agents of all groups. @throws Fault NOT_FOUND when the group has no agent */
  listAgents(group: string | undefined): Json;
  listFlowControlPoints(signal: AbortSignal): Promise<Json>;
  listAutoScaleControlPoints(signal: AbortSignal): Promise<Json>;
  listServices(signal: AbortSignal): Promise<Json>;
  /** @throws Fault NOT_FOUND when the group has no agent */
  listEntities(group: string, signal: AbortSignal): Promise<Json>;
  /** @throws Fault NOT_FOUND */
  entity(
    by: { readonly ip_address?: string; readonly name?: string },
    signal: AbortSignal,
  ): Promise<Json>;
  /** @throws Fault FAILED_PRECONDITION */
  preview(group: string, controlPoint: string, service: string, signal: AbortSignal): Promise<Json>;
  /** @throws Fault NOT_FOUND, FAILED_PRECONDITION */
  cache(group: string): Json;
  /** The status of the node at this path, as a GroupStatus. @throws Fault NOT_FOUND */
  status(path: string): Json;
}

type Operation = JsonOperation<FleetOperations>;

const DEFAULT_GROUP = "default";

function text(request: Json, name: string): string {
  const value = request[name];
  return typeof value === "string" ? value : "";
}

function groupOf(request: Json): string {
  return text(request, "agent_group") || DEFAULT_GROUP;
}

const preview: Operation = (fleet, request, call) => {
  const asked = request["request"];
  const wanted = (typeof asked === "object" && asked !== null ? asked : {}) as Json;
  const [point, service] = [text(wanted, "control_point"), text(wanted, "service")];
  return fleet.preview(groupOf(request), point, service, call.signal());
};

const cache: Operation = (fleet, request) => fleet.cache(groupOf(request));

const RPCS: Readonly<Record<string, Operation>> = {
  ListAgents: (fleet, request) => fleet.listAgents(groupOf(request)),
  ListServices: (fleet, _, call) => fleet.listServices(call.signal()),
  ListFlowControlPoints: (fleet, _, call) => fleet.listFlowControlPoints(call.signal()),
  ListAutoScaleControlPoints: (fleet, _, call) => fleet.listAutoScaleControlPoints(call.signal()),
  ListDiscoveryEntities: (fleet, request, call) =>
    fleet.listEntities(groupOf(request), call.signal()),
  ListDiscoveryEntity: (fleet, request, call) => fleet.entity(request, call.signal()),
  PreviewFlowLabels: preview,
  PreviewHTTPRequests: preview,
  CacheLookup: cache,
  CacheUpsert: cache,
  CacheDelete: cache,
  GetStatus: (fleet, request) => fleet.status(text(request, "path")),
};

/** The descriptors are large and are loaded by the first call. */
export function controllerGrpcService(
  fleet: FleetOperations,
  policies: PolicyOperations,
): GrpcService {
  const shared = [...POLICY_RPCS].map(
    ([rpc, run]) => [rpc === "GetPolicies" ? "ListPolicies" : rpc, run] as const,
  );
  return administrationService(CONTROLLER_SERVICE, {
    ...rpcMethods(CONTROLLER_SERVICE, new Map(Object.entries(RPCS)), fleet),
    ...rpcMethods(CONTROLLER_SERVICE, new Map(shared), policies),
  });
}

/** The JSON routes about agents. */
export function controllerRoutes(fleet: FleetOperations): readonly Route[] {
  return [
    viewRoute("/v1/agents", "The agents of all groups, or of `?agent_group=`.", ({ query }) =>
      fleet.listAgents(query.get("agent_group") ?? undefined),
    ),
    viewRoute(
      "/v1/agents/controlpoints",
      "The control points that agents have seen, and how many agents did not answer.",
      (_, call) => fleet.listFlowControlPoints(call.signal()),
    ),
    viewRoute(
      "/v1/agents/services",
      "The services of flows that agents have seen, and how many agents did not answer.",
      (_, call) => fleet.listServices(call.signal()),
    ),
  ];
}

/** For parts that are not built. */
export function notBuilt(what: string): Fault {
  return new Fault("FAILED_PRECONDITION", `not built yet: ${what}`);
}
