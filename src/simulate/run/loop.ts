// The controller of one policy in virtual time. It uses the same circuit runner as the real controller, and passes
// decisions on as the bytes that a store would hold.

import type { QueryRequest } from "#circuit/component.ts";
import type { CircuitPlan } from "#circuit/plan.ts";
import { CircuitRunner } from "#circuit/runner.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import { type DynamicKeys, dynamicKeys, unfitValues } from "#policy/dynamic.ts";
import type { QueryEngine } from "#promql/result.ts";
import { decisionEntries } from "#sync/publish/decision.ts";
import { evaluateQuery, type Scripted } from "./answers.ts";
import { signalNames } from "./names.ts";
import type { AlertHistory } from "./results/alerts.ts";
import type { Notes } from "./results/notes.ts";
import type { RunSeries } from "./results/series.ts";

/** Dependencies of the simulated controller of one policy. */
export interface SimulatedLoopContext {
  /** By component, where the scenario answers its query. */
  readonly scripts: ReadonlyMap<string, Scripted>;
  readonly measure: QueryEngine;
  readonly series: RunSeries;
  readonly notes: Notes;
  readonly alerts: AlertHistory;
  /** Sends entries to the agent; undefined deletes a key. */
  publish(entries: ReadonlyMap<string, Uint8Array | undefined>): void;
}

/** A policy with a circuit; policies without one never run. */
export type RunningPolicy = CompiledPolicy & { readonly circuit: CircuitPlan };

export class SimulatedLoop {
  readonly #policy: RunningPolicy;
  readonly #context: SimulatedLoopContext;
  readonly #names: readonly string[];
  readonly #keys: DynamicKeys;
  readonly #runner: CircuitRunner;
  #asks: { readonly ask: QueryRequest; readonly identity: string }[] = [];
  #now = 0;

  constructor(policy: RunningPolicy, context: SimulatedLoopContext) {
    const { name, circuit, document, dynamicConfig } = policy;
    this.#policy = policy;
    this.#context = context;
    this.#names = signalNames(circuit);
    this.#keys = dynamicKeys(document);
    const { notes, alerts } = context;
    this.#runner = new CircuitRunner({
      ask: (ask, identity) => void this.#asks.push({ ask, identity }),
      alert: (alert) => alerts.raise(name, alert, this.#now, this.intervalMs),
      fault: (id, kind, thrown) => {
        const why = thrown instanceof Error ? thrown.message : String(thrown);
        notes.add(`${name}: component ${id} (${kind}) failed: ${why}`, this.#now);
      },
    });
    this.#runner.replace(circuit, dynamicConfig);
    this.#noteUnfit(dynamicConfig);
  }

  get intervalMs(): number {
    return this.#policy.circuit.intervalMs;
  }

  /** Replaces the dynamic configuration, `now` ms into the run. */
  configure(config: JsonObject, now: number): void {
    this.#now = now;
    this.#runner.configure(config);
    this.#noteUnfit(config);
  }

  /**
   * Ticks `now` ms into the run, which began at `epoch` (Unix ms). When it resolves, decisions are in force and
   * queries are answered.
   */
  async tick(now: number, epoch: number): Promise<void> {
    const { series, publish } = this.#context;
    this.#now = now;
    const decisions = this.#runner.tick(epoch + now);
    const { circuit } = this.#runner;
    for (const [at, name] of this.#names.entries()) {
      series.add(name, now, circuit?.reading(at) ?? Number.NaN);
    }
    const entries = decisions.flatMap((one) => [...decisionEntries(this.#policy, one)]);
    if (entries.length > 0) publish(new Map(entries));
    const asks = this.#asks;
    this.#asks = [];
    for (const { ask, identity } of asks) await this.#answer(ask, identity, now);
  }

  async #answer(ask: QueryRequest, identity: string, now: number): Promise<void> {
    const { scripts, measure, notes } = this.#context;
    const script = scripts.get(ask.componentId);
    const answer = script === undefined ? await evaluateQuery(measure, ask) : script(now);
    if (answer.kind === "failed") {
      notes.add(`${this.#policy.name}: query of ${ask.componentId}: ${answer.why}`, now);
    }
    this.#runner.answer(identity, answer);
  }

  #noteUnfit(config: JsonObject | undefined): void {
    for (const { key, wanted } of unfitValues(this.#keys, config ?? {})) {
      const note = `${this.#policy.name}: dynamic configuration ${key}: wanted ${wanted}`;
      this.#context.notes.add(note, this.#now);
    }
  }
}
