// The parts of every Sluice process, whatever it runs: log, metrics, health, status tree and store. Agent, controller and
// standalone start from this and differ only in the parts that they add.

import { type Chance, uuid } from "#base/chance.ts";
import type { Fault } from "#base/fault.ts";
import type { GrpcService, Route } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import { type IneffectiveSetting, ineffectiveSettings } from "#config/ineffective.ts";
import type { Loaded } from "#config/load.ts";
import { secretsOf } from "#config/secrets.ts";
import { type AgentConfig, PROCESSES } from "#config/tree.ts";
import { ReadScheduler } from "#h2/read-scheduler.ts";
import type { ProcessContext } from "#runtime/life/run.ts";
import { heapProfiles, profileDirectory } from "#runtime/profiling/files.ts";
import { ProcessProfiler } from "#runtime/profiling/profiler.ts";
import { watchEventLoop } from "#runtime/status/event-loop.ts";
import { Health } from "#runtime/status/health.ts";
import { version } from "#runtime/status/info.ts";
import { watchMemory } from "#runtime/watchdog/watchdog.ts";
import type { OpenStore, Store } from "#store/store.ts";
import { crashReporter } from "#telemetry/crash/reporter.ts";
import { openLog, type ProcessLog } from "#telemetry/log/log.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { ServerMetrics } from "#telemetry/metrics/server.ts";
import type { MetricSource } from "#telemetry/metrics/table.ts";

/** The settings of the process itself, which both configuration trees have. */
export interface ProcessSettings
  extends Pick<
    AgentConfig,
    | "client"
    | "crashreport"
    | "liveness"
    | "log"
    | "metrics"
    | "profilers"
    | "readiness"
    | "server"
    | "watchdog"
  > {
  readonly otel: Pick<AgentConfig["otel"], "ports">;
}

/** The routes and services of a part of the process, such as its agent. */
export interface ProcessPart {
  readonly routes: readonly Route[];
  readonly services: readonly GrpcService[];
  /** Called when the main port accepts calls, with its address. */
  readonly opened?: (address: string) => void;
}

export interface ProcessOptions {
  /** The trees in force. The first configures the process itself, the others only further parts. */
  readonly configs: readonly [Loaded, ...Loaded[]];
  /** Closed when the process ends. A store that may be away is opened by the process, whose health depends on it. */
  readonly store: Store | OpenStore;
  readonly context: ProcessContext;
  readonly chance: Chance;
  /** Opened as `log.*` configures it, unless given. */
  readonly log?: Log & Pick<ProcessLog, "close"> & Partial<Pick<ProcessLog, "reopen" | "levels">>;
}

export interface SluiceProcess
  extends Pick<ProcessContext, "argv" | "clock" | "env" | "fail" | "onReload" | "scope"> {
  /** The name in log lines and on the info routes, such as `sluice-agent`. */
  readonly service: string;
  /** UUID, another one in every process. */
  readonly id: string;
  readonly settings: ProcessSettings;
  /** True if a person set this key. A chosen value is binding; a default may be replaced. */
  readonly isChosen: (path: string) => boolean;
  readonly chance: Chance;
  readonly store: Store;
  readonly log: Log;
  /** Undefined where the log was given and its levels cannot be changed. */
  readonly logLevels: ProcessLog["levels"] | undefined;
  readonly metrics: Metrics;
  /** Takes one profile at a time, whoever asks. */
  readonly profiler: ProcessProfiler;
  /** Counts what all ports of the process do. */
  readonly serverMetrics: ServerMetrics;
  /** Shares the event loop among the connections of all ports. */
  readonly readScheduler: ReadScheduler;
  /** Its root is the status tree. */
  readonly health: Health;
}

