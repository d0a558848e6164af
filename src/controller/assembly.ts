// Creates the parts of a controller and connects them. `controller.ts` starts and stops them in order.

import { EventEmitter } from "node:events";
import { hostname } from "node:os";
import type { PolicyRollout } from "#api/policies.ts";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { queriesOf } from "#circuit/queries.ts";
import type { Environment } from "#client/http-settings.ts";
import type { ControllerConfig } from "#config/tree.ts";
import type { Attacher } from "#kube/gateways/attacher.ts";
import type { Scaling } from "#kube/scale/scaling.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import { needsAttachment, needsAutoScale } from "#policy/unmet-needs.ts";
import { QueryRunner } from "#prometheus/query-runner.ts";
import type { StatusNode } from "#runtime/status/status.ts";
import type { Store } from "#store/store.ts";
import { runningDocument } from "#sync/follow/document.ts";
import { COMPLETE, POLICIES } from "#sync/keys.ts";
import { Alertmanager } from "#telemetry/alerts/alertmanager.ts";
import { Alerts } from "#telemetry/alerts/alerts.ts";
import { CircuitMetrics } from "#telemetry/metrics/circuits.ts";
import type { MetricSource } from "#telemetry/metrics/table.ts";
import { CheckpointKeeper } from "./checkpoint/checkpoint-keeper.ts";
import type { Cluster } from "./cluster.ts";
import { Compiler } from "./compiling/compiler.ts";
import { watchTicks } from "./loop/liveness.ts";
import { Outbox } from "./loop/outbox.ts";
import type { LoopContext, PolicyLoop } from "./loop/policy-loop.ts";
import { ReplicaReports } from "./loop/replica-reports.ts";
import { Schedule } from "./loop/ticker.ts";
import { ActivePolicies } from "./policies/active-policies.ts";
import { ApiSource } from "./policies/api-source.ts";
import { DirectorySource, type PolicyCounts } from "./policies/directory-source.ts";
import { KeptSource } from "./policies/kept-source.ts";
import { PolicyService } from "./policies/policy-service.ts";
import { showPolicies } from "./policies/policy-status.ts";
import type { PolicySource } from "./policy-source.ts";
import { type LocalMetrics, openQueryBackend, type QueryBackend } from "./query-backend.ts";
import { StoreFollower } from "./store-follower.ts";
import { PolicyWarnings } from "./warnings/policy-warnings.ts";
import { checksIn, limitersIn } from "./warnings/usage.ts";

/** The metrics of the process. Circuits add their own, and queries read them if no server is configured. */
export interface ProcessMetrics extends LocalMetrics {
  /** The returned function removes the source. */
  add(source: MetricSource): () => void;
}

export interface ControllerOptions {
  readonly settings: ControllerConfig;
  /** The directories of policy documents. */
  readonly directories: readonly string[];
  readonly store: Store;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly env: Environment;
  readonly log: Log;
  /** The root of the status tree. */
  readonly status: StatusNode;
  readonly counts: PolicyCounts;
  readonly meters: ProcessMetrics;
  /** Group of the agent in this process, whose metrics show which control points checks name; undefined without an agent. */
  readonly agentGroup?: string | undefined;
  /** True if other controllers share the store: then checkpoints of circuits are left there for the next leader. */
  readonly sharesStore?: boolean;
  /** Aborts when the controller must no longer run, even while it starts. `stop` must be called all the same. */
  readonly over?: AbortSignal;
  /** The rollout of a policy among agents; absent if agents are not followed. */
  readonly rollout?: (policy: CompiledPolicy) => PolicyRollout | undefined;
  /** The cluster whose policy resources run and whose objects are scaled; absent for none. */
  readonly cluster?: Cluster | undefined;
  /** Called when the controller cannot continue. */
  readonly fail: (message: string, cause?: unknown) => void;
}

export type Parts = ReturnType<typeof assemble>;

