// Runs one version of a control loop. Pure: the caller ticks it and answers its queries, and everything that it
// emits goes to a `CircuitSink`. A component that throws does not stop the others. What it remembers is its `memory`,
// from which the circuit of the next version goes on, or that of the next controller.

import type {
  Alert,
  CircuitSink,
  ComponentContext,
  ComponentState,
  QueryAnswer,
  QueryRequest,
  Replicas,
  RunningComponent,
  StateField,
  Wires,
} from "./component.ts";
import type { CircuitDecision } from "./decision.ts";
import { type DynamicConfig, overridesOf } from "./overrides.ts";
import type { CircuitPlan, Leaf, Wire } from "./plan.ts";
import { createComponent } from "./registry.ts";
import type { Tick } from "./ticks.ts";
import { ticksOf } from "./ticks.ts";

/** Index that always reads invalid. */
const OPEN = 0;
/** Index that unconnected out-ports write to. */
const DISCARD = 1;
/** Index of the first signal. */
const FIRST = 2;

/** Shared, because an empty map takes as much memory as one with four entries, and there is one for each policy. */
const NONE: ReadonlyMap<string, never> = new Map<string, never>();

interface PlacedComponent {
  readonly leaf: Leaf;
  readonly running: RunningComponent;
  /** State that is kept from tick to tick, and from one circuit of a policy to the next. */
  readonly state: ComponentState | undefined;
}

/** The memory of a circuit between two ticks. */
export interface CircuitMemory {
  /** Milliseconds. States count in ticks, so a circuit of another interval can use none of them. */
  readonly intervalMs: number;
  /** Number of ticks so far. */
  readonly ticks: number;
  /** By the identity of the component; only of components that have any. */
  readonly states: ReadonlyMap<string, ComponentState>;
  /** Readings of the last tick, by the port and the identity of the component that writes the signal. */
  readonly written: ReadonlyMap<string, number>;
  /** The same readings by the names of their signals, for signals whose writer has changed. */
  readonly named: ReadonlyMap<string, number>;
}

export class Circuit {
  readonly plan: CircuitPlan;
  readonly #sink: CircuitSink;
  readonly #readings: Float64Array;
  /** Pairs of indexes: where a looped signal is written, and where its previous reading is read. */
  readonly #loops: readonly (readonly [number, number])[];
  readonly #order: readonly PlacedComponent[];
  /** Components that may ask queries, by id. */
  readonly #querying: ReadonlyMap<string, PlacedComponent>;
  #tickCount = 0;

  /**
   * `before` is the memory of the circuit that this one replaces: that of the previous version of the policy, or of the
   * controller that ran it until now. If the evaluation interval is unchanged, components of equal identity keep their
   * state, signals their last readings, and the tick count continues.
   */
  constructor(
    plan: CircuitPlan,
    sink: CircuitSink,
    config: DynamicConfig | undefined,
    before?: CircuitMemory,
  ) {
    this.plan = plan;
    this.#sink = sink;
    const places = new Places(plan);
    const kept = before?.intervalMs === plan.intervalMs ? before : undefined;
    const placed = plan.leaves.map((leaf) =>
      this.#place(leaf, places.wires(leaf), kept?.states.get(leaf.identity)),
    );
    // Sliced, because an array that grows has room for sixteen more elements, and there is one for each policy.
    this.#order = plan.order.flatMap((at) => placed[at] ?? []).slice();
    const querying = this.#order.filter(({ running }) => running.answer !== undefined);
    this.#querying =
      querying.length === 0 ? NONE : new Map(querying.map((placed) => [placed.leaf.id, placed]));
    this.#readings = places.readings();
    this.#loops = places.loops();
    if (kept !== undefined) this.#takeOver(kept);
    this.configure(config);
  }

  /** Number of ticks so far. */
  get ticks(): number {
    return this.#tickCount;
  }

