// Runs a single component: the test sets its inputs and collects what it emits.

import type {
  Alert,
  QueryAnswer,
  QueryRequest,
  Replicas,
  RunningComponent,
} from "#circuit/component.ts";
import type { CircuitDecision } from "#circuit/decision.ts";
import { type DynamicConfig, overridesOf } from "#circuit/overrides.ts";
import type { Configs, Kind, Leaf } from "#circuit/plan.ts";
import { createComponent } from "#circuit/registry.ts";
import { ticksOf } from "#circuit/ticks.ts";

/** An invalid reading. */
export const INVALID = Number.NaN;

export type Inputs = Readonly<Record<string, number | readonly number[]>>;

interface Settings {
  readonly intervalMs?: number;
  /** Number of inputs of the list port. */
  readonly inputs?: number;
  /** The component has no in-ports, not even unconnected ones. */
  readonly portless?: true;
  /** State of the previous version of the component. */
  readonly state?: object | undefined;
}

export class One {
  readonly decisions: CircuitDecision[] = [];
  readonly alerts: Alert[] = [];
  readonly asks: Omit<QueryRequest, "componentId">[] = [];
  state: object | undefined;
  readonly #running: RunningComponent;
  readonly #readings = new Float64Array(64).fill(INVALID);
  readonly #places = new Map<string, number>();
  readonly #intervalMs: number;
  #number = 0;

  constructor(kind: Kind, config: Configs[Kind], settings: Settings = {}) {
    const { intervalMs = 1_000, inputs = 0, portless = false } = settings;
    this.#intervalMs = intervalMs;
    const leaf = { id: "root.0", kind, config, inputs: {}, outputs: {}, identity: "one" } as Leaf;
    const listed = Array.from({ length: inputs }, (_, at) => this.#place(`inputs ${at}`));
    const wires = {
      in: (port: string) => this.#place(port),
      all: (port: string) => (portless ? [] : port === "inputs" ? listed : [this.#place(port)]),
      out: (port: string) => this.#place(`-> ${port}`),
    };
    this.#running = createComponent(leaf, wires, {
      id: "root.0",
      intervalMs,
      ticks: (ms) => ticksOf(ms, intervalMs),
      state: <S extends object>(begin: () => S) => {
        const state = (settings.state as S | undefined) ?? begin();
        this.state = state;
        return state;
      },
      ask: (ask) => void this.asks.push(ask),
      decide: (decision) => void this.decisions.push(decision),
      alert: (alert) => void this.alerts.push(alert),
    });
  }

  /** Runs one tick and returns an output. Ports that are not listed read invalid. */
  tick(inputs: Inputs = {}, output = "output"): number {
    this.#readings.fill(INVALID);
    for (const [port, given] of Object.entries(inputs)) {
      if (typeof given === "number") this.#readings[this.#place(port)] = given;
      else
        for (const [at, each] of given.entries())
          this.#readings[this.#place(`inputs ${at}`)] = each;
    }
    this.#number += 1;
    this.#running.run(this.#readings, {
      number: this.#number,
      timestamp: 1_700_000_000_123 + this.#number * this.#intervalMs,
      intervalMs: this.#intervalMs,
    });
    return this.output(output);
  }

  output(port: string): number {
    return this.#readings[this.#place(`-> ${port}`)] ?? INVALID;
  }

  /** Runs one tick for each reading of `port`; returns the readings of `output`. */
  column(readings: readonly number[], port = "input"): readonly number[] {
    return readings.map((reading) => this.tick({ [port]: reading }));
  }

  configure(config: DynamicConfig | undefined): void {
    this.#running.configure?.(overridesOf(config, () => undefined));
  }

  answer(answer: QueryAnswer): void {
    this.#running.answer?.(answer);
  }

  report(replicas: Replicas | undefined): void {
    this.#running.report?.(replicas);
  }

  #place(name: string): number {
    const place = this.#places.get(name) ?? this.#places.size;
    this.#places.set(name, place);
    return place;
  }
}

export function one<K extends Kind>(kind: K, config: Configs[K], settings?: Settings): One {
  return new One(kind, config, settings);
}