/** Starts nothing but timers. */
export function assemble(options: ControllerOptions) {
  const { store, clock, log, meters, settings, status, cluster, fail } = options;
  const outgoing = openOutgoing(options);
  const { metrics, backend, queries, alerts, outbox, checkpoints } = outgoing;
  const compiler = new Compiler({
    settings: { queries: backend.dialect, defaultGroup: settings.policies.default_agent_group },
    clock,
  });
  const failed = (name: string, fault: Fault) => {
    const fields = fault.cause === undefined ? {} : { error: fault };
    log.error({ policy: name, ...fields }, `not applied: ${fault.message}`);
  };
  const schedule = new Schedule(clock);
  const restore: LoopContext["restore"] = (name, plan) => checkpoints?.restore(name, plan);
  const context = { clock, schedule, outbox, queries, alerts, metrics, log, restore };
  const active = new ActivePolicies(context, failed);
  const clusterEvents = new EventEmitter<{ changed: [] }>();
  const changed = () => void clusterEvents.emit("changed");
  const attacher = cluster?.attaching?.({ changed });
  const scaling = cluster?.scaling?.({ store, warned: changed, failed: fail });
  const warnings = openWarnings(options, { active, backend, attacher, scaling });
  const ports = { active, compiler, warnings, attacher, failed };
  const { files, api, kept, resources } = openSources(options, ports);
  const sources: readonly PolicySource[] = [files, ...(resources ? [resources] : []), api, kept];
  const reports = new ReplicaReports({ clock, loops: () => active.loops, failed });
  active.connect({
    sources,
    loaded: (loop) => reports.deliverTo(loop),
    changed: (loops) => {
      backend.setQueries([...loops.values()].flatMap(queriesIn));
      void warnings.examine();
    },
  });
  clusterEvents.on("changed", () => {
    void warnings.examine().then(() => resources?.inForceChanged());
  });
  showPolicies(status.at("system", "policies"), {
    loops: () => active.loops,
    warnings: (name) => warnings.of(name),
    wall: () => clock.wall(),
  });
  const follower = new StoreFollower({ store, api, reports, active, failed: fail });
  const policies = new PolicyService({
    active,
    api,
    kept,
    store,
    clock,
    log,
    reached: (revision, givenUp) => follower.reached(revision, givenUp),
    compile: (source, name, text) => compiler.compileOne(source, name, text),
    rollout: options.rollout,
  });
  const metricSources = [metrics, alerts, warnings, kept, backend.metrics, checkpoints, scaling];
  const removeMetrics = metricSources.flatMap((source) => (source ? meters.add(source) : []));
  const endLiveness = watchTicks(settings.liveness, clock, status, active.loops);
  const close = async () => {
    endLiveness();
    reports.close();
    warnings.close();
    active.stop();
    queries.close();
    const written = [checkpoints?.close(), outbox.close()];
    await Promise.all([compiler.close(), backend.close(), alerts.close(), ...written]);
    for (const remove of removeMetrics) remove();
  };
  return {
    active,
    attacher,
    checkpoints,
    close,
    compiler,
    files,
    follower,
    kept,
    outbox,
    policies,
    scaling,
    sources,
  };
}

function queriesIn({ version }: PolicyLoop): readonly string[] {
  return queriesOf(version.policy.circuit).map(({ query }) => query);
}

/** The parts by which circuits reach others: queries, alerts and the store. */
function openOutgoing(options: ControllerOptions) {
  const { settings, clock, chance, env, log, meters, store, sharesStore } = options;
  const metrics = new CircuitMetrics();
  const backend = openQueryBackend({ settings, metrics: meters, env, clock, log });
  const queries = new QueryRunner({
    engine: backend.engine,
    clock,
    chance,
    metrics,
    settings: settings.policies.promql_jobs_scheduler,
  });
  const environment = {
    proxy: settings.client.proxy,
    env,
    clock,
    hostname: hostname(),
    log: log.child("alerts"),
  };
  const alerts = new Alerts({
    receivers: settings.alertmanagers.clients.map((each) => new Alertmanager(each, environment)),
    queueSize: settings.alerter.channel_size,
    batch: settings.otel.batch_alerts,
    clock,
    log,
  });
  const outbox = openOutbox(options, metrics);
  // A store that ends with this process needs none.
  const checkpoints = sharesStore
    ? new CheckpointKeeper({ store, clock, log, settings: settings.policies.checkpoints })
    : undefined;
  return { metrics, backend, queries, alerts, outbox, checkpoints };
}

/** Keys that the log line about one write names. */
const LOGGED_KEYS = 50;

