// The agent as a part of a process: it follows the rules in the store, judges flows by them, and serves checks. This file
// joins the parts and starts them in order.

import { createOperationContext, defaultControlPoint } from "#api/context.ts";
import { grpcServices, httpRoutes } from "#api/endpoints.ts";
import { controlPointGrpcService, controlPointRoutes } from "#api/fleet/control-points.ts";
import { entityGrpcService, entityRoutes } from "#api/fleet/entities.ts";
import { peerGrpcService, peerRoutes } from "#api/fleet/peers.ts";
import { within } from "#base/async/wait.ts";
import { Fault } from "#base/fault.ts";
import type { AgentConfig } from "#config/tree.ts";
import type { EngineName } from "#counters/group-engines.ts";
import type { ProcessPart, SluiceProcess } from "#daemon/process.ts";
import { AppliedPolicies } from "#fleet/applied.ts";
import type { SlotRef } from "#flow/flow.ts";
import { createFlowController, type FlowController } from "#flow/flow-controller.ts";
import { inventoryOf } from "#flow/inventory.ts";
import { Rulebook } from "#flow/rulebook.ts";
import { AccessLogStreams } from "#telemetry/flows/access-log-streams.ts";
import { FinishedFlows } from "#telemetry/flows/finished-flows.ts";
import { openCounters } from "./counters.ts";
import { discover } from "./discovery/discovery.ts";
import { openFlowTelemetry } from "./flow-telemetry.ts";
import { answerControllers } from "./functions.ts";
import { forwardingRoutes } from "./gateway.ts";
import { publishMetrics } from "./metrics-publisher.ts";
import { guardOverload } from "./overload.ts";
import { joinGroup } from "./peers.ts";
import { followRules } from "./rules/rule-status.ts";
import { warnOfDefaultControlPoint } from "./warnings/control-point.ts";
import { tellUnknownMembers } from "./warnings/unknown-members.ts";

export interface Agent extends ProcessPart {
  /** The rules in force. */
  readonly book: Rulebook;
}

/** Time that a start waits for the rules, ms. After that, the ports open without them. */
const RULES_MS = 2_000;

/**
 * Starts an agent. When it returns, the rules of the store are in force. Where the store is away, the agent judges by the
 * snapshot in the file `snapshotPath`, or judges no flow until the store answers. `engine` counts where `counters.engine`
 * names none.
 */
export async function startAgent(
  process: SluiceProcess,
  config: AgentConfig,
  {
    snapshotPath = "",
    engine = "local",
  }: { readonly snapshotPath?: string; readonly engine?: EngineName } = {},
): Promise<Agent> {
  const { clock, chance, scope } = process;
  const telemetry = openFlowTelemetry(process, config);
  const { observer, flowMetrics } = telemetry;
  const { group, opened: announce } = joinGroup(process, config);
  const controlPoints = () => flowMetrics.seen;
  const answer = answerControllers(process, config, group, controlPoints);
  const { max_keys: maxKeys, default_control_point: fallbackName } = config.flow_control;
  const shared = await openCounters(process, config, group, { clock, observer, maxKeys }, engine);
  const context = { clock, chance, observer, maxKeys, sharedCounters: shared.counters };
  const { agent_group: agentGroup } = config.agent_info;
  const book = new Rulebook(agentGroup, context);
  const applied = new AppliedPolicies(agentGroup, clock, (value) => group.publish(value));
  scope.add("applied policies", applied.close);
  const controlPointsChanged = warnOfDefaultControlPoint(process, fallbackName);
  const rulesKnown = followRules(process, config, book, snapshotPath, (rejected) => {
    const inventory = inventoryOf(book);
    controlPointsChanged(inventory.controlPoints);
    telemetry.keep(inventory);
    applied.changed(book.rules, rejected);
  });
  publishMetrics(process, config);
  const guard = guardOverload(process, config.flow_control.overload);
  const controller = refuseUntil(rulesKnown, createFlowController(book, context, guard));
  telemetry.lostEnds.watch(controller);
  // Rejects when the store refuses to be followed.
  await within(RULES_MS, clock, rulesKnown);
  const { finishedFlows, accessLogStreams } = openFlowEnds(process, telemetry, controller);
  const { lookup, entities } = await discover(process, config);
  const checkContext = createOperationContext(controller, lookup, chance, {
    bounds: config.server.http,
    baggage: config.flow_control.baggage,
    fallbackControlPoint: defaultControlPoint(fallbackName, observer, process.log),
    unknownMember: tellUnknownMembers(process.log.child("check"), observer),
  });
  const forwarded = await forwardingRoutes(process, config.server, checkContext);
  return {
    book,
    services: [
      ...grpcServices(checkContext, finishedFlows, accessLogStreams),
      peerGrpcService(group),
      controlPointGrpcService(controlPoints),
      entityGrpcService(entities),
    ],
    routes: [
      ...(forwarded ?? httpRoutes(checkContext, finishedFlows)),
      ...peerRoutes(group),
      ...controlPointRoutes(controlPoints),
      ...entityRoutes(entities),
      ...shared.routes,
    ],
    opened(address) {
      announce(address);
      answer(address);
      // Runs before the announcement is withdrawn, so that the agents that count the keys next receive their counts.
      scope.add("hand over", () => shared.leave());
    },
  };
}

/** Opens the ways on which the ends of flows are reported. */
function openFlowEnds(
  { metrics, clock, scope, log }: SluiceProcess,
  { fluxMeters, unreported, flowMetrics }: ReturnType<typeof openFlowTelemetry>,
  controller: FlowController,
) {
  const end = (slots: readonly SlotRef[]) => controller.end(slots);
  const { settle } = controller;
  const finishedFlows = new FinishedFlows(fluxMeters, end, unreported, flowMetrics, settle);
  const accessLogStreams = new AccessLogStreams(clock, log.child("access-log"));
  metrics.add(finishedFlows);
  metrics.add({
    collect: (to) => to.number("sluice_reservations", [], controller.reservations),
  });
  metrics.add(accessLogStreams);
  scope.add("access log streams", accessLogStreams.close);
  return { finishedFlows, accessLogStreams };
}

/** Refuses to judge flows before the rules are known: without them every flow would pass. */
function refuseUntil(rulesKnown: Promise<void>, controller: FlowController): FlowController {
  const { judge } = controller;
  controller.judge = () => {
    throw new Fault("UNAVAILABLE", "the agent has not received its rules yet");
  };
  rulesKnown.then(
    () => {
      controller.judge = judge;
    },
    () => undefined,
  );
  return controller;
}
