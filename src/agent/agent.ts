// The agent: what follows the store, judges flows and stands behind the port, joined and started in order.
// Nothing is decided here.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { Fault } from "#base/fault.ts";
import type { Scope } from "#base/scope.ts";
import type { AgentConfig } from "#config/tree.ts";
import { mindOf } from "#flow/mind.ts";
import { Rulebook } from "#flow/rulebook.ts";
import type { Health } from "#host/health.ts";
import type { Port } from "#serve/port.ts";
import type { Store } from "#store/store.ts";
import { AccessLog } from "#telemetry/access-log.ts";
import { FlowMetrics } from "#telemetry/flow-metrics.ts";
import { FluxMeters } from "#telemetry/flux-meter.ts";
import type { Log } from "#telemetry/log.ts";
import type { Metrics } from "#telemetry/metrics.ts";
import { ServerMetrics } from "#telemetry/server-metrics.ts";
import { follow } from "./follow.ts";
import { type Guests, openDebugPort, openMainPort } from "./ports.ts";

export interface AgentOptions {
  readonly config: AgentConfig;
  /** True when a person chose the debug port: then it must be had. */
  readonly debugPortChosen: boolean;
  readonly store: Store;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly scope: Scope;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly argv: readonly string[];
  /** What others who live in this process show on its main port. */
  readonly guests?: Guests;
  /** Something essential broke while serving. */
  fail(message: string, cause?: unknown): void;
}

export interface Agent {
  readonly port: Port;
  /** Address of the debug port, or undefined where there is none. */
  readonly debugAddress: string | undefined;
  readonly book: Rulebook;
}

/** Starts an agent; when this returns it judges by the store's rules and accepts calls. */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { config, metrics, health, scope, clock, chance } = options;
  const decisions = new FlowMetrics(config.agent_info);
  const traffic = new ServerMetrics(config.server);
  const fluxMeters = new FluxMeters();
  for (const source of [decisions, traffic, fluxMeters]) metrics.add(source);
  const world = { clock, chance, observer: decisions, maxKeys: config.flow_control.max_keys };
  const book = new Rulebook(config.agent_info.agent_group, world);
  await followStore(options, book, () => {
    decisions.keep(keptOf(book));
    fluxMeters.keep([...book.rules.values()].filter((rule) => rule.kind === "flux_meter"));
  });
  const mind = mindOf(book, world);
  const logs = new AccessLog(fluxMeters, (slots) => void mind.end(slots));
  metrics.add(logs);
  // First up and last down: what happens while the main port drains can still be seen.
  const debug = await openDebugPort({ ...options, meter: traffic });
  if (debug !== undefined) scope.add("debug port", () => debug.cut());
  const main = await openMainPort({ ...options, mind, logs, meter: traffic });
  scope.add("port", (speed) => {
    health.enter("stopping");
    return speed === "cut" ? main.cut() : main.drain();
  });
  health.enter("running");
  return { port: main, debugAddress: debug?.address, book };
}

/** `swapped` is called in the turn in which another plan came into force; new numbers alone change none. */
async function followStore(options: AgentOptions, book: Rulebook, swapped: () => void) {
  const { config, store, health, scope, fail } = options;
  const log = options.log.child("rules");
  const status = health.component("rules");
  const stop = new AbortController();
  let plan: Rulebook["plan"] | undefined;
  const { ready, ended } = follow({
    store,
    group: config.agent_info.agent_group,
    book,
    signal: stop.signal,
    applied(revision, { refused, notRun, fresh }) {
      if (book.plan !== plan) swapped();
      plan = book.plan;
      for (const [key, fault] of refused) {
        if (!fresh.has(key)) continue;
        log.error({ revision }, `rule refused, its predecessor stays: ${key}: ${fault.message}`);
      }
      for (const [key, part] of notRun) {
        if (fresh.has(key)) log.warn({ revision }, `in force without a part: ${key}: ${part}`);
      }
      const lines = [...refused].map(([key, fault]) => `${key}: ${fault.message}`);
      if (lines.length > 0) status.fail(`rules refused: ${lines.join("; ")}`);
      else status.ok(`${book.rules.size} rules in force at revision ${revision}`);
    },
  });
  scope.add("rules", async () => {
    stop.abort();
    await ended;
  });
  ended.then(
    () => stop.signal.aborted || fail("the store ended its watch"),
    (thrown: Fault) => fail("following the store failed", thrown),
  );
  await ready;
}

/** What metrics keep series for: the components of the plan in force. */
function keptOf(book: Rulebook) {
  const points = [...book.plan.points.values()];
  const components = points.flatMap(({ limiters }) => limiters.map(({ component }) => component));
  const classifiers = [...book.rules.values()].flatMap((rule) =>
    rule.kind === "classifier" ? [{ ...rule, classifierIndex: rule.index }] : [],
  );
  return { components, classifiers, controlPoints: book.plan.points.keys() };
}
