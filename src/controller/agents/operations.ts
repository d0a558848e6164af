// A controller's answers about its agents: it asks them and puts their answers together.

import { type FleetOperations, notBuilt } from "#api/fleet/controller.ts";
import { entityJson } from "#api/fleet/entities.ts";
import { type ScalableObjects, scalePointJson } from "#api/fleet/scale-points.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { Agents } from "#fleet/calls/agents.ts";
import type { Request } from "#fleet/calls/message.ts";
import type { Member } from "#fleet/members.ts";
import type { GroupView, StatusNode } from "#runtime/status/status.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";

type Json = Readonly<Record<string, unknown>>;

interface FleetOperationsOptions {
  readonly agents: Agents;
  /** Lists what this controller could scale; undefined where it scales nothing. */
  readonly scalable?: ScalableObjects | undefined;
  /** The root of the status tree. */
  readonly status: StatusNode;
  readonly log: Log;
}

const request = (name: string, message: Uint8Array = new Uint8Array()): Request => ({
  name: `aperture.cmd.v1.${name}`,
  message,
});

const CONTROL_POINTS = request("ListFlowControlPointsRequest");
const AUTO_SCALE = request("ListAutoScaleControlPointsRequest");
const SERVICES = request("ListServicesRequest");

/** Agents that did not answer and are named in one line of the log. */
const MAX_NAMED = 20;

