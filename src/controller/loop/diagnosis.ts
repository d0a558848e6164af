// Finds out what does not work in a running policy, and logs what begins and what ends: components that throw,
// queries that are not answered, limiters that fail open, and why signals are invalid.

import type { Clock } from "#base/clock.ts";
import type { StandIn } from "#base/failure-mode.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import {
  type Actuator,
  type Decisions,
  describeActuator,
  failureModeOf,
  signalsWithEffect,
  standInNow,
  writersOf,
} from "#circuit/actuators.ts";
import type { Circuit } from "#circuit/circuit.ts";
import type { QueryAnswer } from "#circuit/component.ts";
import type { CircuitPlan, Kind, Leaf, Wire } from "#circuit/plan.ts";
import { queryOf } from "#circuit/queries.ts";
import type { CircuitRunner } from "#circuit/runner.ts";
import type { PolicyWarning } from "#policy/document/warning.ts";
import { ComponentNotifier } from "./component-notifier.ts";
import { listed } from "./log-list.ts";

/** The errors of a component over all ticks of the version in force. */
export interface ComponentFaults {
  readonly kind: Kind;
  readonly count: number;
  /** The last tick in which it threw. */
  readonly tick: number;
  /** Of the last fault. Holds nothing that must not be shown. */
  readonly message: string;
}

/** A signal that was invalid in the last tick, and the likeliest reason. */
export interface InvalidSignal {
  readonly circuit: string;
  readonly name: string;
  readonly why: string;
}

type FailedAnswer = Extract<QueryAnswer, { readonly kind: "failed" }>;

const NO_FAULTS: ReadonlyMap<string, ComponentFaults> = new Map();

/** A signal that is invalid for this long, and for this many ticks, had time to become valid. */
const NEVER_VALID_MS = 60_000;
const NEVER_VALID_TICKS = 10;

/** Length of a query in a log line, in UTF-16 units. */
const LONGEST_QUERY = 100;

export class Diagnosis {
  readonly #policy: string;
  readonly #runner: CircuitRunner;
  readonly #log: Pick<Log, "info" | "warn">;
  readonly #unansweredNotifier: ComponentNotifier;
  readonly #failOpenNotifier: ComponentNotifier;
  readonly #standInNotifier: ComponentNotifier;
  /** By component id. */
  #faults: Map<string, ComponentFaults> | undefined;
  /** Last answers that gave no number, by the identity of the component that asked; made for the first one. */
  #unanswered: Map<string, FailedAnswer> | undefined;
  /** Components that ask queries. */
  #asking: readonly Leaf[] = [];
  /** Those of `awaitedSignals` that had no valid value since the version was loaded; undefined when there are none. */
  #neverValid: Set<number> | undefined;
  readonly #clock: Clock;
  /** On the monotonic clock. */
  #loadedAt = 0;

  constructor(
    policy: string,
    runner: CircuitRunner,
    { clock, log }: { readonly clock: Clock; readonly log: Pick<Log, "info" | "warn"> },
  ) {
    this.#policy = policy;
    this.#runner = runner;
    this.#log = log;
    this.#clock = clock;
    this.#unansweredNotifier = new ComponentNotifier(clock);
    this.#failOpenNotifier = new ComponentNotifier(clock);
    this.#standInNotifier = new ComponentNotifier(clock);
  }

  /** By component id. */
  get faults(): ReadonlyMap<string, ComponentFaults> {
    return this.#faults ?? NO_FAULTS;
  }

