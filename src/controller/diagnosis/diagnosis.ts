// Finds problems of a running policy, and logs their beginning and end: components that throw, unanswered queries, limiters
// without valid signals.

import type { Clock } from "#base/clock.ts";
import type { StandIn } from "#base/failure-mode.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { listed } from "#base/text/listed.ts";
import {
  type Actuator,
  type Decisions,
  describeActuator,
  failureModeOf,
  standInNow,
} from "#circuit/actuators.ts";
import type { Circuit } from "#circuit/circuit.ts";
import type { QueryAnswer } from "#circuit/component.ts";
import type { CircuitPlan, Kind, Leaf } from "#circuit/plan.ts";
import { queryOf } from "#circuit/queries.ts";
import type { CircuitRunner } from "#circuit/runner.ts";
import type { PolicyWarning } from "#policy/document/warning.ts";
import {
  type ComponentFaults,
  type Evidence,
  type FailedAnswer,
  type InvalidSignal,
  InvalidSignals,
  invalidSignals,
} from "./invalid-signals.ts";
import { ComponentNotifier } from "./notifier.ts";

const NO_FAULTS: ReadonlyMap<string, ComponentFaults> = new Map();

/** Length of a query in a log line, in UTF-16 units. */
const LONGEST_QUERY = 100;

export class Diagnosis {
  readonly #policy: string;
  readonly #runner: CircuitRunner;
  readonly #log: Pick<Log, "info" | "warn">;
  readonly #unansweredNotifier: ComponentNotifier;
  readonly #failOpenNotifier: ComponentNotifier;
  readonly #failureModeNotifier: ComponentNotifier;
  /** By component id. */
  #faults: Map<string, ComponentFaults> | undefined;
  /** The last answers without a number, by the identity of the asking component; created on demand. */
  #unanswered: Map<string, FailedAnswer> | undefined;
  /** Components that ask queries. */
  #asking: readonly Leaf[] = [];
  readonly #signals: InvalidSignals;

  constructor(
    policy: string,
    runner: CircuitRunner,
    { clock, log }: { readonly clock: Clock; readonly log: Pick<Log, "info" | "warn"> },
  ) {
    this.#policy = policy;
    this.#runner = runner;
    this.#log = log;
    this.#signals = new InvalidSignals(clock);
    this.#unansweredNotifier = new ComponentNotifier(clock);
    this.#failOpenNotifier = new ComponentNotifier(clock);
    this.#failureModeNotifier = new ComponentNotifier(clock);
  }

  /** By component id. */
  get faults(): ReadonlyMap<string, ComponentFaults> {
    return this.#faults ?? NO_FAULTS;
  }

  /** Called when a new version runs: faults are counted afresh, conditions of remaining components continue. */
  restart(plan: CircuitPlan | undefined): void {
    this.#faults = undefined;
    this.#signals.restart(plan);
    this.#asking = plan?.leaves.filter((leaf) => queryOf(leaf) !== "").slice() ?? [];
    const asking = new Set(this.#asking.map(leafIdentity));
    for (const identity of this.#unanswered?.keys() ?? []) {
      if (!asking.has(identity)) this.#unanswered?.delete(identity);
    }
    this.#unansweredNotifier.retain(asking);
    const limiters = new Set(this.#runner.actuators.map(identityOf));
    this.#failOpenNotifier.retain(limiters);
    this.#failureModeNotifier.retain(limiters);
  }

  answered(identity: string, answer: QueryAnswer): void {
    if (answer.kind !== "failed") {
      this.#unanswered?.delete(identity);
      return;
    }
    this.#unanswered ??= new Map();
    this.#unanswered.set(identity, answer);
  }

  /** Counts an error of a component, and logs the first one of each. */
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

  /** Logs problems that began or ended. Call it after each tick. */
  report(): void {
    const { circuit } = this.#runner;
    if (circuit === undefined) return;
    this.#signals.noteValid(circuit);
    // Usually every query is answered, and the list of components need not be read.
    if (this.#unanswered?.size || this.#unansweredNotifier.hasOpen) this.#reportQueries();
    this.#reportFailingOpen(circuit);
    this.#reportFailureModes(circuit);
  }

  /** Limiters that accept everything because a required signal is invalid. Computed on demand. */
  *failingOpen(): Generator<string> {
    const { circuit, actuators, decisions } = this.#runner;
    if (circuit === undefined || circuit.ticks === 0) return;
    for (const actuator of actuators) {
      if (standInNow(actuator, decisions) === "open") yield describeActuator(actuator, circuit);
    }
  }

  /** Limiters that refuse everything or keep old numbers because of `on_failure`. Computed on demand. */
  *onFailureMode(): Generator<string> {
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
    yield* invalidSignals(circuit, this.#evidence);
  }

  /** Warnings about present problems. Computed on demand. */
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
    if (circuit !== undefined) yield* this.#signals.warnings(circuit, this.#evidence);
  }

  get #evidence(): Evidence {
    return { faults: this.faults, unanswered: this.#unanswered };
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

  #reportFailingOpen(circuit: Circuit): void {
    const { decisions } = this.#runner;
    this.#reportLimiters(circuit, this.#failOpenNotifier, {
      holds: (each) => standInNow(each, decisions) === "open",
      suffix: () => "",
      begun: `limiters of ${this.#policy} fail open: required signals are invalid`,
      ended: `limiters of ${this.#policy} have valid signals again`,
    });
  }

  #reportFailureModes(circuit: Circuit): void {
    const { decisions } = this.#runner;
    this.#reportLimiters(circuit, this.#failureModeNotifier, {
      holds: (each) => otherMode(each, decisions) !== undefined,
      suffix: (each) => `: ${otherMode(each, decisions)}`,
      begun: `limiters of ${this.#policy} decide by on_failure: required signals are invalid`,
      ended: `limiters of ${this.#policy} decide by valid signals again`,
    });
  }

  /** Logs the limiters for which a condition begins or ends. */
  #reportLimiters(circuit: Circuit, notifier: ComponentNotifier, of: LimiterCondition): void {
    const { begun, ended } = notifier.changes(this.#runner.actuators, identityOf, of.holds);
    const policy = this.#policy;
    if (begun.length > 0) {
      const each = listed(begun, (one) => describeActuator(one, circuit) + of.suffix(one));
      this.#log.warn({ policy }, `${of.begun}: ${each}`);
    }
    if (ended.length > 0) {
      const each = listed(ended, ({ kind, componentId }) => `${kind} ${componentId}`);
      this.#log.info({ policy }, `${of.ended}: ${each}`);
    }
  }
}

interface LimiterCondition {
  readonly holds: (limiter: Actuator) => boolean;
  /** Follows the description of a limiter. */
  readonly suffix: (limiter: Actuator) => string;
  /** Texts of the log lines for its beginning and its end. */
  readonly begun: string;
  readonly ended: string;
}

/** The configured failure mode that made the last decision, if it is not `open`. */
function otherMode(actuator: Actuator, decisions: Decisions): StandIn | undefined {
  const mode = standInNow(actuator, decisions);
  return mode === "open" || failureModeOf(actuator.leaf) === undefined ? undefined : mode;
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
