// One policy in force: runs its circuit at its interval, and forwards decisions, queries and alerts. A tick never waits for the
// store, for answers or for Alertmanagers.

import { isDeepStrictEqual } from "node:util";
import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import { figuresOf } from "#base/text/figures.ts";
import { counted, listed, MAX_LISTED } from "#base/text/listed.ts";
import { type Decisions, decisionId } from "#circuit/actuators.ts";
import type { Circuit } from "#circuit/circuit.ts";
import type { Alert, QueryAnswer, QueryRequest, Replicas } from "#circuit/component.ts";
import type { CircuitDecision } from "#circuit/decision.ts";
import type { CircuitPlan, Kind } from "#circuit/plan.ts";
import { CircuitRunner, type Restored } from "#circuit/runner.ts";
import type { JsonObject } from "#policy/compiled.ts";
import type { PolicyMeter } from "#telemetry/metrics/circuits.ts";
import { Diagnosis } from "../diagnosis/diagnosis.ts";
import type { PolicyVersion } from "../policy-source.ts";
import { DynamicConfigGate, type DynamicConfigOutcome } from "./dynamic-config.ts";
import type { StoreWrites } from "./outbox.ts";
import { dynamicConfigEntry, entriesOf, PublishedKeys, versionEntries } from "./publication.ts";
import { type Schedule, Ticker } from "./ticker.ts";

/** The dependencies that the loops of a controller share. */
export interface LoopContext {
  readonly clock: Clock;
  /** One schedule for the ticks of all policies. */
  readonly schedule: Schedule;
  readonly outbox: { put(entries: StoreWrites): void };
  readonly queries: {
    ask(
      owner: string,
      identity: string,
      request: QueryRequest,
      answered: (answer: QueryAnswer) => void,
    ): void;
    drop(owner: string): void;
  };
  readonly alerts: { fire(alert: Alert, policyName: string, at: number): void };
  readonly metrics: {
    policy(name: string, signals: CircuitPlan["signals"]): PolicyMeter;
    remove(name: string): void;
  };
  readonly log: Pick<Log, "trace" | "debug" | "info" | "warn">;
  /** The state from which the circuit of a policy continues when it is first loaded; undefined starts afresh. */
  restore?(name: string, plan: CircuitPlan | undefined): Restored | undefined;
}

/** The last tick. */
export interface TickFacts {
  /** Counts from 1. */
  readonly number: number;
  /** Unix ms. */
  readonly at: number;
  /** Delay of its start, ms. */
  readonly lateMs: number;
}

export class PolicyLoop {
  readonly diagnosis: Diagnosis;
  readonly #name: string;
  readonly #context: LoopContext;
  readonly #runner: CircuitRunner;
  readonly #gate = new DynamicConfigGate();
  readonly #published = new PublishedKeys();
  #version: PolicyVersion;
  #ticker: Ticker | undefined;
  #meter: PolicyMeter;
  // The last tick, as fields: an object per tick would become garbage after a whole interval.
  #tickNumber = 0;
  #tickAt = Number.NaN;
  #tickLateMs = 0;
  #loadedAt = Number.NaN;
  /** First tick of the version in force, on the monotonic clock. */
  #firstTick = { at: 0, tookMs: 0 };
  #skipped = 0;

