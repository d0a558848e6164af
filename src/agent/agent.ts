// The agent as a part of a process: it follows the rules in the store, judges flows by them, and serves checks. This
// file only joins those parts and starts them in order.

import { createOperationContext, defaultControlPoint } from "#api/context.ts";
import { grpcServices, httpRoutes } from "#api/endpoints.ts";
import { controlPointGrpcService, controlPointRoutes } from "#api/fleet/control-points.ts";
import { entityGrpcService, entityRoutes } from "#api/fleet/entities.ts";
import { peerGrpcService, peerRoutes } from "#api/fleet/peers.ts";
import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { AgentConfig } from "#config/tree.ts";
import type { EngineName } from "#counters/group-engines.ts";
import type { ProcessPart, SluiceProcess } from "#daemon/process.ts";
import { AppliedPolicies } from "#fleet/applied.ts";
import type { SlotRef } from "#flow/flow.ts";
import { createFlowController, type FlowController } from "#flow/flow-controller.ts";
import { inventoryOf } from "#flow/inventory.ts";
import { NO_OBSERVER, observerOf } from "#flow/observer.ts";
import { Rulebook } from "#flow/rulebook.ts";
import { AccessLogStreams } from "#telemetry/flows/access-log-streams.ts";
import { FinishedFlows } from "#telemetry/flows/finished-flows.ts";
import { FlowMetrics } from "#telemetry/flows/flow-metrics.ts";
import { FluxMeters } from "#telemetry/flows/flux-meter.ts";
import { UnreportedFlows } from "#telemetry/flows/unreported-flows.ts";
import { openCounters } from "./counters.ts";
import { discover } from "./discovery/discovery.ts";
import { follow, type Refusal, type RuleFaults } from "./follow.ts";
import { answerControllers } from "./functions.ts";
import { forwardingRoutes } from "./gateway.ts";
import { LimitsInForce } from "./limits-in-force.ts";
import { publishMetrics } from "./metrics-publisher.ts";
import { guardOverload } from "./overload.ts";
import { joinGroup } from "./peers.ts";
import { RuleSnapshot } from "./snapshot/rule-snapshot.ts";
import { warnOfDefaultControlPoint } from "./warnings/control-point.ts";
import { LostEnds } from "./warnings/lost-ends.ts";
import { tellFullReservations } from "./warnings/settlement.ts";
import { tellUnknownMembers } from "./warnings/unknown-members.ts";

export interface Agent extends ProcessPart {
  /** The rules in force. */
  readonly book: Rulebook;
}

/**
 * Starts an agent. When it returns, the rules that the store holds are in force; where the store is away, the agent
 * judges by the snapshot in the file `snapshotPath`, or no flow until the store answers. `engine` counts where
 * `counters.engine` names none.
 */
