// Interfaces between a running component and its circuit, and between a circuit and its host. A reading is a
// number, NaN is an invalid one. All readings of a circuit are in one array, and a wire is an index into it.

import type { CircuitDecision } from "./decision.ts";
import type { Configs, Kind } from "./plan.ts";
import type { Tick } from "./ticks.ts";

/** The result of a query. */
export type QueryAnswer =
  /** NaN is invalid. */
  | { readonly kind: "value"; readonly value: number }
  | { readonly kind: "by_label"; readonly values: ReadonlyMap<string, number> }
  /** The signal is invalid, and `why` says it in words. `empty`: the query is fine, but nothing was measured yet. */
  | { readonly kind: "failed"; readonly why: string; readonly empty?: boolean };

/** A query that a component asks. `Circuit.answer` delivers the result, which is visible from the next tick on. */
export interface QueryRequest {
  readonly componentId: string;
  readonly query: string;
  /** Unix ms, a multiple of the tick's interval. */
  readonly at: number;
  /** Time until the component asks again, ms. A later answer is useless. */
  readonly periodMs: number;
  /** When set, the answer has one number for each value of this label instead of a single number. */
  readonly byLabel: string | undefined;
}

export interface Alert {
  readonly componentId: string;
  readonly name: string;
  readonly severity: string;
  readonly resolveMs: number;
  readonly channels: readonly string[];
  readonly labels: ReadonlyMap<string, string>;
}

/** Receives what a circuit emits, during a tick. The methods must not throw and must not call `tick`. */
export interface CircuitSink {
  ask(ask: QueryRequest): void;
  decide(decision: CircuitDecision): void;
  alert(alert: Alert): void;
  /** A component threw. Its outputs are invalid in this tick; all other components ran. */
  fault(componentId: string, kind: Kind, thrown: unknown): void;
  /** A value of the dynamic configuration has a form other than `wanted`. It is ignored: the policy's own value applies. */
  ignoredOverride(key: string, wanted: string): void;
}

/**
 * Indexes of a component's ports in the array of readings. Unconnected ports have indexes too: such an in-port
 * reads invalid, and what is written to such an out-port is never read.
 */
export interface Wires {
  /** Index of a single in-port. */
  in(port: string): number;
  /** Indexes of a list in-port. */
  all(port: string): readonly number[];
  out(port: string): number;
}

/**
 * The state of a component: what it remembers from tick to tick. Plain data, so that a checkpoint can hold all of it.
 * Any object type without methods fits. Variables outside of it start anew with each circuit.
 */
export type ComponentState = Readonly<Record<string, StateField>>;

export type StateField = number | boolean | readonly number[] | ReadonlyMap<string, number>;

/** The functions of a circuit for one of its components. */
export interface ComponentContext {
  readonly id: string;
  readonly intervalMs: number;
  /** Number of ticks in a duration of `ms`, rounded up. */
  ticks(ms: number): number;
  /**
   * The component's state: that of the same component in the circuit before, or else `begin()`. Must be called at most
   * once.
   */
  state<S extends ComponentState>(begin: () => S): S;
  ask(ask: Pick<QueryRequest, "query" | "at" | "periodMs" | "byLabel">): void;
  decide(decision: CircuitDecision): void;
  alert(alert: Alert): void;
}

/** Overrides from the dynamic configuration, by `*_config_key`. Undefined means that the policy's value applies. */
export interface Overrides {
  number(key: string): number | undefined;
  boolean(key: string): boolean | undefined;
  texts(key: string): readonly string[] | undefined;
}

export interface RunningComponent {
  /** Evaluates one tick: reads and writes `readings` at its wires. Outputs that it does not write stay invalid. */
  run(readings: Float64Array, tick: Tick): void;
  /** Called before the first tick and after every change of the dynamic configuration. */
  configure?(overrides: Overrides): void;
  answer?(answer: QueryAnswer): void;
  /** Receives the replicas that an agent reported; undefined when no report is valid. */
  report?(replicas: Replicas | undefined): void;
}

export interface Replicas {
  readonly configured: number;
  readonly actual: number;
}

/** Creates a component that is ready to run. */
export type ComponentFactory<K extends Kind> = (
  config: Configs[K],
  wires: Wires,
  around: ComponentContext,
) => RunningComponent;

export type ComponentFactories = { readonly [K in Kind]: ComponentFactory<K> };

/** The reading at an index. */
export function read(readings: Float64Array, at: number): number {
  return readings[at] ?? Number.NaN;
}

/** True for valid readings other than 0. */
export function truthy(reading: number): boolean {
  return reading !== 0 && !Number.isNaN(reading);
}
