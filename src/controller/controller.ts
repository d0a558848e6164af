// The controller: policies from its sources become circuits that tick and publish. This file joins the parts; each
// part is described in the README.

import { hostname } from "node:os";
import type { PolicyOperations, PolicyRollout } from "#api/policies.ts";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { Stop } from "#base/scope.ts";
import { queriesOf } from "#circuit/queries.ts";
import type { Environment } from "#client/http-settings.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import type { CompiledSet } from "#policy/set.ts";
import { needsAttachment, needsAutoScale } from "#policy/unmet-needs.ts";
import { QueryRunner } from "#prometheus/query-runner.ts";
import type { StatusNode } from "#runtime/status/status.ts";
import type { Store } from "#store/store.ts";
import { runningDocument } from "#sync/follow/document.ts";
import { API, COMPLETE, POLICIES, PUBLISHED } from "#sync/keys.ts";
import { Alertmanager } from "#telemetry/alerts/alertmanager.ts";
import { Alerts } from "#telemetry/alerts/alerts.ts";
import { CircuitMetrics } from "#telemetry/metrics/circuits.ts";
import { LIMITER_COUNTERS, type MetricName, type MetricSource } from "#telemetry/metrics/table.ts";
import { CheckpointKeeper } from "./checkpoint/checkpoint-keeper.ts";
import type { Cluster } from "./cluster.ts";
import { Compiler } from "./compiling/compiler.ts";
import { followDeletions } from "./loop/deletions.ts";
import { watchTicks } from "./loop/liveness.ts";
import { Outbox } from "./loop/outbox.ts";
import type { PolicyLoop } from "./loop/policy-loop.ts";
import { Schedule } from "./loop/ticker.ts";
import { ActivePolicies } from "./policies/active-policies.ts";
import { ApiSource } from "./policies/api-source.ts";
import { DirectorySource, type PolicyCounts } from "./policies/directory-source.ts";
import { KeptSource } from "./policies/kept-source.ts";
import { PolicyService } from "./policies/policy-service.ts";
import { showPolicies } from "./policies/policy-status.ts";
import type { PolicySource } from "./policy-source.ts";
import { type LocalMetrics, openQueryBackend, type QueryBackend } from "./query-backend.ts";
import { ScaleReports } from "./scaling/scale-reports.ts";
import type { ControllerSettings } from "./settings.ts";
import { StoreFollower } from "./store-follower.ts";
import type { CheckCount } from "./warnings/control-point-watch.ts";
import type { LimiterCount } from "./warnings/label-watch.ts";
import { PolicyWarnings } from "./warnings/policy-warnings.ts";

/** The metrics of the process: queries read them where no server is configured, and circuits add their own. */
export interface ProcessMetrics extends LocalMetrics {
  /** The returned function removes the source. */
  add(source: MetricSource): () => void;
}

export interface ControllerOptions {
  readonly settings: ControllerSettings;
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
  /** Group of the agent in this process, whose metrics tell which control points checks name; undefined without one. */
  readonly agentGroup?: string | undefined;
  /** Whether other controllers share the store: what circuits remember is left there for the next leader. */
  readonly sharesStore?: boolean;
  /** Aborts when the controller must no longer run, even while it starts. `stop` must be called all the same. */
  readonly over?: AbortSignal;
  /** The rollout of a policy among agents; absent where nobody follows them. */
  readonly rollout?: (policy: CompiledPolicy) => PolicyRollout | undefined;
  /** The cluster whose policy resources run and whose objects are scaled; absent where neither is wanted. */
  readonly cluster?: Cluster | undefined;
  /** Called when the controller cannot go on. */
  readonly fail: (message: string, cause?: unknown) => void;
}

export interface Controller {
  readonly policies: PolicyOperations;
  /** Reads the directories now; faults are logged and shown in the status. */
  reload(): Promise<void>;
  readonly stop: Stop;
}

/**
 * Starts every policy, and from then on follows the directory and the store. When this returns, configurations
 * and first decisions are in the store.
 * @throws Fault INVALID_ARGUMENT with every finding when the documents of the directory cannot be used.
 */
export async function startController(options: ControllerOptions): Promise<Controller> {
  const parts = assemble(options);
  try {
    return await start(parts, options.over);
  } catch (thrown) {
    await parts.close();
    throw thrown;
  }
}

type Parts = ReturnType<typeof assemble>;

