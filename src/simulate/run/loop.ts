// The controller of one policy in virtual time: the real circuit, ticked when told, its decisions handed over
// as the bytes that a store would hold.

import { Circuit } from "#circuit/circuit.ts";
import type { Ask, Decision, Outside } from "#circuit/component.ts";
import type { DynamicConfig } from "#circuit/overrides.ts";
import type { CircuitPlan } from "#circuit/plan.ts";
import type { Measure } from "#promql/result.ts";
import { decisionEntries } from "#store/rules.ts";
import type { Alarms } from "./alarms.ts";
import { measured, type Scripted } from "./answers.ts";
import { signalNames } from "./names.ts";
import type { Notes } from "./notes.ts";
import type { Series } from "./series.ts";

export interface LoopWorld {
  /** By component, where the scenario answers. */
  readonly scripts: ReadonlyMap<string, Scripted>;
  readonly measure: Measure;
  readonly series: Series;
  readonly notes: Notes;
  readonly alerts: Alarms;
  /** Decisions on their way to the agent; undefined takes one back. */
  publish(entries: ReadonlyMap<string, Uint8Array | undefined>): void;
}

export class Loop {
  readonly #plan: CircuitPlan;
  readonly #world: LoopWorld;
  readonly #names: readonly string[];
  readonly #circuit: Circuit;
  #asks: Ask[] = [];
  #decisions: Decision[] = [];
  #now = 0;

  constructor(plan: CircuitPlan, config: DynamicConfig | undefined, world: LoopWorld) {
    this.#plan = plan;
    this.#world = world;
    this.#names = signalNames(plan);
    this.#circuit = new Circuit(plan, this.#outside(), config);
  }

  get intervalMs(): number {
    return this.#plan.intervalMs;
  }

  /** From `now` ms of the run on. */
  configure(config: DynamicConfig, now: number): void {
    this.#now = now;
    this.#circuit.configure(config);
  }

  /** Ticks at `now` ms of the run. Decisions are in force, and queries answered, when it resolves. */
  async tick(now: number, epoch: number): Promise<void> {
    this.#now = now;
    this.#circuit.tick(epoch + now);
    for (const [at, name] of this.#names.entries()) {
      this.#world.series.add(name, now, this.#circuit.reading(at));
    }
    this.#publish();
    const asks = this.#asks;
    this.#asks = [];
    for (const ask of asks) await this.#answer(ask, now);
  }

  #publish(): void {
    const { policyName: name, policyHash: hash } = this.#plan;
    const entries = this.#decisions.flatMap((one) => [...decisionEntries({ name, hash }, one)]);
    this.#decisions = [];
    if (entries.length > 0) this.#world.publish(new Map(entries));
  }

  async #answer(ask: Ask, now: number): Promise<void> {
    const { scripts, measure, notes } = this.#world;
    const script = scripts.get(ask.componentId);
    const answer = script === undefined ? await measured(measure, ask) : script(now);
    if (answer.kind === "failed") {
      notes.add(`${this.#plan.policyName}: query of ${ask.componentId}: ${answer.why}`, now);
    }
    this.#circuit.answer(ask.componentId, answer);
  }

  #outside(): Outside {
    const { notes, alerts } = this.#world;
    const own = this.#plan.policyName;
    return {
      ask: (ask) => void this.#asks.push(ask),
      decide: (decision) => void this.#decisions.push(decision),
      alert: (alert) => alerts.raise(own, alert, this.#now, this.intervalMs),
      fault: (id, kind, thrown) => {
        const why = thrown instanceof Error ? thrown.message : String(thrown);
        notes.add(`${own}: component ${id} (${kind}) failed: ${why}`, this.#now);
      },
      setAside: (key, wanted) =>
        notes.add(`${own}: dynamic configuration ${key}: wanted ${wanted}`, this.#now),
    };
  }
}
