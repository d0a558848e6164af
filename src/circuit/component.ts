// What a component is while it runs, and what it may ask of the circuit around it. A reading is a number;
// NaN is an invalid one. All readings of a circuit lie in one array, so a wire is a place in it.

import type { Configs, Kind } from "./plan.ts";

export interface Tick {
  /** Counts from 1. */
  readonly number: number;
  /** Unix ms. */
  readonly timestamp: number;
  readonly intervalMs: number;
}

/** What came of a query. */
export type Answer =
  /** NaN is invalid. */
  | { readonly kind: "value"; readonly value: number }
  | { readonly kind: "by_label"; readonly values: ReadonlyMap<string, number> }
  /** The signal is invalid; `why` is for people. `empty`: nothing is wrong, but nothing was measured yet. */
  | { readonly kind: "failed"; readonly why: string; readonly empty?: boolean };

/** One measurement that is wanted. Answered through `Circuit.answer`, seen from the next tick on. */
export interface Ask {
  readonly componentId: string;
  readonly query: string;
  /** Unix ms, a multiple of the tick's interval. */
  readonly at: number;
  /** How long until the same query comes again, ms: an answer later than that is of no use. */
  readonly everyMs: number;
  /** Wanted: one number for each value of this label, instead of one number. */
  readonly byLabel: string | undefined;
}

/** Numbers for agents. Sent when they change, the first ones always. */
export type Decision = { readonly componentId: string; readonly agentGroups: readonly string[] } & (
  | {
      readonly kind: "load_scheduler";
      readonly tick: Tick;
      readonly loadMultiplier: number;
      readonly passThrough: boolean;
      readonly tokensByWorkload: ReadonlyMap<string, number>;
      /** Unix ms. */
      readonly validUntil: number;
    }
  | {
      readonly kind: "rate_limiter" | "quota_scheduler";
      readonly bucketCapacity: number;
      readonly fillAmount: number;
      readonly passThrough: boolean;
    }
  | {
      readonly kind: "concurrency_limiter" | "concurrency_scheduler";
      readonly maxConcurrency: number;
      readonly passThrough: boolean;
    }
  | {
      readonly kind: "sampler";
      readonly acceptPercentage: number;
      readonly passThroughLabelValues: readonly string[];
    }
  /** Undefined takes the decision back: the scale is left alone. */
  | { readonly kind: "pod_scaler"; readonly desiredReplicas: number | undefined }
);

export interface Alert {
  readonly componentId: string;
  readonly name: string;
  readonly severity: string;
  readonly resolveMs: number;
  readonly channels: readonly string[];
  readonly labels: ReadonlyMap<string, string>;
}

/** Where a circuit speaks. Called during a tick; must not throw and must not tick. */
export interface Outside {
  ask(ask: Ask): void;
  decide(decision: Decision): void;
  alert(alert: Alert): void;
  /** A component threw: its outputs are invalid in this tick, everything else went on. */
  fault(componentId: string, kind: Kind, thrown: unknown): void;
  /** A value of the dynamic configuration has another form than `wanted`: the policy's own is in force. */
  setAside(key: string, wanted: string): void;
}

/** Places of a component's ports in the array of readings. Every place can be read or written: an
 * unconnected in-port reads invalid, and what is written to an unconnected out-port goes nowhere. */
export interface Wires {
  /** A single in-port. */
  in(port: string): number;
  /** A list in-port. */
  all(port: string): readonly number[];
  out(port: string): number;
}

/** The circuit around one component. */
export interface Around {
  readonly id: string;
  readonly intervalMs: number;
  /** Ticks that a duration (ms) takes: rounded up. */
  ticks(ms: number): number;
  /** The component's state: that of its former self where there was one, else `begin()`. Call it once. */
  keep<S extends object>(begin: () => S): S;
  ask(ask: Pick<Ask, "query" | "at" | "everyMs" | "byLabel">): void;
  decide(decision: Decision): void;
  alert(alert: Alert): void;
}

/** Overrides by the names that a policy chose for them (`*_config_key`). Undefined: the policy's own value. */
export interface Overrides {
  number(key: string): number | undefined;
  boolean(key: string): boolean | undefined;
  texts(key: string): readonly string[] | undefined;
}

export interface Running {
  /** Reads and writes `readings` at its wires. Outputs that it does not write are invalid in this tick. */
  run(readings: Float64Array, tick: Tick): void;
  /** Called once before the first tick and after every change. */
  configure?(overrides: Overrides): void;
  answer?(answer: Answer): void;
  /** Replicas as an agent reported them; undefined when no report stands. */
  report?(replicas: Replicas | undefined): void;
}

export interface Replicas {
  readonly configured: number;
  readonly actual: number;
}

/** Makes a component ready to run. */
export type Make<K extends Kind> = (config: Configs[K], wires: Wires, around: Around) => Running;

/** The reading at a place. */
export function read(readings: Float64Array, at: number): number {
  return readings[at] ?? Number.NaN;
}

export function truthy(reading: number): boolean {
  return reading !== 0 && !Number.isNaN(reading);
}
