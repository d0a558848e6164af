// One control loop, running. Pure: a tick comes when the caller says so, answers to its queries likewise, and
// everything it has to say goes to `Outside`. No component can stop another.

import type {
  Alert,
  Answer,
  Around,
  Ask,
  Decision,
  Outside,
  Replicas,
  Running,
  Tick,
} from "./component.ts";
import { makeComponent } from "./components.ts";
import { type DynamicConfig, overridesOf } from "./overrides.ts";
import type { CircuitPlan, Leaf, Wire } from "./plan.ts";
import { ticksOf } from "./ticks.ts";

/** Reads invalid for ever. */
const OPEN = 0;
/** Takes what unconnected out-ports write. */
const NOWHERE = 1;
/** Signals follow. */
const FIRST = 2;

interface Placed {
  readonly leaf: Leaf;
  readonly running: Running;
  /** What the component keeps from tick to tick, and from one version of a policy to the next. */
  readonly state: object | undefined;
}

export class Circuit {
  readonly plan: CircuitPlan;
  readonly #outside: Outside;
  readonly #readings: Float64Array;
  /** Pairs of places: where a looped signal is written, and where its last reading is read. */
  readonly #loops: readonly (readonly [number, number])[];
  readonly #order: readonly Placed[];
  #number = 0;

  /**
   * `before` is the circuit that this one takes over from: components that are the same keep their state,
   * looped signals their last reading, and ticks go on counting where the interval is unchanged.
   */
  constructor(
    plan: CircuitPlan,
    outside: Outside,
    config: DynamicConfig | undefined,
    before?: Circuit,
  ) {
    this.plan = plan;
    this.#outside = outside;
    const places = new Places(plan);
    const kept = before?.plan.intervalMs === plan.intervalMs ? before : undefined;
    const states = new Map(kept === undefined ? [] : kept.#states());
    const placed = plan.leaves.map((leaf) => this.#place(leaf, places, states));
    this.#order = plan.order.flatMap((at) => placed[at] ?? []);
    this.#readings = places.readings();
    this.#loops = places.loops();
    if (kept !== undefined) this.#takeOver(kept);
    this.configure(config);
  }

  /** How many ticks were run. */
  get ticks(): number {
    return this.#number;
  }

  /** Evaluates every component once. `timestamp` is Unix ms. */
  tick(timestamp: number): void {
    const readings = this.#readings;
    for (const [from, to] of this.#loops) readings[to] = readings[from] ?? Number.NaN;
    readings.fill(Number.NaN, FIRST, FIRST + this.plan.signals.length);
    this.#number += 1;
    const tick: Tick = { number: this.#number, timestamp, intervalMs: this.plan.intervalMs };
    for (const { leaf, running } of this.#order) {
      try {
        running.run(readings, tick);
      } catch (thrown) {
        for (const signal of Object.values(leaf.outputs)) {
          if (signal !== undefined) readings[FIRST + signal] = Number.NaN;
        }
        this.#outside.fault(leaf.id, leaf.kind, thrown);
      }
    }
  }

  /** What the signal at this place of the plan was in the last tick; NaN is invalid. */
  reading(signal: number): number {
    return this.#readings[FIRST + signal] ?? Number.NaN;
  }

  /** The answer to a query that this circuit, or the one before it, asked. Unknown components are none. */
  answer(componentId: string, answer: Answer): void {
    const asked = this.#order.find(({ leaf }) => leaf.id === componentId);
    asked?.running.answer?.(answer);
  }

  /** Replicas of a pod scaler, by the id of the scaler. */
  report(componentId: string, replicas: Replicas | undefined): void {
    for (const { leaf, running } of this.#order) {
      if (leaf.kind === "pod_scale_reporter" && leaf.config.component_id === componentId) {
        running.report?.(replicas);
      }
    }
  }

  /** Another dynamic configuration, whole; undefined is an empty one. */
  configure(config: DynamicConfig | undefined): void {
    const overrides = overridesOf(config, (key, wanted) => this.#outside.setAside(key, wanted));
    for (const { running } of this.#order) running.configure?.(overrides);
  }

  #place(leaf: Leaf, places: Places, states: ReadonlyMap<string, object | undefined>): Placed {
    const { id } = leaf;
    const { intervalMs } = this.plan;
    let state: object | undefined;
    const around: Around = {
      id,
      intervalMs,
      ticks: (ms) => ticksOf(ms, intervalMs),
      keep: <S extends object>(begin: () => S) => {
        // Equal identities have states of one form: the kind and its configuration are part of it.
        const own = (states.get(leaf.identity) as S | undefined) ?? begin();
        state = own;
        return own;
      },
      ask: (ask) => this.#outside.ask({ componentId: id, ...ask } satisfies Ask),
      decide: (decision: Decision) => this.#outside.decide(decision),
      alert: (alert: Alert) => this.#outside.alert(alert),
    };
    return { leaf, running: makeComponent(leaf, places.wires(leaf), around), state };
  }

  /** By identity. */
  #states(): readonly (readonly [string, object | undefined])[] {
    return this.#order.map(({ leaf, state }) => [leaf.identity, state]);
  }

  /** Signals go by the component that writes them, wherever it stands; by name where that is another one. */
  #takeOver(before: Circuit): void {
    this.#number = before.#number;
    const named = new Map(before.plan.signals.map((signal, at) => [nameOf(signal), at]));
    const written = new Map(outputsOf(before.plan));
    const same = new Map(outputsOf(this.plan).map(([key, at]) => [at, written.get(key)]));
    for (const [at, signal] of this.plan.signals.entries()) {
      const old = same.get(at) ?? named.get(nameOf(signal));
      if (old !== undefined) this.#readings[FIRST + at] = before.reading(old);
    }
  }
}

function nameOf({ circuit, name }: CircuitPlan["signals"][number]): string {
  return `${circuit}/${name}`;
}

/** Every out-port that writes a signal, by what its component is. */
function outputsOf({ leaves }: CircuitPlan): [string, number][] {
  return leaves.flatMap(({ identity, outputs }) =>
    Object.entries(outputs).flatMap(([port, signal]): [string, number][] =>
      signal === undefined ? [] : [[`${port} ${identity}`, signal]],
    ),
  );
}

/** Gives every wire of a plan its place among the readings. */
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
        return signal === undefined ? NOWHERE : FIRST + signal;
      },
    };
  }

  loops(): readonly (readonly [number, number])[] {
    return [...this.#looped].map(([signal, place]) => [FIRST + signal, place] as const);
  }

  /** The array as it is before the first tick. */
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