  /** A new version runs: faults count from zero, conditions of components that stay go on. */
  restart(plan: CircuitPlan | undefined): void {
    this.#faults = undefined;
    this.#neverValid = plan && awaitedSignals(plan);
    this.#loadedAt = this.#clock.now();
    this.#asking = plan?.leaves.filter((leaf) => queryOf(leaf) !== "").slice() ?? [];
    const asking = new Set(this.#asking.map(leafIdentity));
    for (const identity of this.#unanswered?.keys() ?? []) {
      if (!asking.has(identity)) this.#unanswered?.delete(identity);
    }
    this.#unansweredNotifier.retain(asking);
    const limiters = new Set(this.#runner.actuators.map(identityOf));
    this.#failOpenNotifier.retain(limiters);
    this.#standInNotifier.retain(limiters);
  }

  /** Notes the answer to a query. */
  answered(identity: string, answer: QueryAnswer): void {
    if (answer.kind !== "failed") {
      this.#unanswered?.delete(identity);
      return;
    }
    this.#unanswered ??= new Map();
    this.#unanswered.set(identity, answer);
  }

  /** Notes what a component threw; logs the first fault of each component. */
  threw(componentId: string, kind: Kind, thrown: unknown, tick: number): void {
    this.#faults ??= new Map();
    const before = this.#faults.get(componentId);
    const { message } = Fault.from(thrown);
    const faults = { kind, tick, message, count: (before?.count ?? 0) + 1 };
    this.#faults.set(componentId, faults);
    if (before !== undefined) return;
    const fields = {
      policy: this.#policy,
      component_id: componentId,
      component: kind,
      error: thrown,
    };
    this.#log.warn(fields, "a component failed; further faults of it are only counted");
  }

  /** Logs what began and what ended. Call it after each tick. */
  report(): void {
    const { circuit } = this.#runner;
    if (circuit === undefined) return;
    this.#forgetValid(circuit);
    // Most ticks find no query unanswered and skip the list of components.
    if (this.#unanswered?.size || this.#unansweredNotifier.hasOpen) this.#reportQueries();
    this.#reportFailingOpen(circuit);
    this.#reportStandingIn(circuit);
  }

  /** Limiters that accept everything because a signal that they need is invalid. Computed on demand. */
  *failingOpen(): Generator<string> {
    const { circuit, actuators, decisions } = this.#runner;
    if (circuit === undefined || circuit.ticks === 0) return;
    for (const actuator of actuators) {
      if (standInNow(actuator, decisions) === "open") yield describeActuator(actuator, circuit);
    }
  }

  /** Limiters that refuse everything or go on with old numbers, as their `on_failure` says. Computed on demand. */
  *standingIn(): Generator<string> {
    const { circuit, actuators, decisions } = this.#runner;
    if (circuit === undefined || circuit.ticks === 0) return;
    for (const actuator of actuators) {
      const mode = otherMode(actuator, decisions);
      if (mode !== undefined) yield `${describeActuator(actuator, circuit)}: ${mode}`;
    }
  }

  /** Signals that were invalid in the last tick. Computed on demand. */
  *invalidSignals(): Generator<InvalidSignal> {
    const { circuit } = this.#runner;
    if (circuit === undefined || circuit.ticks === 0) return;
    const { plan } = circuit;
    const writers = writersOf(plan.leaves);
    for (const [at, signal] of plan.signals.entries()) {
      if (!Number.isNaN(circuit.reading(at))) continue;
      yield { ...signal, why: this.#whyInvalid(circuit, writers.get(at)) };
    }
  }

  /** What does not work now. Computed on demand. */
  *warnings(): Generator<PolicyWarning> {
    const { circuit } = this.#runner;
    for (const limiter of this.failingOpen()) {
      yield { code: "fails_open", path: "circuit", text: `fails open: ${limiter}` };
    }
    for (const [id, { kind, tick, message }] of this.faults) {
      if (tick !== circuit?.ticks) continue;
      yield {
        code: "failed_component",
        path: "circuit",
        text: `${kind} ${id} failed`,
        why: message,
      };
    }
    yield* this.#neverValidWarnings();
  }

  /**
   * Signals without a valid value since the version was loaded, once it had time for one. Of a chain of signals only the
   * first is named: the others follow from it.
   */
  *#neverValidWarnings(): Generator<PolicyWarning> {
    const { circuit } = this.#runner;
    if (circuit === undefined || circuit.ticks < NEVER_VALID_TICKS) return;
    if (this.#neverValid === undefined || this.#clock.now() - this.#loadedAt < NEVER_VALID_MS)
      return;
    const writers = writersOf(circuit.plan.leaves);
    for (const signal of this.#neverValid) {
      const writer = writers.get(signal);
      const name = circuit.plan.signals[signal];
      if (name === undefined || (writer !== undefined && !isFirst(circuit, writer))) continue;
      const why = this.#whyInvalid(circuit, writer);
      const text = `the signal ${name.name} of circuit ${name.circuit} has never been valid`;
      yield { code: "invalid_signal", path: "circuit", text, why };
    }
  }

  #whyInvalid(circuit: Circuit, writer: Leaf | undefined): string {
    if (writer === undefined) return "no component writes it";
    const { id, kind, identity } = writer;
    const fault = this.#faults?.get(id);
    if (fault?.tick === circuit.ticks) return `${kind} ${id} failed: ${fault.message}`;
    if (kind === "promql") {
      const why = this.#unanswered?.get(identity)?.why ?? "no number yet, or not a number";
      return `query of ${id}: ${why}`;
    }
    return `${kind} ${id} gives no valid number${invalidInputs(circuit, writer)}`;
  }

  #forgetValid(circuit: Circuit): void {
    if (this.#neverValid === undefined) return;
    for (const signal of this.#neverValid) {
      if (!Number.isNaN(circuit.reading(signal))) this.#neverValid.delete(signal);
    }
    if (this.#neverValid.size === 0) this.#neverValid = undefined;
  }

  #reportQueries(): void {
    const fails = ({ identity }: Leaf) => {
      const answer = this.#unanswered?.get(identity);
      return answer !== undefined && answer.empty !== true;
    };
    const { begun, ended } = this.#unansweredNotifier.changes(this.#asking, leafIdentity, fails);
    const policy = this.#policy;
    if (begun.length > 0) {
      const each = listed(begun, (leaf) => {
        const why = this.#unanswered?.get(leaf.identity)?.why ?? "";
        return `${leaf.kind} ${leaf.id} (${shorten(queryOf(leaf))}): ${why}`;
      });
      this.#log.warn({ policy }, `queries of ${policy} fail: ${each}`);
    }
    if (ended.length > 0) {
      const each = listed(ended, ({ kind, id }) => `${kind} ${id}`);
      this.#log.info({ policy }, `queries of ${policy} are answered again: ${each}`);
    }
  }

  #reportStandingIn(circuit: Circuit): void {
    const { actuators, decisions } = this.#runner;
    const holds = (each: Actuator) => otherMode(each, decisions) !== undefined;
    const { begun, ended } = this.#standInNotifier.changes(actuators, identityOf, holds);
    const policy = this.#policy;
    if (begun.length > 0) {
      const each = listed(
        begun,
        (actuator) => `${describeActuator(actuator, circuit)}: ${otherMode(actuator, decisions)}`,
      );
      const what = `limiters of ${policy} decide by on_failure: required signals are invalid`;
      this.#log.warn({ policy }, `${what}: ${each}`);
    }
    if (ended.length > 0) {
      const each = listed(ended, ({ kind, componentId }) => `${kind} ${componentId}`);
      this.#log.info({ policy }, `limiters of ${policy} decide by valid signals again: ${each}`);
    }
  }

  #reportFailingOpen(circuit: Circuit): void {
    const { actuators, decisions } = this.#runner;
    const holds = (each: Actuator) => standInNow(each, decisions) === "open";
    const { begun, ended } = this.#failOpenNotifier.changes(actuators, identityOf, holds);
    const policy = this.#policy;
    if (begun.length > 0) {
      const each = listed(begun, (actuator) => describeActuator(actuator, circuit));
      const what = `limiters of ${policy} fail open: required signals are invalid`;
      this.#log.warn({ policy }, `${what}: ${each}`);
    }
    if (ended.length > 0) {
      const each = listed(ended, ({ kind, componentId }) => `${kind} ${componentId}`);
      this.#log.info({ policy }, `limiters of ${policy} have valid signals again: ${each}`);
    }
  }
}

/** Signals with an effect that are meant to become valid; undefined when there are none. */
function awaitedSignals(plan: CircuitPlan): Set<number> | undefined {
  const writers = writersOf(plan.leaves);
  const found = new Set<number>();
  for (const signal of signalsWithEffect(plan)) {
    const writer = writers.get(signal);
    if (writer === undefined || !isMeantInvalid(writer)) found.add(signal);
  }
  return found.size === 0 ? undefined : found;
}

/** Nothing is connected to an optional port, or the author wrote down that the value is invalid. */
function isMeantInvalid({ kind, inputs }: Leaf): boolean {
  const wires = Object.values(inputs).flat();
  return kind === "variable" || (wires.length > 0 && wires.every((wire) => wire.kind === "open"));
}

/** Whether a component without a valid output has no invalid input that explains it. */
function isFirst(circuit: Circuit, { inputs }: Leaf): boolean {
  return !Object.values(inputs)
    .flat()
    .some((wire) => isInvalid(circuit, wire));
}

/** The failure mode other than `open` that the policy names and that made the last decision. */
function otherMode(actuator: Actuator, decisions: Decisions): StandIn | undefined {
  const mode = standInNow(actuator, decisions);
  return mode === "open" || failureModeOf(actuator.leaf) === undefined ? undefined : mode;
}

/** Names the inputs that explain why a component gives no valid number: ` (invalid: lhs)`. */
function invalidInputs(circuit: Circuit, { inputs }: Leaf): string {
  const invalid = Object.entries(inputs).flatMap(([port, wires]) =>
    wires.some((wire) => isInvalid(circuit, wire)) ? [port] : [],
  );
  const isOpen = ({ kind }: Wire) => kind === "open";
  if (Object.values(inputs).every((wires) => wires.every(isOpen))) return " (unconnected)";
  return invalid.length === 0 ? "" : ` (invalid: ${invalid.join(", ")})`;
}

function isInvalid(circuit: Circuit, wire: Wire): boolean {
  if (wire.kind === "open") return false;
  return Number.isNaN(wire.kind === "constant" ? wire.value : circuit.reading(wire.signal));
}

function identityOf({ leaf }: Actuator): string {
  return leaf.identity;
}

function leafIdentity({ identity }: Leaf): string {
  return identity;
}

function shorten(text: string): string {
  return text.length <= LONGEST_QUERY ? text : `${text.slice(0, LONGEST_QUERY)}…`;
}