async function start(parts: Parts, over?: AbortSignal): Promise<Controller> {
  const { sources, files, follower, compiler, outbox, policies, adopt, removeOrphans } = parts;
  const { checkpoints, guardPublished, scaling, attacher } = parts;
  let endGuard: () => void = () => undefined;
  const endFollowing = async () => {
    // First of all: another controller may scale by now.
    await Promise.all([scaling?.close(), attacher?.close()]);
    const closed = sources.map((source) => source.close?.());
    follower.stop();
    endGuard();
    // Changes of the store and of the sources may wait for the compiler.
    await compiler.close();
    await Promise.all([follower.ended(), ...closed]);
  };
  // The calls below that wait for the store must not wait for ever.
  const giveUp = () => {
    follower.stop();
    for (const source of sources) void source.close?.();
    void outbox.close();
  };
  over?.addEventListener("abort", giveUp, { once: true });
  try {
    await adopt();
    await checkpoints?.adopt();
    // The store first: policies that are stored already keep their names.
    await follower.start();
    over?.throwIfAborted();
    for (const source of sources) await source.start?.();
    await outbox.settled();
    removeOrphans();
    outbox.confirm();
    await outbox.settled();
    over?.throwIfAborted();
    checkpoints?.start();
    scaling?.start();
    endGuard = guardPublished();
  } catch (thrown) {
    await endFollowing();
    throw thrown;
  } finally {
    over?.removeEventListener("abort", giveUp);
  }
  return {
    policies,
    reload: () => files.reload(),
    stop: async () => {
      await endFollowing();
      await parts.close();
    },
  };
}

const ONLY_OVER_API =
  "policies come over the API only (sluice policy apply): neither --policies nor policies.cr_watcher.enabled is set";