export function startProcess(options: ProcessOptions): SluiceProcess {
  const { configs, context, chance } = options;
  const { argv, clock, env, fail, onReload, scope } = context;
  const [{ process: name, config: settings, origins }] = configs;
  const { service } = PROCESSES[name];
  const opened =
    options.log ?? openLog(settings.log, { service, clock, colours: !env["NO_COLOR"] });
  context.useLog(opened);
  const crashes = crashReporter({
    settings: settings.crashreport,
    proxy: settings.client.proxy,
    env,
    clock,
    chance,
    log: opened,
    service,
    version: version(),
    secrets: () => configs.flatMap(secretsOf),
  });
  if (crashes !== undefined) context.onCrash(crashes.report);
  const log = crashes?.log ?? opened;
  context.onReload(() => {
    opened.reopen?.();
    log.info({}, "SIGHUP: reopened the log files, reading the policy files again");
  });
  logConfigNotes(configs, env, log.child("config"));
  const metrics = new Metrics(settings.metrics);
  const serverMetrics = new ServerMetrics(settings.server);
  metrics.add(serverMetrics);
  const health = new Health(clock, settings);
  scope.add("health", health.close);
  metrics.add(dependencyMetrics(health));
  const { run, close } = watchEventLoop(clock, settings.liveness.service.execution_timeout);
  scope.add("event loop", close);
  health.liveness.check("event-loop", run);
  const { memory } = settings.watchdog;
  const profiler = new ProcessProfiler(clock);
  const stopped = new AbortController();
  scope.add("heap profile", async () => stopped.abort());
  const watchdogLog = log.child("watchdog");
  watchMemory({
    settings: memory,
    liveness: health.liveness,
    log: watchdogLog,
    short: heapProfiles({
      directory: profileDirectory(settings.profilers.profiles_path, service),
      profiler,
      clock,
      log: watchdogLog,
      signal: stopped.signal,
    }),
  });
  const store =
    typeof options.store === "function"
      ? openStore(options.store, { clock, chance, log: log.child("store") }, health)
      : options.store;
  scope.add("store", () => store.close());
  return {
    argv,
    clock,
    env,
    fail,
    onReload,
    scope,
    service,
    id: uuid(chance),
    settings,
    isChosen: (path) => origins.get(path)?.source !== "default",
    chance,
    store,
    log,
    logLevels: opened.levels,
    metrics,
    profiler,
    serverMetrics,
    readScheduler: new ReadScheduler(clock),
    health,
  };
}

/** Opens a store that may be away. Status, readiness, a metric and the log then show it. */
function openStore(
  open: OpenStore,
  context: Omit<Parameters<OpenStore>[0], "usable">,
  health: Health,
): Store {
  const dependency = health.dependency("store");
  const { log } = context;
  let lost = false;
  let answered = false;
  const usable = (fault: Fault | undefined) => {
    if (fault === undefined) {
      dependency.ok("the store answers");
      if (lost) log.info({}, answered ? "the store can be used again" : "the store can be used");
      answered = true;
    } else {
      dependency.degraded(fault.message);
      const meanwhile = answered ? "what is known stays in force" : "nothing has been read from it";
      log.warn({}, `the store cannot be used, and ${meanwhile}: ${fault.message}`);
    }
    lost = fault !== undefined;
  };
  return open({ ...context, usable });
}

function dependencyMetrics(health: Health): MetricSource {
  return {
    collect(to) {
      for (const [name, degraded] of health.degraded)
        to.number("sluice_dependency_degraded", [name], degraded ? 1 : 0);
    },
  };
}

/** Milliseconds that the process may take to stop: the drain of its port and some time for the rest. */
export function stopTimeLimit({ server }: Pick<ProcessSettings, "server">): number {
  const { accept_for, grace } = server.drain;
  return accept_for + grace + 5_000;
}

/** Logs the remarks from loading the configuration, and the settings that have no effect. */
function logConfigNotes(configs: readonly Loaded[], env: ProcessContext["env"], log: Log): void {
  const effects = configs.map((loaded, at) => {
    const role = at > 0 ? "part" : configs.length > 1 ? "standalone" : "process";
    return ineffectiveSettings(loaded, role, env);
  });
  const notes = new Map(
    configs.flatMap((loaded) => loaded.notes).map((note) => [JSON.stringify(note), note]),
  );
  for (const { level, path, where, message } of notes.values())
    log[level]({ path, where }, message);
  for (const [at, loaded] of configs.entries()) {
    const unused = (effects[at] ?? []).filter(
      ({ path, where }) =>
        !configs.some((other, place) => place !== at && takes(other, effects[place], path, where)),
    );
    for (const [first, ...more] of Map.groupBy(unused, ({ about }) => about).values()) {
      if (first === undefined) continue;
      const { path, where, why } = first;
      const also = more.length === 0 ? {} : { also: more.map((setting) => setting.path) };
      log.warn({ path, where, ...also }, `${loaded.process} setting ${path} has no effect: ${why}`);
    }
  }
}

/** True if a tree took a setting from this place and uses it. In standalone, one file may be for two trees. */
function takes(
  { origins }: Loaded,
  ineffective: readonly IneffectiveSetting[] = [],
  path: string,
  where: string,
): boolean {
  return origins.get(path)?.where === where && !ineffective.some((each) => each.path === path);
}
