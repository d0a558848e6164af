// The controller: policies out of a directory and out of the store become circuits that tick and publish.
// Files that cannot be used whole change nothing; what stood before stays in force, and the fault is said in
// log, status and metric.

import { hostname } from "node:os";
import { type PolicyDesk, policyRoutes, policyService } from "#api/policies.ts";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { Stop } from "#base/scope.ts";
import type { StatusNode } from "#host/status.ts";
import { Asker } from "#prometheus/asker.ts";
import type { Route, Service } from "#serve/handler.ts";
import type { Store } from "#store/store.ts";
import { Alerts } from "#telemetry/alertmanager.ts";
import { CircuitMetrics } from "#telemetry/circuit-metrics.ts";
import type { LogFields } from "#telemetry/log-line.ts";
import type { Source } from "#telemetry/metrics-table.ts";
import type { Environment } from "#wire/http-caller.ts";
import { Compiler } from "./compiler.ts";
import { Desk } from "./desk.ts";
import { watchDirectory } from "./directory.ts";
import { Folder } from "./folder.ts";
import { watchTicks } from "./liveness.ts";
import type { Loop } from "./loop.ts";
import { type Measures, type OwnMeters, openMeasures } from "./measures.ts";
import { Outbox } from "./outbox.ts";
import { showPolicy } from "./policy-status.ts";
import { FOLLOWED, Roster } from "./roster.ts";
import type { ControllerSettings } from "./settings.ts";

/** Where a controller speaks. */
export interface ControllerVoice {
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
}

export interface PolicyCounts {
  standing(counts: { readonly loaded: number; readonly refused: number }): void;
  reloaded(result: "success" | "failure"): void;
}

/** The meters of the process: read for queries where no server is configured, and told what circuits do. */
export interface ProcessMeters extends OwnMeters {
  add(source: Source): () => void;
}

export interface ControllerOptions {
  readonly settings: ControllerSettings;
  readonly directory: string;
  readonly store: Store;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly env: Environment;
  readonly voice: ControllerVoice;
  /** The root of the status tree. */
  readonly status: StatusNode;
  readonly counts: PolicyCounts;
  readonly meters: ProcessMeters;
  /** Something without which circuits cannot go on broke. */
  readonly fail: (message: string, cause?: unknown) => void;
}

export interface Controller {
  readonly desk: PolicyDesk;
  /** What it shows on the port of its process. */
  readonly routes: readonly Route[];
  readonly services: readonly Service[];
  readonly stop: Stop;
}

/**
 * Starts every policy and keeps following directory and store. When it returns, configurations and first
 * decisions stand in the store.
 * @throws Fault INVALID_ARGUMENT with every finding when the documents cannot be used at the start.
 */
export async function startController(options: ControllerOptions): Promise<Controller> {
  const parts = assemble(options);
  try {
    return await start(options, parts);
  } catch (thrown) {
    await parts.close();
    throw thrown;
  }
}

type Parts = ReturnType<typeof assemble>;

async function start(options: ControllerOptions, parts: Parts): Promise<Controller> {
  const { store, clock, directory, fail } = options;
  const { roster, folder, outbox, compiler } = parts;
  const following = new AbortController();
  const first = Promise.withResolvers<void>();
  const followed = followStore(store, roster, following.signal, first.resolve);
  followed.then(
    () => following.signal.aborted || fail("the store ended its watch"),
    (thrown: unknown) => {
      first.reject(thrown);
      if (!following.signal.aborted) fail("following the store failed", thrown);
    },
  );
  const end = async () => {
    following.abort();
    // Both the store's changes and those of files may wait for it.
    await compiler.close();
    await followed.catch(() => undefined);
  };
  try {
    await first.promise;
    await folder.start();
    await outbox.settled();
  } catch (thrown) {
    await end();
    throw thrown;
  }
  const watching = watchDirectory(
    directory,
    clock,
    () => folder.reload(),
    (fault) => following.signal.aborted || folder.unread(fault),
  );
  return {
    desk: parts.desk,
    routes: policyRoutes(parts.desk),
    services: [policyService(parts.desk)],
    stop: async () => {
      await Promise.all([end(), watching.close()]);
      await parts.close();
    },
  };
}

