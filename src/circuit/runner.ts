// Runs the circuit of one policy through its versions: replaces plans, ticks, and knows the decisions in
// force. The controller and the simulation differ only in what they do with decisions, queries and alerts.

import { type Actuator, actuatorsOf, carryOver, type Decisions, decisionId } from "./actuators.ts";
import { Circuit, type CircuitMemory } from "./circuit.ts";
import type { Alert, QueryAnswer, QueryRequest } from "./component.ts";
import type { CircuitDecision } from "./decision.ts";
import type { DynamicConfig } from "./overrides.ts";
import type { CircuitPlan, Kind } from "./plan.ts";
import { queryOf } from "./queries.ts";

/** The requests and reports of a running circuit. Called during a tick; must neither throw nor tick. */
export interface RunnerSink {
  /** `identity` is that of the asking component, by which `answer` finds it in whatever plan runs by then. */
  ask(ask: QueryRequest, identity: string): void;
  alert(alert: Alert): void;
  /** A component threw: its outputs are invalid in this tick, everything else went on. */
  fault(componentId: string, kind: Kind, thrown: unknown): void;
}

/** The memory of a circuit that another controller ran, from which a new runner goes on. */
export interface Restored {
  readonly circuit: CircuitMemory;
  /** Decisions that their components do not renew at the first tick. */
  readonly decisions: readonly CircuitDecision[];
}

/** Shared, because most policies ask no queries. */
const NONE: ReadonlyMap<string, never> = new Map<string, never>();

export class CircuitRunner {
  readonly #sink: RunnerSink;
  #circuit: Circuit | undefined;
  /** Ids of the components that ask queries, by identity. */
  #asking: ReadonlyMap<string, string> = NONE;
  #actuators: readonly Actuator[] = [];
  #decisions = new Map<string, CircuitDecision>();
  /** Decisions of the tick under way. */
  #fresh: CircuitDecision[] = [];

  constructor(sink: RunnerSink) {
    this.#sink = sink;
  }

  /** Undefined until a plan runs, and for a policy that has none. */
  get circuit(): Circuit | undefined {
    return this.#circuit;
  }

  get actuators(): readonly Actuator[] {
    return this.#actuators;
  }

  /** The last decision of each component, those before a change of the plan included. */
  get decisions(): Decisions {
    return this.#decisions;
  }

  /**
   * Runs another plan from the next tick on. Components of unchanged identity keep their state, and decisions
   * stay in force until their components make new ones. The first plan goes on from what was `restored`, if anything
   * was. When this throws, the plan before still runs.
   */
  replace(
    plan: CircuitPlan | undefined,
    config: DynamicConfig | undefined,
    restored?: Restored,
  ): void {
    const circuit = plan && this.#circuitOf(plan, config, restored?.circuit);
    const actuators = actuatorsOf(plan);
    this.#circuit = circuit;
    this.#asking = askingOf(plan);
    this.#decisions = carryOver(this.#decisions, this.#actuators, actuators);
    for (const decision of restored?.decisions ?? [])
      this.#decisions.set(decisionId(decision), decision);
    this.#actuators = actuators;
  }

  /** Another dynamic configuration, whole, from the next tick on; undefined is an empty one. */
  configure(config: DynamicConfig | undefined): void {
    this.#circuit?.configure(config);
  }

  /** Runs one tick at `timestamp` (Unix ms) and returns the decisions that were made in it. */
  tick(timestamp: number): readonly CircuitDecision[] {
    this.#fresh = [];
    this.#circuit?.tick(timestamp);
    for (const decision of this.#fresh) this.#decisions.set(decisionId(decision), decision);
    return this.#fresh;
  }

  /**
   * Answers a query, also one that was asked before a change: the component is found by its identity. Returns
   * whether the plan still has this component.
   */
  answer(identity: string, answer: QueryAnswer): boolean {
    const componentId = this.#asking.get(identity);
    if (componentId !== undefined) this.#circuit?.answer(componentId, answer);
    return componentId !== undefined;
  }

  #circuitOf(
    plan: CircuitPlan,
    config: DynamicConfig | undefined,
    restored: CircuitMemory | undefined,
  ): Circuit {
    const { ask, alert, fault } = this.#sink;
    const sink = {
      ask: (query: QueryRequest) => ask(query, this.#circuit?.identityOf(query.componentId) ?? ""),
      decide: (decision: CircuitDecision) => void this.#fresh.push(decision),
      alert,
      fault,
      // Dynamic configuration was checked before: see policy/dynamic.ts.
      ignoredOverride: () => undefined,
    };
    return new Circuit(plan, sink, config, this.#circuit?.memory() ?? restored);
  }
}

function askingOf(plan: CircuitPlan | undefined): ReadonlyMap<string, string> {
  const asking = plan?.leaves.filter((leaf) => queryOf(leaf) !== "") ?? [];
  return asking.length === 0 ? NONE : new Map(asking.map(({ id, identity }) => [identity, id]));
}
