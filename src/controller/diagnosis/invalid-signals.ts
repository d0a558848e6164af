// Finds the invalid signals of a running policy and their likeliest reasons, and warns of signals that were never valid.

import type { Clock } from "#base/clock.ts";
import { signalsWithEffect, writersOf } from "#circuit/actuators.ts";
import type { Circuit } from "#circuit/circuit.ts";
import type { QueryAnswer } from "#circuit/component.ts";
import type { CircuitPlan, Kind, Leaf, Wire } from "#circuit/plan.ts";
import type { PolicyWarning } from "#policy/document/warning.ts";

/** A signal that was invalid in the last tick, and the likeliest reason. */
export interface InvalidSignal {
  readonly circuit: string;
  readonly name: string;
  readonly why: string;
}

/** The errors of a component over all ticks of the version in force. */
export interface ComponentFaults {
  readonly kind: Kind;
  readonly count: number;
  /** The last tick in which it threw. */
  readonly tick: number;
  /** Message of the last fault. Contains nothing secret. */
  readonly message: string;
}

export type FailedAnswer = Extract<QueryAnswer, { readonly kind: "failed" }>;

/** Facts that explain why signals are invalid. */
export interface Evidence {
  /** By component id. */
  readonly faults: ReadonlyMap<string, ComponentFaults>;
  /** The last answers without a number, by the identity of the asking component. */
  readonly unanswered: ReadonlyMap<string, FailedAnswer> | undefined;
}

/** A signal is expected to be valid after this time and this many ticks. */
const NEVER_VALID_MS = 60_000;
const NEVER_VALID_TICKS = 10;

/** The signals that were invalid in the last tick. */
export function* invalidSignals(circuit: Circuit, evidence: Evidence): Generator<InvalidSignal> {
  const { plan } = circuit;
  const writers = writersOf(plan.leaves);
  for (const [at, signal] of plan.signals.entries()) {
    if (!Number.isNaN(circuit.reading(at))) continue;
    yield { ...signal, why: whyInvalid(circuit, writers.get(at), evidence) };
  }
}

/** Remembers which signals of the version in force have never been valid. */
export class InvalidSignals {
  readonly #clock: Pick<Clock, "now">;
  /** The `awaitedSignals` without a valid value since the version was loaded; undefined for none. */
  #neverValid: Set<number> | undefined;
  /** On the monotonic clock. */
  #loadedAt = 0;

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** Called when a new version runs. */
  restart(plan: CircuitPlan | undefined): void {
    this.#neverValid = plan && awaitedSignals(plan);
    this.#loadedAt = this.#clock.now();
  }

  /** Records the signals that are valid after a tick. */
  noteValid(circuit: Circuit): void {
    if (this.#neverValid === undefined) return;
    for (const signal of this.#neverValid) {
      if (!Number.isNaN(circuit.reading(signal))) this.#neverValid.delete(signal);
    }
    if (this.#neverValid.size === 0) this.#neverValid = undefined;
  }

  /**
   * Warns of signals that should be valid by now and never were. Of a chain of signals only the first is named, because it
   * explains the others.
   */
  *warnings(circuit: Circuit, evidence: Evidence): Generator<PolicyWarning> {
    if (this.#neverValid === undefined || circuit.ticks < NEVER_VALID_TICKS) return;
    if (this.#clock.now() - this.#loadedAt < NEVER_VALID_MS) return;
    const writers = writersOf(circuit.plan.leaves);
    for (const signal of this.#neverValid) {
      const writer = writers.get(signal);
      const name = circuit.plan.signals[signal];
      if (name === undefined || (writer !== undefined && !isFirst(circuit, writer))) continue;
      const why = whyInvalid(circuit, writer, evidence);
      const text = `the signal ${name.name} of circuit ${name.circuit} has never been valid`;
      yield { code: "invalid_signal", path: "circuit", text, why };
    }
  }
}

function whyInvalid(
  circuit: Circuit,
  writer: Leaf | undefined,
  { faults, unanswered }: Evidence,
): string {
  if (writer === undefined) return "no component writes it";
  const { id, kind, identity } = writer;
  const fault = faults.get(id);
  if (fault?.tick === circuit.ticks) return `${kind} ${id} failed: ${fault.message}`;
  if (kind === "promql") {
    const why = unanswered?.get(identity)?.why ?? "no number yet, or not a number";
    return `query of ${id}: ${why}`;
  }
  return `${kind} ${id} gives no valid number${invalidInputs(circuit, writer)}`;
}

/** Signals with an effect that are meant to be valid; undefined for none. */
function awaitedSignals(plan: CircuitPlan): Set<number> | undefined {
  const writers = writersOf(plan.leaves);
  const found = new Set<number>();
  for (const signal of signalsWithEffect(plan)) {
    const writer = writers.get(signal);
    if (writer === undefined || !isMeantInvalid(writer)) found.add(signal);
  }
  return found.size === 0 ? undefined : found;
}

/** True if a component has unconnected inputs only, or its author chose an invalid value. */
function isMeantInvalid({ kind, inputs }: Leaf): boolean {
  const wires = Object.values(inputs).flat();
  return kind === "variable" || (wires.length > 0 && wires.every((wire) => wire.kind === "open"));
}

/** True if no invalid input explains an invalid output. */
function isFirst(circuit: Circuit, { inputs }: Leaf): boolean {
  return !Object.values(inputs)
    .flat()
    .some((wire) => isInvalid(circuit, wire));
}

/** Names the inputs that explain an invalid output: ` (invalid: lhs)`. */
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