export async function startAgent(
  process: SluiceProcess,
  config: AgentConfig,
  {
    snapshotPath = "",
    engine = "local",
  }: { readonly snapshotPath?: string; readonly engine?: EngineName } = {},
): Promise<Agent> {
  const { metrics, clock, chance, scope } = process;
  const flowMetrics = new FlowMetrics(config.agent_info);
  const fluxMeters = new FluxMeters();
  metrics.add(flowMetrics);
  metrics.add(fluxMeters);
  const unreported = new UnreportedFlows();
  metrics.add(unreported);
  const lostEnds = new LostEnds(process);
  const observers = [flowMetrics, unreported, { ...NO_OBSERVER, decided: lostEnds.decided }];
  const observer = tellFullReservations(process, observerOf(observers));
  const { group, opened: announce } = joinGroup(process, config);
  const controlPoints = () => flowMetrics.seen;
  const answer = answerControllers(process, config, group, controlPoints);
  const maxKeys = config.flow_control.max_keys;
  const shared = await openCounters(process, config, group, { clock, observer, maxKeys }, engine);
  const context = { clock, chance, observer, maxKeys, sharedCounters: shared.counters };
  const { agent_group: agentGroup } = config.agent_info;
  const book = new Rulebook(agentGroup, context);
  const applied = new AppliedPolicies(agentGroup, clock, (value) => group.publish(value));
  process.scope.add("applied policies", applied.close);
  const { default_control_point: byDefault } = config.flow_control;
  const controlPointsChanged = warnOfDefaultControlPoint(process, byDefault);
  let inventory = inventoryOf(book);
  const limits = new LimitsInForce({
    clock,
    log: process.log.child("limits"),
    status: process.health.root.at("system", "limits"),
    components: () => inventory.components,
    gauges: (name) => flowMetrics.gauges(name),
  });
  scope.add("limits in force", limits.close);
  const known = followStore(process, config, book, snapshotPath, (refused) => {
    inventory = inventoryOf(book);
    controlPointsChanged(inventory.controlPoints);
    flowMetrics.keep(inventory);
    fluxMeters.keep(inventory.fluxMeters);
    applied.changed(book.rules, refused);
  });
  process.scope.add("sweep", sweepRegularly(clock, [flowMetrics, fluxMeters, unreported]));
  publishMetrics(process, config);
  const guard = guardOverload(process, config.flow_control.overload);
  const controller = judgingFrom(known, createFlowController(book, context, guard));
  lostEnds.watch(controller);
  // Rejects when the store refuses to be followed.
  await within(RULES_MS, clock, known);
  const end = (slots: readonly SlotRef[]) => controller.end(slots);
  const { settle } = controller;
  const finishedFlows = new FinishedFlows(fluxMeters, end, unreported, flowMetrics, settle);
  metrics.add(finishedFlows);
  metrics.add({
    collect: (to) => to.number("sluice_reservations", [], controller.reservations),
  });
  const accessLogStreams = new AccessLogStreams(clock, process.log.child("access-log"));
  metrics.add(accessLogStreams);
  scope.add("access log streams", accessLogStreams.close);
  const { lookup, entities } = await discover(process, config);
  const checkContext = createOperationContext(controller, lookup, chance, {
    bounds: config.server.http,
    baggage: config.flow_control.baggage,
    fallbackControlPoint: defaultControlPoint(byDefault, observer, process.log),
    unknownMember: tellUnknownMembers(process.log.child("check"), observer),
  });
  return {
    book,
    services: [
      ...grpcServices(checkContext, finishedFlows, accessLogStreams),
      peerGrpcService(group),
      controlPointGrpcService(controlPoints),
      entityGrpcService(entities),
    ],
    routes: [
      ...((await forwardingRoutes(process, config.server, checkContext)) ??
        httpRoutes(checkContext, finishedFlows)),
      ...peerRoutes(group),
      ...controlPointRoutes(controlPoints),
      ...entityRoutes(entities),
      ...shared.routes,
    ],
    opened(address) {
      announce(address);
      answer(address);
      // Before the others hear that this agent is gone: who counts its keys then has what it has counted.
      scope.add("hand over", () => shared.leave());
    },
  };
}

/** Milliseconds that a start waits for the rules. Later, the ports open without them. */
const RULES_MS = 2_000;

/** Judges no flow before the rules are known: without them every flow would pass. */
function judgingFrom(known: Promise<void>, controller: FlowController): FlowController {
  const { judge } = controller;
  controller.judge = () => {
    throw new Fault("UNAVAILABLE", "the agent has not received its rules yet");
  };
  known.then(
    () => {
      controller.judge = judge;
    },
    () => undefined,
  );
  return controller;
}

/** Half of the ten minutes after which no series is left of what nobody has used for that long. */
const SWEEP_MS = 300_000;

/** Returns the function that ends it. */
function sweepRegularly(clock: Clock, swept: readonly { sweep(): void }[]): () => Promise<void> {
  let disarm: () => void;
  const arm = () => {
    disarm = clock.alarm(SWEEP_MS, () => {
      for (const each of swept) each.sweep();
      arm();
    });
  };
  arm();
  return async () => disarm();
}

/**
 * `planChanged` is called synchronously when another plan comes into force or other rules are refused, with the refusals;
 * new numbers alone change no plan.
 */