function openOutbox({ store, clock, log, status }: ControllerOptions, metrics: CircuitMetrics) {
  const node = status.at("system", "policies").at("system", "publishing");
  return new Outbox({
    store,
    clock,
    complete: () => {
      const value = new TextEncoder().encode(new Date(clock.wall()).toISOString());
      return { kind: "put", key: COMPLETE, value };
    },
    committed: (recovered, ops, revision) => {
      if (ops.length > 0) {
        const keys = ops.slice(0, LOGGED_KEYS).map(({ key }) => key);
        log.debug?.({ revision, changes: ops.length, keys }, "wrote to the store");
      }
      metrics.committed("success");
      if (recovered) log.info({}, "the store accepts configurations and decisions again");
      node.ok("published");
    },
    failed: (fault) => {
      metrics.committed("failure");
      const message = `not published, will be retried: ${fault.message}`;
      log.error({ error: fault }, message);
      node.fail(message);
    },
  });
}

interface WarningPorts {
  readonly active: ActivePolicies;
  readonly backend: QueryBackend;
  readonly attacher: Attacher | undefined;
  readonly scaling: Scaling | undefined;
}

function openWarnings(
  { clock, log, meters, agentGroup }: ControllerOptions,
  { active, backend, attacher, scaling }: WarningPorts,
): PolicyWarnings {
  const hasAgent = agentGroup !== undefined;
  return new PolicyWarnings({
    loops: () => active.loops,
    clock,
    log,
    knowsMetric: backend.knowsMetric,
    agentGroups: hasAgent ? [agentGroup] : undefined,
    attaching: (target) => attacher?.warningsOf(target) ?? needsAttachment(target),
    scaling: (object) => scaling?.warningsOf(object) ?? needsAutoScale(object),
    limiters: () => (hasAgent ? limitersIn(meters) : []),
    checks: hasAgent ? () => checksIn(meters) : undefined,
  });
}

interface SourcePorts {
  readonly active: ActivePolicies;
  readonly compiler: Compiler;
  readonly warnings: PolicyWarnings;
  readonly attacher: Attacher | undefined;
  readonly failed: (name: string, fault: Fault) => void;
}

const ONLY_OVER_API =
  "policies come over the API only (sluice policy apply): neither --policies nor policies.cr_watcher.enabled is set";

function openSources(
  { settings, directories, store, clock, log, status, counts, cluster, rollout }: ControllerOptions,
  { active, compiler, warnings, attacher, failed }: SourcePorts,
) {
  const policiesStatus = status.at("system", "policies");
  const compile: Compiler["compile"] = (texts) => compiler.compile(texts);
  const compileOne: Compiler["compileOne"] = (...text) => compiler.compileOne(...text);
  const api = new ApiSource({ compile: compileOne, failed });
  const resources = cluster?.policies?.({
    inForce: {
      update: () => active.update(),
      of: (name) => {
        const loop = active.loops.get(name);
        return loop && { ...loop.version, refusedConfig: loop.refusedConfig };
      },
      leftOut: () =>
        new Map(active.leftOutOf("resource").map(({ candidate, why }) => [candidate.name, why])),
      overridesConfig: (name) => active.hasConfig(name),
    },
    compile: compileOne,
    lastGood: (name) => documentOfResource(store, name),
    warnings: (name) => warnings.of(name),
    attacher,
    rollout,
  });
  if (directories.length === 0 && resources === undefined) log.info({}, ONLY_OVER_API);
  const files = new DirectorySource({
    directories,
    clock,
    active,
    compile,
    log,
    status: policiesStatus,
    counts,
    hasPolicy: (name) => api.policies.has(name) || (resources?.has(name) ?? false),
  });
  const kept = new KeptSource({
    settings: settings.policies,
    active,
    compile,
    log,
    hasDocument: (name) => api.policies.has(name),
    isUnread: (name) => resources?.isUnread(name) ?? false,
    status: () => policiesStatus.at("system", "removal_guard"),
  });
  return { api, resources, files, kept };
}

/** The document in the store of a policy that came from a resource; undefined where there is none. */
async function documentOfResource(store: Store, name: string): Promise<string | undefined> {
  const key = POLICIES + name;
  const { entries } = await store.list(key);
  const found = entries.find((entry) => entry.key === key);
  const left = found && (await runningDocument(found.value));
  return left?.source === "K8S" ? left.text : undefined;
}
