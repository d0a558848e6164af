// One policy in force: its circuit, the ticks that drive it, and what it says to the store, to whoever
// answers queries and to those who get alerts. A tick never waits for any of them.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { Circuit } from "#circuit/circuit.ts";
import type { Alert, Answer, Ask, Decision, Outside } from "#circuit/component.ts";
import type { CircuitPlan, Kind, Leaf, Wire } from "#circuit/plan.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import { configEntries, decisionEntries, policyEntry } from "#store/rules.ts";
import type { PolicyMeter } from "#telemetry/circuit-metrics.ts";
import {
  type Actuator,
  actuatorsOf,
  carried,
  describeActuator,
  isStarved,
  keyOf,
} from "./actuators.ts";
import { formFaults } from "./dynamic-forms.ts";
import type { Entries } from "./outbox.ts";
import { Ticker } from "./ticker.ts";
import { Troubles } from "./troubles.ts";

/** What loops share. */
export interface LoopWorld {
  readonly clock: Clock;
  readonly outbox: { put(entries: Entries): void };
  readonly asker: {
    ask(owner: string, identity: string, ask: Ask, hear: (answer: Answer) => void): void;
    drop(owner: string): void;
  };
  readonly alerts: { fire(alert: Alert, policyName: string, at: number): void };
  readonly metrics: {
    policy(name: string, signals: CircuitPlan["signals"]): PolicyMeter;
    remove(name: string): void;
  };
  readonly info: Say;
  readonly warn: Say;
}

type Say = (fields: Readonly<Record<string, unknown>>, message: string) => void;

/** A version of a policy, and the dynamic configuration that goes with it. */
export interface Version {
  readonly policy: CompiledPolicy;
  /** Undefined: the policy's own values are in force. One that is set aside is not in a loop's version. */
  readonly dynamicConfig: JsonObject | undefined;
  /** Whether it came over the API, or from whoever owns the files. */
  readonly origin: Origin;
}

export type Origin = "api" | "file";

export interface TickFacts {
  readonly number: number;
  /** Unix ms. */
  readonly at: number;
  /** After its time, ms. */
  readonly lateMs: number;
  /** On the monotonic clock. */
  readonly now: number;
}

export interface ComponentFaults {
  readonly kind: Kind;
  count: number;
  /** The tick of the last one. */
  tick: number;
  /** Fit to be shown. */
  message: string;
}

/** A signal that was invalid in the last tick, and what is known of the reason. */
export interface Invalid {
  readonly circuit: string;
  readonly name: string;
  readonly why: string;
}

const KEY_OF_DYNAMIC_CONFIG = "/config/dynamic-config-policies/";

/** Components that one line of the log names. */
const MOST_TOLD = 5;
/** Of a query in the log, in UTF-16 units. */
const LONGEST_QUERY = 100;

export class Loop {
  readonly #name: string;
  readonly #world: LoopWorld;
  #version: Version;
  #circuit: Circuit | undefined;
  #ticker: Ticker | undefined;
  #meter: PolicyMeter;
  /** Keys that stand in the store, or are on their way, for this policy. */
  #keys: ReadonlySet<string> = new Set();
  /** The last decisions, by kind and component id. */
  #decisions = new Map<string, Decision>();
  /** Those of the tick under way. */
  #fresh: Decision[] = [];
  #last: TickFacts | undefined;
  #skipped = 0;
  /** By component id. */
  #faults = new Map<string, ComponentFaults>();
  /** Why a component's last query gave nothing, by the component's identity. */
  readonly #unanswered = new Map<string, Extract<Answer, { readonly kind: "failed" }>>();
  #actuators: readonly Actuator[] = [];
  readonly #silent: Troubles;
  readonly #starving: Troubles;
  readonly #setAside = new Map<string, string>();
  /** The last dynamic configuration that was set aside, as text. */
  #refused: string | undefined;

  /** Starts nothing: see `load`. */
  constructor(version: Version, world: LoopWorld) {
    this.#name = version.policy.name;
    this.#world = world;
    this.#version = { ...version, dynamicConfig: undefined };
    this.#meter = world.metrics.policy(this.#name, []);
    this.#silent = new Troubles(world.clock);
    this.#starving = new Troubles(world.clock);
  }

  get version(): Version {
    return this.#version;
  }

  get circuit(): Circuit | undefined {
    return this.#circuit;
  }

  get last(): TickFacts | undefined {
    return this.#last;
  }

  /** Ticks left out because their time had passed. */
  get skipped(): number {
    return this.#skipped;
  }

  get decisions(): Iterable<Decision> {
    return this.#decisions.values();
  }