export function fleetOperations({
  agents,
  scalable,
  status,
  log,
}: FleetOperationsOptions): FleetOperations {
  const inGroup = (wanted: string): readonly Member[] => {
    const found = agents.list.filter(({ group }) => group === wanted);
    if (found.length > 0) return found;
    throw new Fault("NOT_FOUND", `no agents found for agent-group ${wanted}`);
  };
  /** The replies in order of the agents, and how many did not answer. */
  const askAll = async (members: readonly Member[], asked: Request, signal: AbortSignal) => {
    const { replies, failed } = await agents.askAll(members, asked, signal);
    if (failed.length > 0) {
      const named = failed
        .slice(0, MAX_NAMED)
        .map(([{ address }, { message }]) => `${address} (${message})`);
      const more = failed.length > MAX_NAMED ? ` and ${failed.length - MAX_NAMED} more` : "";
      log.warn({ request: asked.name }, `agents did not answer: ${named.join(", ")}${more}`);
    }
    const order = new Map(members.map((member, at) => [member, at]));
    const place = ([member]: readonly [Member, Uint8Array]) => order.get(member) ?? 0;
    const sorted = [...replies].sort((a, b) => place(a) - place(b));
    return { replies: sorted.map(([, reply]) => reply), errors_count: failed.length };
  };
  const controlPoints = async (members: readonly Member[], signal: AbortSignal) => {
    const { replies, errors_count } = await askAll(members, CONTROL_POINTS, signal);
    const found = replies.flatMap((reply) => {
      const { flowControlPoints, agentGroup } = decode(
        "aperture.cmd.v1.ListFlowControlPointsAgentResponse",
        reply,
      );
      return (flowControlPoints?.flowControlPoints ?? []).map(
        ({ controlPoint, type, service }) => ({
          flow_control_point: { control_point: controlPoint, type, service },
          agent_group: agentGroup,
        }),
      );
    });
    return { found: distinct(found), errors_count };
  };
  return {
    listAgents(group) {
      const found = group === undefined ? agents.list : inGroup(group);
      return {
        agents: found.map(({ hostname }) => hostname),
        details: found.map((agent) => ({
          address: agent.address,
          hostname: agent.hostname,
          agent_group: agent.group,
          id: agent.id,
          services: agent.services,
          reached_by: agents.reachedBy(agent),
        })),
      };
    },
    async listFlowControlPoints(signal) {
      const { found, errors_count } = await controlPoints(agents.list, signal);
      return { global_flow_control_points: found, errors_count };
    },
    async listAutoScaleControlPoints(signal) {
      const { replies, errors_count } = await askAll(agents.list, AUTO_SCALE, signal);
      const found = replies.flatMap((reply) => {
        const { autoScaleControlPoints, agentGroup: agent_group } = decode(
          "aperture.cmd.v1.ListAutoScaleControlPointsAgentResponse",
          reply,
        );
        const points = autoScaleControlPoints?.autoScaleKubernetesControlPoints ?? [];
        return points.map(({ apiVersion: api_version, kind, namespace, name }) => ({
          auto_scale_control_point: { api_version, kind, namespace, name },
          agent_group,
        }));
      });
      // A controller scales for the agents of every group, so its own points are in none.
      const own = await scalable?.(signal);
      const points = (own?.points ?? []).map((point) => ({
        auto_scale_control_point: scalePointJson(point),
        agent_group: "",
      }));
      return {
        global_auto_scale_control_points: distinct([...found, ...points]),
        errors_count: errors_count + (own?.errors ?? 0),
      };
    },
    async listServices(signal) {
      const { replies, errors_count } = await askAll(agents.list, SERVICES, signal);
      const found = replies.flatMap((reply) => {
        const { services, agentGroup: agent_group } = decode(
          "aperture.cmd.v1.ListServicesAgentResponse",
          reply,
        );
        return services.map((name) => ({ name, agent_group }));
      });
      return { services: distinct(found), errors_count };
    },
    async listEntities(agentGroup, signal) {
      const message = encode("aperture.cmd.v1.ListDiscoveryEntitiesRequest", { agentGroup });
      const asked = request("ListDiscoveryEntitiesRequest", message);
      const { replies, errors_count } = await askAll(inGroup(agentGroup), asked, signal);
      const entities: Record<string, Json> = {};
      for (const reply of replies) {
        const found = decode("aperture.cmd.v1.ListDiscoveryEntitiesAgentResponse", reply).entities;
        for (const [key, entity] of Object.entries(found)) entities[key] = entityJson(entity);
      }
      return { entities: { entities }, errors_count };
    },
    async entity({ ip_address: ipAddress, name }, signal) {
      const by = name === undefined ? { ipAddress: ipAddress ?? "" } : { name };
      const message = encode("aperture.cmd.v1.ListDiscoveryEntityRequest", by);
      const asked = request("ListDiscoveryEntityRequest", message);
      const { replies } = await agents.askAll(agents.list, asked, signal);
      for (const [, reply] of replies) {
        const { entity } = decode("aperture.cmd.v1.ListDiscoveryEntityAgentResponse", reply);
        if (entity !== null) return { entity: entityJson(entity) };
      }
      throw new Fault("NOT_FOUND", "entity not found");
    },
    async preview(group, controlPoint, service, signal) {
      const members = agents.list.filter((agent) => agent.group === group);
      const { found } = await controlPoints(members, signal);
      const known = found.some(
        ({ flow_control_point: point }) =>
          point.control_point === controlPoint &&
          (service === "" || service === "any" || point.service === service),
      );
      if (!known) throw new Fault("FAILED_PRECONDITION", "no agent with such control point");
      throw notBuilt("previews of flows");
    },
    cache(group) {
      inGroup(group);
      throw notBuilt("caches");
    },
    status(path) {
      const found = status.find(path);
      return found === undefined ? { status: null, groups: {} } : statusJson(found.view());
    },
  };
}

const TYPES: ReadonlySet<string> = new Set(
  ["StringValue", "Struct"].map((name) => `type.googleapis.com/google.protobuf.${name}`),
);

/** A message of any other type as a Struct: readers know that one. */
function statusJson({ status, groups }: GroupView): Json {
  const { message, ...rest } = status ?? { message: null };
  const { "@type": type = "", ...members } = message ?? {};
  const readable =
    message === null || TYPES.has(type)
      ? message
      : { "@type": "type.googleapis.com/google.protobuf.Struct", value: members };
  const below = Object.entries(groups).map(([key, group]) => [key, statusJson(group)] as const);
  return {
    status: status === null ? null : { ...rest, message: readable },
    groups: Object.fromEntries(below),
  };
}

/** Agents of one group see the same. */
function distinct<T>(found: readonly T[]): readonly T[] {
  return [...new Map(found.map((each) => [JSON.stringify(each), each])).values()];
}