function assemble(options: ControllerOptions) {
  const { settings, directories, store, clock, env, log, status, counts, meters, fail } = options;
  const { agentGroup } = options;
  const defaultGroup = settings.policies.default_agent_group;
  const policiesStatus = status.at("system", "policies");
  const metrics = new CircuitMetrics();
  const backend = openQueryBackend({ settings, metrics: meters, env, clock, log });
  const { queries, alerts } = openOutgoing(options, backend, metrics);
  const outbox = openOutbox(options, metrics);
  const compiler = new Compiler({ settings: { queries: backend.dialect, defaultGroup }, clock });
  const compileOne = async (
    source: string,
    defaultName: string,
    text: string,
    namespace?: string,
  ) => {
    const [set] = await compiler.compile([{ source, defaultName, text, namespace }]);
    return set ?? NO_POLICIES;
  };
  const failed = (name: string, fault: Fault) => {
    const fields = fault.cause === undefined ? {} : { error: fault };
    log.error({ policy: name, ...fields }, `not applied: ${fault.message}`);
  };
  const api = new ApiSource({ compile: compileOne, failed });
  const files = new DirectorySource({
    directories,
    clock,
    active: () => active,
    hasPolicy: (name) => api.policies.has(name) || (resources?.has(name) ?? false),
    compile: (texts) => compiler.compile(texts),
    log,
    status: policiesStatus,
    counts,
  });
  const examineAnew = () => void warnings.examine().then(() => resources?.inForceChanged());
  const attacher = options.cluster?.attaching?.({ changed: examineAnew });
  const resources = options.cluster?.policies?.({
    active: () => active,
    compile: compileOne,
    lastGood: async (name) => {
      const key = POLICIES + name;
      const { entries } = await store.list(key);
      const found = entries.find((entry) => entry.key === key);
      const left = found && (await runningDocument(found.value));
      return left?.source === "K8S" ? left.text : undefined;
    },
    warnings: (name) => warnings.of(name),
    attacher,
    overridesConfig: (name) => sources.some((source) => source.dynamicConfig(name) !== undefined),
    rollout: options.rollout,
  });
  if (directories.length === 0 && resources === undefined) log.info({}, ONLY_OVER_API);
  const kept = new KeptSource({
    settings: settings.policies,
    active: () => active,
    hasDocument: (name) => api.policies.has(name),
    isUnread: (name) => resources?.isUnread(name) ?? false,
    compile: (texts) => compiler.compile(texts),
    log,
    status: () => policiesStatus.at("system", "removal_guard"),
  });
  const sources: readonly PolicySource[] =
    resources === undefined ? [files, api, kept] : [files, resources, api, kept];
  const active: ActivePolicies = new ActivePolicies({
    context: {
      clock,
      schedule: new Schedule(clock),
      outbox,
      queries,
      alerts,
      metrics,
      log,
      restore: (name, plan) => checkpoints?.restore(name, plan),
    },
    sources,
    loaded: (loop) => reports.deliverTo(loop),
    failed,
    changed: (loops) => {
      backend.setQueries([...loops.values()].flatMap(queriesIn));
      void warnings.examine();
    },
  });
  const checkpoints = openCheckpoints(options, () => active.loops);
  const scaling = options.cluster?.scaling?.({
    store,
    warned: examineAnew,
    failed: fail,
  });
  const warnings: PolicyWarnings = new PolicyWarnings({
    loops: () => active.loops,
    clock,
    log,
    knowsMetric: backend.knowsMetric,
    agentGroups: agentGroup === undefined ? undefined : [agentGroup],
    attaching: (target) => attacher?.warningsOf(target) ?? needsAttachment(target),
    scaling: (object) => scaling?.warningsOf(object) ?? needsAutoScale(object),
    limiters: () => (agentGroup === undefined ? [] : limitersIn(meters)),
    checks: agentGroup === undefined ? undefined : () => checksIn(meters),
  });
  showPolicies(policiesStatus, {
    loops: () => active.loops,
    warnings: (name) => warnings.of(name),
    wall: () => clock.wall(),
  });
  const reports = new ScaleReports({ clock, loops: () => active.loops, failed });
  const follower = new StoreFollower({ store, api, reports, active, failed: fail });
  const policies = new PolicyService({
    active,
    api,
    kept,
    store,
    reached: (revision, givenUp) => follower.reached(revision, givenUp),
    clock,
    compile: compileOne,
    log,
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
  const guardPublished = () =>
    followDeletions({
      store,
      prefixes: PUBLISHED,
      what: "configurations or decisions",
      outbox,
      log,
      failed: fail,
    });
  const adopt = async () => {
    for (const prefix of PUBLISHED) {
      const { entries } = await store.list(prefix);
      kept.adopt(entries);
      outbox.adopt(entries.filter(({ key }) => !key.startsWith(API) && key !== COMPLETE));
    }
  };
  const removeOrphans = () => {
    const keys = outbox.removeOrphans();
    if (keys > 0) log.info({ keys }, "removed entries of policies that no longer exist");
  };
  return {
    sources,
    files,
    follower,
    policies,
    outbox,
    compiler,
    checkpoints,
    scaling,
    attacher,
    close,
    adopt,
    removeOrphans,
    guardPublished,
  };
}

const NO_POLICIES: CompiledSet = { policies: [], findings: [], warnings: [] };

function openOutgoing(
  options: ControllerOptions,
  { engine }: QueryBackend,
  metrics: CircuitMetrics,
) {
  const { settings, clock, chance, env, log } = options;
  const queries = new QueryRunner({
    engine,
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
  return { queries, alerts };
}

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
        log.debug?.(
          { revision, changes: ops.length, keys: ops.slice(0, LOGGED_KEYS).map(({ key }) => key) },
          "wrote to the store",
        );
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

/** Keys that the line about one write names. */
const LOGGED_KEYS = 50;

/** Undefined where the store ends with this process. */
function openCheckpoints(
  { store, settings, clock, log, sharesStore }: ControllerOptions,
  policies: () => ReadonlyMap<string, PolicyLoop>,
): CheckpointKeeper | undefined {
  if (!sharesStore) return undefined;
  return new CheckpointKeeper({
    store,
    clock,
    log,
    policies,
    settings: settings.policies.checkpoints,
  });
}

/** The counts of checks that the agent of this process keeps. */
function* checksIn(meters: LocalMetrics): Generator<CheckCount> {
  const name = "flowcontrol_requests_total" satisfies MetricName;
  for (const { labels, value: count } of meters.samples((each) => each === name)) {
    const { agent_group: agentGroup = "", control_point: controlPoint = "" } = labels;
    yield { agentGroup, controlPoint, count };
  }
}

const MISSING = "sluice_limiter_missing_labels_total" satisfies MetricName;
const LIMITER_METRICS: ReadonlySet<string> = new Set([...Object.values(LIMITER_COUNTERS), MISSING]);

/** The counts of the limiters whose agent runs in this process. */
function limitersIn(meters: LocalMetrics): readonly LimiterCount[] {
  const limiters = new Map<string, LimiterCount>();
  for (const { labels, value } of meters.samples((each) => LIMITER_METRICS.has(each))) {
    const { policy_name: policyName = "", policy_hash: policyHash = "" } = labels;
    const { component_id: componentId = "", label } = labels;
    const key = JSON.stringify([policyName, policyHash, componentId]);
    const known = limiters.get(key);
    const { flows = 0, missing = { key: 0, tokens: 0 } } = known ?? {};
    const now =
      label === "key" || label === "tokens"
        ? { flows, missing: { ...missing, [label]: value } }
        : { flows: flows + value, missing };
    limiters.set(key, { policyName, policyHash, componentId, ...now });
  }
  return [...limiters.values()];
}

function queriesIn({ version }: PolicyLoop): readonly string[] {
  return queriesOf(version.policy.circuit).map(({ query }) => query);
}
