// A controller's answers about its agents: it asks them and merges their answers.

import { type FleetOperations, notBuilt } from "#api/fleet/controller.ts";
import { entityJson } from "#api/fleet/entities.ts";
import { type ScalableObjects, scalePointJson } from "#api/fleet/scale-points.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { listed } from "#base/text/listed.ts";
import type { Agents } from "#fleet/calls/agents.ts";
import type { Request } from "#fleet/calls/message.ts";
import type { Member } from "#fleet/members.ts";
import type { GroupView, StatusNode } from "#runtime/status/status.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";

type Json = Readonly<Record<string, unknown>>;

interface AgentOperationsOptions {
  readonly agents: Agents;
  /** Lists the objects that this controller could scale; undefined where it scales nothing. */
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

/** How many agents that did not answer one log line names. */
const MAX_NAMED = 20;

export class AgentOperations implements FleetOperations {
  readonly #options: AgentOperationsOptions;

  constructor(options: AgentOperationsOptions) {
    this.#options = options;
  }

  listAgents(group: string | undefined): Json {
    const { agents } = this.#options;
    const found = group === undefined ? agents.list : this.#inGroup(group);
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
  }

  async listFlowControlPoints(signal: AbortSignal): Promise<Json> {
    const { found, errors_count } = await this.#controlPoints(this.#options.agents.list, signal);
    return { global_flow_control_points: found, errors_count };
  }

  async listAutoScaleControlPoints(signal: AbortSignal): Promise<Json> {
    const { agents, scalable } = this.#options;
    const { replies, errors_count } = await this.#askAll(agents.list, AUTO_SCALE, signal);
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
    // The controller scales for the agents of every group, so its own points have no group.
    const own = await scalable?.(signal);
    const points = (own?.points ?? []).map((point) => ({
      auto_scale_control_point: scalePointJson(point),
      agent_group: "",
    }));
    return {
      global_auto_scale_control_points: distinct([...found, ...points]),
      errors_count: errors_count + (own?.errors ?? 0),
    };
  }

  async listServices(signal: AbortSignal): Promise<Json> {
    const asked = this.#askAll(this.#options.agents.list, SERVICES, signal);
    const { replies, errors_count } = await asked;
    const found = replies.flatMap((reply) => {
      const { services, agentGroup: agent_group } = decode(
        "aperture.cmd.v1.ListServicesAgentResponse",
        reply,
      );
      return services.map((name) => ({ name, agent_group }));
    });
    return { services: distinct(found), errors_count };
  }

  async listEntities(agentGroup: string, signal: AbortSignal): Promise<Json> {
    const message = encode("aperture.cmd.v1.ListDiscoveryEntitiesRequest", { agentGroup });
    const asked = request("ListDiscoveryEntitiesRequest", message);
    const { replies, errors_count } = await this.#askAll(this.#inGroup(agentGroup), asked, signal);
    const entities: Record<string, Json> = {};
    for (const reply of replies) {
      const found = decode("aperture.cmd.v1.ListDiscoveryEntitiesAgentResponse", reply).entities;
      for (const [key, entity] of Object.entries(found)) entities[key] = entityJson(entity);
    }
    return { entities: { entities }, errors_count };
  }

  async entity(
    { ip_address: ipAddress = "", name }: Parameters<FleetOperations["entity"]>[0],
    signal: AbortSignal,
  ): Promise<Json> {
    const { agents } = this.#options;
    const by = name === undefined ? { ipAddress } : { name };
    const message = encode("aperture.cmd.v1.ListDiscoveryEntityRequest", by);
    const asked = request("ListDiscoveryEntityRequest", message);
    const { replies } = await agents.askAll(agents.list, asked, signal);
    for (const [, reply] of replies) {
      const { entity } = decode("aperture.cmd.v1.ListDiscoveryEntityAgentResponse", reply);
      if (entity !== null) return { entity: entityJson(entity) };
    }
    throw new Fault("NOT_FOUND", "entity not found");
  }

  async preview(
    group: string,
    controlPoint: string,
    service: string,
    signal: AbortSignal,
  ): Promise<Json> {
    const members = this.#options.agents.list.filter((agent) => agent.group === group);
    const { found } = await this.#controlPoints(members, signal);
    const isKnown = found.some(
      ({ flow_control_point: point }) =>
        point.control_point === controlPoint &&
        (service === "" || service === "any" || point.service === service),
    );
    if (!isKnown) throw new Fault("FAILED_PRECONDITION", "no agent with such control point");
    throw notBuilt("previews of flows");
  }

  cache(group: string): Json {
    this.#inGroup(group);
    throw notBuilt("caches");
  }

  status(path: string): Json {
    const found = this.#options.status.find(path);
    return found === undefined ? { status: null, groups: {} } : statusJson(found.view());
  }

  #inGroup(wanted: string): readonly Member[] {
    const found = this.#options.agents.list.filter(({ group }) => group === wanted);
    if (found.length > 0) return found;
    throw new Fault("NOT_FOUND", `no agents found for agent-group ${wanted}`);
  }

  /** The replies in the order of the agents, and how many agents did not answer. */
  async #askAll(members: readonly Member[], asked: Request, signal: AbortSignal) {
    const { agents, log } = this.#options;
    const { replies, failed } = await agents.askAll(members, asked, signal);
    if (failed.length > 0) {
      const each = listed(
        failed,
        ([{ address }, { message }]) => `${address} (${message})`,
        MAX_NAMED,
      );
      log.warn({ request: asked.name }, `agents did not answer: ${each}`);
    }
    const byMember = new Map(replies);
    const inOrder = members.flatMap((member) => byMember.get(member) ?? []);
    return { replies: inOrder, errors_count: failed.length };
  }

  async #controlPoints(members: readonly Member[], signal: AbortSignal) {
    const { replies, errors_count } = await this.#askAll(members, CONTROL_POINTS, signal);
    const found = replies.flatMap((reply) => {
      const { flowControlPoints, agentGroup: agent_group } = decode(
        "aperture.cmd.v1.ListFlowControlPointsAgentResponse",
        reply,
      );
      const points = flowControlPoints?.flowControlPoints ?? [];
      return points.map(({ controlPoint: control_point, type, service }) => ({
        flow_control_point: { control_point, type, service },
        agent_group,
      }));
    });
    return { found: distinct(found), errors_count };
  }
}

const TYPES: ReadonlySet<string> = new Set(
  ["StringValue", "Struct"].map((name) => `type.googleapis.com/google.protobuf.${name}`),
);

/** Messages of other types are shown as a Struct, which every reader knows. */
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

/** Agents of one group often give equal answers. */
function distinct<T>(found: readonly T[]): readonly T[] {
  return [...new Map(found.map((each) => [JSON.stringify(each), each])).values()];
}