  /** Evaluates every component once. `timestamp` is Unix ms. */
  tick(timestamp: number): void {
    const readings = this.#readings;
    for (const [from, to] of this.#loops) readings[to] = readings[from] ?? Number.NaN;
    readings.fill(Number.NaN, FIRST, FIRST + this.plan.signals.length);
    this.#tickCount += 1;
    const tick: Tick = { number: this.#tickCount, timestamp, intervalMs: this.plan.intervalMs };
    for (const { leaf, running } of this.#order) {
      try {
        running.run(readings, tick);
      } catch (thrown) {
        for (const signal of Object.values(leaf.outputs)) {
          if (signal !== undefined) readings[FIRST + signal] = Number.NaN;
        }
        this.#sink.fault(leaf.id, leaf.kind, thrown);
      }
    }
  }

  /** The memory that the next circuit goes on from. States are those of running components: they change at a tick. */
  memory(): CircuitMemory {
    const states = this.#order.flatMap(({ leaf, state }) =>
      state === undefined ? [] : [[leaf.identity, state] as const],
    );
    const { intervalMs, signals } = this.plan;
    return {
      intervalMs,
      ticks: this.#tickCount,
      states: new Map(states),
      written: new Map(writersIn(this.plan).map(([writer, at]) => [writer, this.reading(at)])),
      named: new Map(signals.map((signal, at) => [nameOf(signal), this.reading(at)])),
    };
  }

  /** The identity of a component that may ask queries. */
  identityOf(componentId: string): string | undefined {
    return this.#querying.get(componentId)?.leaf.identity;
  }

  /** Reading of a signal, by its index in the plan, in the last tick; NaN is invalid. */
  reading(signal: number): number {
    return this.#readings[FIRST + signal] ?? Number.NaN;
  }

  /** The answer to a query that this circuit, or the one before it, asked. Unknown components are ignored. */
  answer(componentId: string, answer: QueryAnswer): void {
    this.#querying.get(componentId)?.running.answer?.(answer);
  }

  /** Reports the replicas of a pod scaler, by the id of the scaler. */
  report(componentId: string, replicas: Replicas | undefined): void {
    for (const { leaf, running } of this.#order) {
      if (leaf.kind === "pod_scale_reporter" && leaf.config.component_id === componentId) {
        running.report?.(replicas);
      }
    }
  }

  /** Replaces the whole dynamic configuration; undefined is an empty one. */
  configure(config: DynamicConfig | undefined): void {
    const overrides = overridesOf(config, (key, wanted) => this.#sink.ignoredOverride(key, wanted));
    for (const { running } of this.#order) running.configure?.(overrides);
  }

  /** `before` is the state of the same component in the circuit before. */
  #place(leaf: Leaf, wires: Wires, before: ComponentState | undefined): PlacedComponent {
    const context = new LeafContext(leaf.id, this.plan.intervalMs, this.#sink, before);
    const running = createComponent(leaf, wires, context);
    return { leaf, running, state: context.ownState };
  }

  /** Takes over readings of signals: by the component that writes them, or by name where that has changed. */
  #takeOver({ ticks, written, named }: CircuitMemory): void {
    this.#tickCount = ticks;
    const same = new Map(writersIn(this.plan).map(([writer, at]) => [at, written.get(writer)]));
    for (const [at, signal] of this.plan.signals.entries()) {
      const reading = same.get(at) ?? named.get(nameOf(signal));
      if (reading !== undefined) this.#readings[FIRST + at] = reading;
    }
  }
}

/** The functions of a circuit for one of its components. */
class LeafContext implements ComponentContext {
  readonly id: string;
  readonly intervalMs: number;
  /** The state that the component asked for; undefined if it has none. */
  ownState: ComponentState | undefined;
  readonly #sink: CircuitSink;
  #before: ComponentState | undefined;

  constructor(
    id: string,
    intervalMs: number,
    sink: CircuitSink,
    before: ComponentState | undefined,
  ) {
    this.id = id;
    this.intervalMs = intervalMs;
    this.#sink = sink;
    this.#before = before;
  }

  ticks(ms: number): number {
    return ticksOf(ms, this.intervalMs);
  }

  state<S extends ComponentState>(begin: () => S): S {
    const own = begin();
    const before = this.#before;
    this.#before = undefined;
    // Equal identities have states of the same form, unless another release of Sluice made a checkpoint.
    if (before !== undefined && isLike(before, own)) Object.assign(own, before);
    this.ownState = own;
    return own;
  }

  ask(ask: Parameters<ComponentContext["ask"]>[0]): void {
    this.#sink.ask({ componentId: this.id, ...ask } satisfies QueryRequest);
  }

  decide(decision: CircuitDecision): void {
    this.#sink.decide(decision);
  }

  alert(alert: Alert): void {
    this.#sink.alert(alert);
  }
}

function nameOf({ circuit, name }: CircuitPlan["signals"][number]): string {
  return `${circuit}/${name}`;
}

/** True if a state has the fields of another, of the same types. */
function isLike(state: ComponentState, other: ComponentState): boolean {
  const fields = Object.entries(other);
  return (
    fields.length === Object.keys(state).length &&
    fields.every(([name, field]) => typeOf(state[name]) === typeOf(field))
  );
}

function typeOf(field: StateField | undefined): string {
  return Array.isArray(field) ? "array" : typeof field;
}

/** The port and the identity of the component that writes each signal, and the index of the signal. */
export function writersIn({ leaves }: CircuitPlan): [string, number][] {
  return leaves.flatMap(({ identity, outputs }) =>
    Object.entries(outputs).flatMap(([port, signal]): [string, number][] =>
      signal === undefined ? [] : [[`${port} ${identity}`, signal]],
    ),
  );
}

/** Assigns to every wire of a plan its index in the array of readings. */
class Places {
  readonly #constants = new Map<number, number>();
  readonly #looped = new Map<number, number>();
  #next: number;

  constructor(plan: CircuitPlan) {
    this.#next = FIRST + plan.signals.length;
  }

  wires({ inputs, outputs }: Leaf) {
    const all = (port: string) => (inputs[port] ?? []).map((wire) => this.#placeOf(wire));
    return {
      all,
      in: (port: string) => all(port)[0] ?? OPEN,
      out: (port: string) => {
        const signal = outputs[port];
        return signal === undefined ? DISCARD : FIRST + signal;
      },
    };
  }

  loops(): readonly (readonly [number, number])[] {
    return [...this.#looped].map(([signal, place]) => [FIRST + signal, place] as const);
  }

  /** The array of readings before the first tick. */
  readings(): Float64Array {
    const readings = new Float64Array(this.#next).fill(Number.NaN);
    for (const [value, place] of this.#constants) readings[place] = value;
    return readings;
  }

  #placeOf(wire: Wire): number {
    if (wire.kind === "open") return OPEN;
    if (wire.kind === "constant") return this.#own(this.#constants, wire.value);
    return wire.looped ? this.#own(this.#looped, wire.signal) : FIRST + wire.signal;
  }

  #own(places: Map<number, number>, key: number): number {
    const place = places.get(key) ?? this.#next++;
    places.set(key, place);
    return place;
  }
}