  get faults(): ReadonlyMap<string, ComponentFaults> {
    return this.#faults;
  }

  /** When the next tick is to begin, on the monotonic clock. */
  get due(): number {
    return this.#ticker?.due ?? Number.POSITIVE_INFINITY;
  }

  /** Keys of the dynamic configuration with a value of another form than is wanted: what is wanted, and got. */
  get setAside(): ReadonlyMap<string, string> {
    return this.#setAside;
  }

  /**
   * Puts a version in force, the first one or another, and runs its first tick. Gives what changes in the
   * store, configurations and decisions together: there is no moment in which an agent has only one of them.
   * When it throws, what was in force still is.
   */
  load(version: Version): Entries {
    const { policy } = version;
    const before = this.#circuit;
    const plan = policy.circuit;
    const dynamicConfig = this.#readable(policy, version.dynamicConfig);
    const written = new Map<string, Uint8Array | undefined>([
      policyEntry(policy, version.origin === "api" ? "ETCD" : "K8S"),
      ...configEntries(policy),
      ...dynamicEntry(policy.name, dynamicConfig),
    ]);
    const circuit = plan && new Circuit(plan, this.#outside(policy), dynamicConfig, before);
    this.#ticker?.stop();
    this.#version = { ...version, dynamicConfig };
    this.#circuit = circuit;
    const actuators = actuatorsOf(plan);
    this.#decisions = carried(this.#decisions, this.#actuators, actuators);
    this.#actuators = actuators;
    this.#faults = new Map();
    const identities = new Set(plan?.leaves.map(({ identity }) => identity));
    for (const identity of this.#unanswered.keys()) {
      if (!identities.has(identity)) this.#unanswered.delete(identity);
    }
    this.#silent.keep(identities);
    this.#starving.keep(identities);
    this.#meter = this.#world.metrics.policy(this.#name, plan?.signals ?? []);
    for (const [key, value] of this.#start(circuit)) written.set(key, value);
    const keys = new Set(written.keys());
    for (const key of this.#keys) if (!keys.has(key)) written.set(key, undefined);
    this.#keys = keys;
    return written;
  }

  /** Another dynamic configuration, whole; seen from the next tick on. In place of one at fault the last stays. */
  configure(wanted: JsonObject | undefined): Entries {
    const dynamicConfig = this.#readable(this.#version.policy, wanted);
    this.#version = { ...this.#version, dynamicConfig };
    this.#circuit?.configure(dynamicConfig);
    const entry = dynamicEntry(this.#name, dynamicConfig);
    const keys = new Set(this.#keys);
    for (const [key, value] of entry) value === undefined ? keys.delete(key) : keys.add(key);
    this.#keys = keys;
    return entry;
  }

  /** Ends it; gives what goes from the store. */
  unload(): Entries {
    this.stop();
    this.#world.metrics.remove(this.#name);
    return new Map([...this.#keys].map((key) => [key, undefined]));
  }

  /** No more ticks; what it published stays. */
  stop(): void {
    this.#ticker?.stop();
    this.#world.asker.drop(this.#name);
  }

  /** Limiters that let everything pass because a number is invalid. Computed when asked for. */
  *starved(): Generator<string> {
    const circuit = this.#circuit;
    if (circuit === undefined || this.#last === undefined) return;
    for (const actuator of this.#actuators) {
      if (!isStarved(actuator, circuit, this.#decisions)) continue;
      yield describeActuator(actuator, circuit);
    }
  }

  /** Signals that were invalid in the last tick. Computed when asked for. */
  *invalid(): Generator<Invalid> {
    const circuit = this.#circuit;
    if (circuit === undefined || this.#last === undefined) return;
    const { plan } = circuit;
    const writers = new Map<number, Leaf>();
    for (const leaf of plan.leaves) {
      for (const signal of Object.values(leaf.outputs)) {
        if (signal !== undefined) writers.set(signal, leaf);
      }
    }
    for (const [at, signal] of plan.signals.entries()) {
      if (!Number.isNaN(circuit.reading(at))) continue;
      yield { ...signal, why: this.#why(circuit, writers.get(at)) };
    }
  }

  #why(circuit: Circuit, leaf: Leaf | undefined): string {
    if (leaf === undefined) return "no component writes it";
    const { id, kind, identity } = leaf;
    const fault = this.#faults.get(id);
    if (fault?.tick === this.#last?.number && fault !== undefined) {
      return `${kind} ${id} failed: ${fault.message}`;
    }
    if (kind === "promql") {
      return `query of ${id}: ${this.#unanswered.get(identity)?.why ?? "no number yet, or not a number"}`;
    }
    const invalid = Object.entries(leaf.inputs).flatMap(([port, wires]) =>
      wires.some((wire) => isInvalid(circuit, wire)) ? [port] : [],
    );
    const open = Object.values(leaf.inputs).every((wires) => wires.every(isOpen));
    const causes = open ? " (unconnected)" : ` (invalid: ${invalid.join(", ")})`;
    const inputs = open || invalid.length > 0 ? causes : "";
    return `${kind} ${id} gives no valid number${inputs}`;
  }

  #start(circuit: Circuit | undefined): Entries {
    if (circuit === undefined) return new Map();
    const { clock } = this.#world;
    const since = clock.now();
    this.#tick(circuit, 0);
    // Under the new hash, those that the first tick did not renew as well.
    const entries = this.#encoded([...this.#decisions.values()]);
    this.#ticker = new Ticker({
      ...{ clock, since, intervalMs: circuit.plan.intervalMs },
      turn: (lateMs) => {
        const entries = this.#tick(circuit, lateMs);
        if (entries.size > 0) this.#world.outbox.put(entries);
      },
      skipped: (ticks) => {
        this.#skipped += ticks;
        this.#meter.skipped(ticks);
      },
      pace: (keeps, tookMs) => this.#tellPace(circuit.plan.intervalMs, keeps, tookMs),
    });
    return entries;
  }

  /** Gives the decisions of the tick as entries: one commit. */
  #tick(circuit: Circuit, lateMs: number): Entries {
    const { clock } = this.#world;
    const [now, at] = [clock.now(), clock.wall()];
    this.#fresh = [];
    this.#last = { number: circuit.ticks + 1, at, lateMs, now };
    circuit.tick(at);
    this.#meter.ticked(lateMs, (signal) => circuit.reading(signal));
    for (const decision of this.#fresh) {
      this.#meter.decided(decision.kind);
      this.#decisions.set(keyOf(decision), decision);
    }
    this.#tellTroubles(circuit);
    const entries = this.#encoded(this.#fresh);
    if (entries.size > 0) this.#keys = new Set([...this.#keys, ...entries.keys()]);
    return entries;
  }

  #encoded(decisions: readonly Decision[]): Entries {
    const entries = new Map<string, Uint8Array | undefined>();
    for (const decision of decisions) {
      try {
        for (const [key, value] of decisionEntries(this.#version.policy, decision)) {
          entries.set(key, value);
        }
      } catch (thrown) {
        this.#failed(decision.componentId, decision.kind, thrown);
      }
    }
    return entries;
  }

  #outside(policy: CompiledPolicy): Outside {
    const { asker, alerts, clock } = this.#world;
    const { name } = policy;
    return {
      ask: (ask) => {
        const identity = identityOf(policy.circuit, ask.componentId);
        if (identity === undefined) return;
        asker.ask(name, identity, ask, (answer) => this.#heard(identity, answer));
      },
      decide: (decision) => void this.#fresh.push(decision),
      alert: (alert) => alerts.fire(alert, name, clock.wall()),
      fault: (componentId, kind, thrown) => this.#failed(componentId, kind, thrown),
      // What no component can read was set aside before: others read this key in another form.
      setAside: () => undefined,
    };
  }

  /** The configuration, or where a component cannot read it the one in force, or else none. */
  #readable(policy: CompiledPolicy, wanted: JsonObject | undefined): JsonObject | undefined {
    const faults = formFaults(policy.document, wanted);
    this.#setAside.clear();
    for (const [key, fault] of faults) this.#setAside.set(key, fault);
    const refused = faults.size === 0 ? undefined : JSON.stringify([wanted, ...faults]);
    const isNews = refused !== this.#refused;
    this.#refused = refused;
    if (faults.size === 0) return wanted;
    const last = this.#version.dynamicConfig;
    const stays = last !== undefined && formFaults(policy.document, last).size === 0;
    if (isNews) {
      const fields = { policy: policy.name, keys: [...faults.keys()].slice(0, MOST_TOLD) };
      const each = listed([...faults], ([key, fault]) => `${key} was set aside: ${fault}`);
      const now = stays ? "what was in force before" : "what the policy says itself";
      const message = `dynamic configuration of ${policy.name}: ${each}; ${now} holds for all of it`;
      this.#world.warn(fields, message);
    }
    return stays ? last : undefined;
  }

  /** An answer may come after a change: it is for the component, wherever it stands by now. */
  #heard(identity: string, answer: Answer): void {
    const circuit = this.#circuit;
    const leaf = circuit?.plan.leaves.find((each) => each.identity === identity);
    if (circuit === undefined || leaf === undefined) return;
    if (answer.kind === "failed") this.#unanswered.set(identity, answer);
    else this.#unanswered.delete(identity);
    circuit.answer(leaf.id, answer);
  }

  #tellPace(intervalMs: number, keeps: boolean, tookMs: number): void {
    const { info, warn } = this.#world;
    const took = Math.round(tookMs * 1_000) / 1_000;
    const fields = { policy: this.#name, evaluation_interval_ms: intervalMs, tick_ms: took };
    if (keeps) info(fields, "the policy keeps its evaluation interval again");
    else {
      const why = `a tick takes ${took} ms, and ticks get a tenth of the time at most`;
      warn(fields, `the policy cannot keep its evaluation interval of ${intervalMs} ms: ${why}`);
    }
  }

  #tellTroubles(circuit: Circuit): void {
    const { info, warn } = this.#world;
    const policy = this.#name;
    // Most ticks have nothing of this to tell, and go through no component for it.
    if (this.#unanswered.size > 0 || this.#silent.some) {
      const asking = circuit.plan.leaves.filter((leaf) => queryOf(leaf) !== "");
      const silent = ({ identity }: Leaf) => {
        const answer = this.#unanswered.get(identity);
        return answer !== undefined && answer.empty !== true;
      };
      const { begun, over } = this.#silent.news(asking, ({ identity }) => identity, silent);
      const ofEach = listed(begun, (leaf) => {
        const why = this.#unanswered.get(leaf.identity)?.why ?? "";
        return `${leaf.kind} ${leaf.id} (${cut(queryOf(leaf))}): ${why}`;
      });
      if (begun.length > 0) warn({ policy }, `queries of ${policy} fail: ${ofEach}`);
      const back = listed(over, ({ kind, id }) => `${kind} ${id}`);
      if (over.length > 0) info({ policy }, `queries of ${policy} are answered again: ${back}`);
    }
    const starved = (each: Actuator) => isStarved(each, circuit, this.#decisions);
    const { begun, over } = this.#starving.news(this.#actuators, identityOfActuator, starved);
    const ofEach = listed(begun, (each) => describeActuator(each, circuit));
    if (begun.length > 0) {
      warn({ policy }, `limiters of ${policy} let everything pass for want of numbers: ${ofEach}`);
    }
    const back = listed(over, ({ kind, componentId }) => `${kind} ${componentId}`);
    if (over.length > 0) info({ policy }, `limiters of ${policy} have numbers again: ${back}`);
  }

  #failed(componentId: string, kind: string, thrown: unknown): void {
    const tick = this.#last?.number ?? 0;
    const { message } = Fault.from(thrown);
    this.#meter.fault(componentId, kind);
    const known = this.#faults.get(componentId);
    this.#faults.set(componentId, {
      ...{ kind: kind as Kind, tick, message },
      count: (known?.count ?? 0) + 1,
    });
    if (known !== undefined) return;
    const fields = {
      policy: this.#name,
      component_id: componentId,
      component: kind,
      error: thrown,
    };
    this.#world.warn(fields, "a component failed; told once, counted from now on");
  }
}

function isOpen({ kind }: Wire): boolean {
  return kind === "open";
}

function isInvalid(circuit: Circuit, wire: Wire): boolean {
  if (wire.kind === "open") return false;
  return Number.isNaN(wire.kind === "constant" ? wire.value : circuit.reading(wire.signal));
}

function identityOf(plan: CircuitPlan | undefined, componentId: string): string | undefined {
  return plan?.leaves.find(({ id }) => id === componentId)?.identity;
}

function dynamicEntry(name: string, config: JsonObject | undefined): Entries {
  const bytes = config === undefined ? undefined : new TextEncoder().encode(JSON.stringify(config));
  return new Map([[`${KEY_OF_DYNAMIC_CONFIG}${name}`, bytes]]);
}

function identityOfActuator({ leaf }: Actuator): string {
  return leaf.identity;
}

function queryOf({ kind, config }: Leaf): string {
  if (kind === "promql") return config.query_string;
  return kind === "load_actuator" ? config.tokens_query : "";
}

function cut(text: string): string {
  return text.length <= LONGEST_QUERY ? text : `${text.slice(0, LONGEST_QUERY)}…`;
}

/** As many as one line has room for. */
function listed<T>(all: readonly T[], show: (each: T) => string): string {
  const more = all.length > MOST_TOLD ? `; and ${all.length - MOST_TOLD} more` : "";
  return `${all.slice(0, MOST_TOLD).map(show).join("; ")}${more}`;
}