function followStore(
  process: SluiceProcess,
  config: AgentConfig,
  book: Rulebook,
  snapshotPath: string,
  planChanged: (refused: RuleFaults["refused"]) => void,
): Promise<void> {
  const { store, health, scope, clock, fail } = process;
  const log = process.log.child("rules");
  const status = health.dependency("rules");
  const stop = new AbortController();
  let plan: Rulebook["plan"] | undefined;
  let refusedKeys = 0;
  let keptKeys = 0;
  let standIn: string | undefined;
  let inForce = "";
  let refusals: RuleFaults["refused"] = new Map();
  const missing = () => [...refusals.values()].filter(({ hasPredecessor }) => !hasPredecessor);
  let hasBeenReady = false;
  // An agent that starts without a rule because it cannot read it would pass what the rule refuses, so it takes no
  // traffic. Once it is ready, a rule that is refused leaves all others in force and does not take it out of traffic:
  // all agents would go at the same time.
  const show = () => {
    if (hasBeenReady) status.ok(inForce);
    const lost = keptKeys > 0 ? [`the store lost ${keptKeys} keys, which stay in force`] : [];
    const refused =
      refusals.size > 0 ? [`rules refused: ${[...refusals].map(shown).join("; ")}`] : [];
    const old = standIn === undefined ? [] : [standIn];
    const lines = [...old, ...lost, ...refused];
    if (lines.length > 0) status.degraded(lines.join("; "));
  };
  process.metrics.add({
    collect(to) {
      const none = missing().length;
      to.number("sluice_rules_refused", ["predecessor"], refusals.size - none);
      to.number("sluice_rules_refused", ["none"], none);
    },
  });
  process.metrics.add({ collect: (to) => to.number("sluice_rules_kept", [], keptKeys) });
  const { etcd, agent_info } = config;
  const snapshot =
    snapshotPath === ""
      ? undefined
      : new RuleSnapshot({
          path: snapshotPath,
          owner: { group: agent_info.agent_group, namespace: etcd.namespace },
          clock,
          log,
          standsIn(savedAt) {
            const at = new Date(savedAt ?? 0).toISOString();
            standIn =
              savedAt === undefined
                ? undefined
                : `judging by the rules of ${at} in ${snapshotPath}`;
            if (savedAt !== undefined) health.doWithout("store");
            else show();
          },
        });
  if (snapshot !== undefined) process.metrics.add(snapshot);
  const { ready, ended } = follow({
    snapshot,
    store,
    group: config.agent_info.agent_group,
    book,
    clock,
    log,
    signal: stop.signal,
    kept(keys) {
      keptKeys = keys;
      show();
      if (keys === 0)
        log.info({}, "a controller has written again: the rules are those of the store");
      else {
        const why = "the store lost rules that no controller is known to have removed";
        log.warn({ keys }, `${why}: they stay in force until a controller has written again`);
      }
    },
    applied(revision, { refused, partial, added }) {
      const isOther =
        refused.size !== refusedKeys || [...refused.keys()].some((key) => added.has(key));
      if (book.plan !== plan || isOther) planChanged(refused);
      plan = book.plan;
      refusedKeys = refused.size;
      refusals = new Map(refused);
      hasBeenReady ||= missing().length === 0;
      inForce = `${book.rules.size} rules in force at revision ${revision}`;
      show();
      const unready = hasBeenReady ? "" : ", and the agent is not ready";
      for (const [key, refusal] of refused) {
        if (!added.has(key)) continue;
        const instead = refusal.hasPredecessor
          ? "its predecessor stays"
          : `nothing is in force in its place${unready}`;
        log.error({ revision }, `rule refused, ${instead}: ${key}: ${refusal.message}`);
      }
      for (const [key, part] of partial) {
        if (added.has(key))
          log.warn(
            { revision },
            `in force except for a part that this version does not run: ${key}: ${part}`,
          );
      }
    },
  });
  scope.add("rules", async () => {
    stop.abort();
    await ended;
    await snapshot?.close();
  });
  ended.then(
    () => stop.signal.aborted || fail("the store ended its watch"),
    (thrown: Fault) => fail("following the store failed", thrown),
  );
  return ready;
}

function shown([key, { message, hasPredecessor }]: [string, Refusal]): string {
  return hasPredecessor ? `${key}: ${message}` : `${key} (nothing in its place): ${message}`;
}