  /** Starts nothing: call `load`. */
  constructor(version: PolicyVersion, context: LoopContext) {
    const { name } = version.policy;
    this.#name = name;
    this.#context = context;
    this.#version = { ...version, dynamicConfig: undefined };
    this.#meter = context.metrics.policy(name, []);
    const { queries, alerts, clock } = context;
    this.#runner = new CircuitRunner({
      ask: (request, identity) =>
        queries.ask(name, identity, request, (answer) => {
          const { componentId: component_id, query, at } = request;
          context.log.trace?.(
            { policy: name, component_id, query, at: new Date(at), answer },
            "a query was answered",
          );
          this.#answer(identity, answer);
        }),
      alert: (alert) => alerts.fire(alert, name, clock.wall()),
      fault: (componentId, kind, thrown) => this.#threw(componentId, kind, thrown),
    });
    this.diagnosis = new Diagnosis(name, this.#runner, context);
  }

  /** The version in force, with the dynamic configuration in force. */
  get version(): PolicyVersion {
    return this.#version;
  }

  get circuit(): Circuit | undefined {
    return this.#runner.circuit;
  }

  get lastTick(): TickFacts | undefined {
    const number = this.#tickNumber;
    return number === 0 ? undefined : { number, at: this.#tickAt, lateMs: this.#tickLateMs };
  }

  /** When the version in force was loaded, Unix ms. */
  get loadedAt(): number {
    return this.#loadedAt;
  }

  /** Ticks that were skipped because their time had passed. */
  get skipped(): number {
    return this.#skipped;
  }

  /** The last decision of each component. */
  get decisions(): Iterable<CircuitDecision> {
    return this.#runner.decisions.values();
  }

  /** When the next tick is due, on the monotonic clock. */
  get due(): number {
    return this.#ticker?.due ?? Number.POSITIVE_INFINITY;
  }

  /** Reasons why the last dynamic configuration was refused, by key; empty if it is in force. */
  get refusedConfig(): ReadonlyMap<string, string> {
    return this.#gate.refused;
  }

  /**
   * Puts a version in force and runs its first tick. Returns the changed store entries: configurations and decisions together,
   * so that no agent ever has one without the other. Call `startTicks` for further ticks once these entries are on their way
   * to the store. If this throws, the previous version stays in force and ticks.
   */
  load(version: PolicyVersion): StoreWrites {
    const { policy } = version;
    const outcome = this.#gate.examine(policy, version.dynamicConfig);
    const accepted = { ...version, dynamicConfig: outcome.inForce };
    const entries = new Map(versionEntries(accepted));
    const restored = this.#runner.circuit
      ? undefined
      : this.#context.restore?.(this.#name, policy.circuit);
    this.#runner.replace(policy.circuit, outcome.inForce, restored);
    this.#ticker?.stop();
    this.#ticker = undefined;
    this.#logVersion(accepted, "a version of the policy comes into force");
    this.#version = accepted;
    this.#loadedAt = this.#context.clock.wall();
    this.#accept(outcome);
    this.diagnosis.restart(policy.circuit);
    this.#meter = this.#context.metrics.policy(this.#name, policy.circuit?.signals ?? []);
    for (const [key, value] of this.#runFirstTick()) entries.set(key, value);
    return this.#published.replace(entries);
  }

  /** Continues the ticks of a loaded version, at its interval since the first tick. */
  startTicks(): void {
    const { circuit } = this.#runner;
    if (circuit === undefined) return;
    const { intervalMs } = circuit.plan;
    this.#ticker = new Ticker({
      schedule: this.#context.schedule,
      since: this.#firstTick.at,
      firstTookMs: this.#firstTick.tookMs,
      intervalMs,
      turn: (lateMs) => {
        const fresh = this.#encode(this.#tick(lateMs));
        if (fresh.size > 0) this.#context.outbox.put(this.#published.update(fresh));
      },
      skipped: (ticks) => {
        this.#skipped += ticks;
        this.#meter.skipped(ticks);
      },
      pace: (keeps, tookMs) => this.#logPace(intervalMs, keeps, tookMs),
    });
  }

  /**
   * Replaces the dynamic configuration from the next tick on; undefined removes it. An invalid configuration is refused, and
   * the previous one stays. Returns the changed store entries.
   */
  configure(proposed: JsonObject | undefined): StoreWrites {
    const outcome = this.#gate.examine(this.#version.policy, proposed);
    this.#accept(outcome);
    this.#version = { ...this.#version, dynamicConfig: outcome.inForce };
    this.#runner.configure(outcome.inForce);
    return this.#published.update(dynamicConfigEntry(this.#name, outcome.inForce));
  }

  /** Applies the replicas that an agent reported for a pod scaler; undefined for no valid report. */
  report(componentId: string, replicas: Replicas | undefined): void {
    this.#runner.circuit?.report(componentId, replicas);
  }

  /** Ends the policy. Returns the deletes of all its store entries. */
  unload(): StoreWrites {
    this.stop();
    this.#logVersion(undefined, "the policy ends");
    this.#context.metrics.remove(this.#name);
    return this.#published.clear();
  }

  /** Stops the ticks; published entries stay in the store. */
  stop(): void {
    this.#ticker?.stop();
    this.#context.queries.drop(this.#name);
  }

  #runFirstTick(): StoreWrites {
    if (this.#runner.circuit === undefined) return new Map();
    const { clock } = this.#context;
    const at = clock.now();
    this.#tick(0);
    // Older decisions are published again under the hash of this version.
    const entries = this.#encode(this.#runner.decisions.values());
    this.#firstTick = { at, tookMs: clock.now() - at };
    return entries;
  }

  /** Returns the decisions of the tick. */
  #tick(lateMs: number): readonly CircuitDecision[] {
    const { circuit } = this.#runner;
    const at = this.#context.clock.wall();
    this.#tickNumber = (circuit?.ticks ?? 0) + 1;
    this.#tickAt = at;
    this.#tickLateMs = lateMs;
    const { log } = this.#context;
    const before = log.debug && new Map(this.#runner.decisions);
    const decisions = this.#runner.tick(at);
    if (before !== undefined) this.#logDecisions(before, decisions);
    this.#meter.ticked(lateMs, (signal) => circuit?.reading(signal) ?? Number.NaN);
    for (const { kind } of decisions) this.#meter.decided(kind);
    this.diagnosis.report();
    return decisions;
  }

  #encode(decisions: Iterable<CircuitDecision>): StoreWrites {
    return entriesOf(this.#version.policy, decisions, ({ componentId, kind }, thrown) =>
      this.#threw(componentId, kind as Kind, thrown),
    );
  }

  #answer(identity: string, answer: QueryAnswer): void {
    if (this.#runner.answer(identity, answer)) this.diagnosis.answered(identity, answer);
  }

  #threw(componentId: string, kind: Kind, thrown: unknown): void {
    this.#meter.fault(componentId, kind);
    this.diagnosis.threw(componentId, kind, thrown, this.#tickNumber);
  }

  #accept(outcome: DynamicConfigOutcome): void {
    if (!this.#gate.accept(outcome)) return;
    const policy = this.#name;
    const { refused, inForce } = outcome;
    const each = listed([...refused], ([key, why]) => `${key}: ${why}`);
    const instead = inForce === undefined ? "the policy's own values are" : "the one before stays";
    this.#context.log.warn(
      { policy, keys: [...refused.keys()].slice(0, MAX_LISTED) },
      `dynamic configuration of ${policy} was refused, ${instead} in force: ${each}`,
    );
  }

  /** Logs which version replaces which; undefined for none. */
  #logVersion(after: PolicyVersion | undefined, message: string): void {
    const { origin, policy } = this.#version;
    const before = this.#loadedAt > 0 ? policy.hash : undefined;
    const fields = { policy: this.#name, hash: after?.policy.hash, before };
    this.#context.log.debug?.({ ...fields, origin: after?.origin ?? origin }, message);
  }

  #logDecisions(before: Decisions, decisions: readonly CircuitDecision[]): void {
    const { log } = this.#context;
    const { hash } = this.#version.policy;
    const tick = { policy: this.#name, hash, tick: this.#tickNumber };
    for (const decision of decisions) {
      const { kind, componentId: component_id } = decision;
      const then = figuresOf(before.get(decisionId(decision)));
      const now = figuresOf(decision);
      const fields = { ...tick, component_id, kind };
      const shown = { before: then && counted(then), after: now && counted(now) };
      if (!isDeepStrictEqual(then, now)) log.debug?.({ ...fields, ...shown }, "a decision changed");
      else log.trace?.({ ...fields, numbers: shown.after }, "a decision was renewed");
    }
    log.trace?.(
      { ...tick, late_ms: Math.round(this.#tickLateMs), decisions: decisions.length },
      "tick",
    );
  }

  #logPace(intervalMs: number, keeps: boolean, tookMs: number): void {
    const { log } = this.#context;
    const took = Math.round(tookMs * 1_000) / 1_000;
    const fields = { policy: this.#name, evaluation_interval_ms: intervalMs, tick_ms: took };
    if (keeps) log.info(fields, "the policy keeps its evaluation interval again");
    else {
      const why = `a tick takes ${took} ms, and ticks may use a tenth of the time at most`;
      log.warn(
        fields,
        `the policy cannot keep its evaluation interval of ${intervalMs} ms: ${why}`,
      );
    }
  }
}