async function followStore(store: Store, roster: Roster, signal: AbortSignal, first: () => void) {
  for await (const batch of store.watch(FOLLOWED, signal)) {
    await roster.takeStored(batch);
    first();
  }
}

function assemble(options: ControllerOptions) {
  const { settings, directory, store, clock, chance, env, voice, status, counts, meters } = options;
  const policies = status.at("system", "policies");
  const info = (fields: LogFields, message: string) => voice.info(fields, message);
  const warn = (fields: LogFields, message: string) => voice.warn(fields, message);
  const metrics = new CircuitMetrics();
  const measures = openMeasures({ settings, meters, env, clock, warn });
  const asker = new Asker({
    ...{ measure: measures.measure, clock, chance, meter: metrics },
    settings: settings.policies.promql_jobs_scheduler,
  });
  const alerts = new Alerts({
    ...{ clients: settings.alertmanagers.clients, channel_size: settings.alerter.channel_size },
    ...{ batch: settings.otel.batch_alerts, proxy: settings.client.proxy, env, clock },
    ...{ hostname: hostname(), log: voice },
  });
  const outbox = openOutbox(options, metrics);
  const compiler = new Compiler({ queries: measures.dialect, clock });
  const compileOne = (source: string, stem: string, text: string) =>
    compiler.compile([{ source, stem, text }]);
  const roster: Roster = new Roster({
    world: { clock, outbox, asker, alerts, metrics, info, warn },
    compile: compileOne,
    loaded: (loop) => {
      showPolicy(policies, loop, () => clock.wall());
      warnOfUnknown(loop, measures, voice);
    },
    unloaded: (name) => policies.remove("key", name),
    failed: (name, fault) => voice.error({ policy: name }, `not taken over: ${fault.message}`),
    changed: (loops) => measures.want(queriesOf(loops)),
    leftOut: () => folder.review(),
  });
  const folder: Folder = new Folder({
    ...{ directory, roster, voice, status: policies, counts },
    compile: (texts) => compiler.compile(texts),
  });
  const desk = new Desk({
    ...{ roster, store, clock, voice, compile: compileOne },
    refused: (source) => folder.refused(source),
  });
  const spoken = [metrics, alerts].map((source) => meters.add(source));
  const unwatch = watchTicks(settings.liveness, clock, status, roster);
  const close = async () => {
    unwatch();
    roster.stop();
    asker.close();
    await Promise.all([compiler.close(), measures.close(), alerts.close(), outbox.close()]);
    for (const remove of spoken) remove();
  };
  return { roster, folder, desk, outbox, compiler, close };
}

function openOutbox({ store, clock, voice, status }: ControllerOptions, metrics: CircuitMetrics) {
  const node = status.at("system", "policies").at("system", "publishing");
  return new Outbox({
    store,
    clock,
    committed: (again) => {
      metrics.committed("success");
      if (again) voice.info({}, "the store takes configurations and decisions again");
      node.ok("published");
    },
    failed: (fault) => {
      metrics.committed("failure");
      const message = `not published, tried again: ${fault.message}`;
      voice.error({ error: fault }, message);
      node.fail(message);
    },
  });
}

function queriesIn(loop: Loop): readonly string[] {
  return (loop.version.policy.circuit?.leaves ?? []).flatMap(({ kind, config }) => {
    if (kind === "promql") return [config.query_string];
    return kind === "load_actuator" && config.tokens_query !== "" ? [config.tokens_query] : [];
  });
}

function queriesOf(loops: ReadonlyMap<string, Loop>): readonly string[] {
  return [...loops.values()].flatMap(queriesIn);
}

function warnOfUnknown(loop: Loop, measures: Measures, voice: ControllerVoice): void {
  const names = new Set(queriesIn(loop).flatMap((query) => measures.unknown(query)));
  for (const metric of names) {
    const fields = { policy: loop.version.policy.name, metric };
    voice.warn(fields, `a query reads ${metric}, which Sluice does not measure: it has no values`);
  }
}
