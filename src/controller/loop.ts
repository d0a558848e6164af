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
import type { Entries } from "./outbox.ts";
import { Ticker } from "./ticker.ts";

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
  readonly warn: (fields: Readonly<Record<string, unknown>>, message: string) => void;
}

/** A version of a policy, and the dynamic configuration that goes with it. */
export interface Version {
  readonly policy: CompiledPolicy;
  /** Undefined: the policy's own values are in force. */
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
  /** Why a component's last query gave nothing, by component id. */
  readonly #unanswered = new Map<string, string>();
  readonly #setAside = new Map<string, string>();

  /** Starts nothing: see `load`. */
  constructor(version: Version, world: LoopWorld) {
    this.#name = version.policy.name;
    this.#world = world;
    this.#version = version;
    this.#meter = world.metrics.policy(this.#name, []);
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

  /** Keys of the dynamic configuration with a value of another form than is wanted: key to what is wanted. */
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
    const written = new Map<string, Uint8Array | undefined>([
      policyEntry(policy, version.origin === "api" ? "ETCD" : "K8S"),
      ...configEntries(policy),
      ...dynamicEntry(policy.name, version.dynamicConfig),
    ]);
    this.#setAside.clear();
    const circuit = plan && new Circuit(plan, this.#outside(policy), version.dynamicConfig, before);
    this.#ticker?.stop();
    this.#version = version;
    this.#circuit = circuit;
    this.#decisions = carried(this.#decisions, before?.plan, plan);
    this.#faults = new Map();
    this.#unanswered.clear();
    this.#meter = this.#world.metrics.policy(this.#name, plan?.signals ?? []);
    for (const [key, value] of this.#start(circuit)) written.set(key, value);
    const keys = new Set(written.keys());
    for (const key of this.#keys) if (!keys.has(key)) written.set(key, undefined);
    this.#keys = keys;
    return written;
  }

  /** Another dynamic configuration, whole; seen from the next tick on. */
  configure(dynamicConfig: JsonObject | undefined): Entries {
    this.#version = { ...this.#version, dynamicConfig };
    this.#setAside.clear();
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
    const { id, kind } = leaf;
    const fault = this.#faults.get(id);
    if (fault?.tick === this.#last?.number && fault !== undefined) {
      return `${kind} ${id} failed: ${fault.message}`;
    }
    if (kind === "promql") {
      return `query of ${id}: ${this.#unanswered.get(id) ?? "no number yet, or not a number"}`;
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
    this.#ticker = new Ticker({
      clock,
      intervalMs: circuit.plan.intervalMs,
      turn: (lateMs) => {
        const entries = this.#tick(circuit, lateMs);
        if (entries.size > 0) this.#world.outbox.put(entries);
      },
      skipped: (ticks) => {
        this.#skipped += ticks;
        this.#meter.skipped(ticks);
      },
    });
    this.#tick(circuit, 0);
    // Under the new hash, those that the first tick did not renew as well.
    return this.#encoded([...this.#decisions.values()]);
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
      setAside: (key, wanted) => {
        this.#setAside.set(key, wanted);
        const fields = { policy: name, key, wanted };
        this.#world.warn(fields, `dynamic configuration: ${key} was set aside: wanted ${wanted}`);
      },
    };
  }

  /** An answer may come after a change: it is for the component, wherever it stands by now. */
  #heard(identity: string, answer: Answer): void {
    const circuit = this.#circuit;
    const leaf = circuit?.plan.leaves.find((each) => each.identity === identity);
    if (circuit === undefined || leaf === undefined) return;
    if (answer.kind === "failed") this.#unanswered.set(leaf.id, answer.why);
    else this.#unanswered.delete(leaf.id);
    circuit.answer(leaf.id, answer);
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

function keyOf({ kind, componentId }: Pick<Decision, "kind" | "componentId">): string {
  return `${kind}/${componentId}`;
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

/** Which leaves speak for which kind of decision. */
const DECIDED: Readonly<Partial<Record<Kind, Decision["kind"]>>> = {
  load_actuator: "load_scheduler",
  rate_limiter: "rate_limiter",
  quota_scheduler: "quota_scheduler",
  concurrency_limiter: "concurrency_limiter",
  concurrency_scheduler: "concurrency_scheduler",
  sampler: "sampler",
  pod_scale_actuator: "pod_scaler",
};

interface Actuating {
  readonly component_id: string;
  readonly agent_groups: readonly string[];
}

/**
 * Decisions that stay in force over a change until their components make new ones: those of the same
 * component, wherever it stands now, or else of one of the same kind in the same place.
 */
function carried(
  decisions: ReadonlyMap<string, Decision>,
  from: CircuitPlan | undefined,
  to: CircuitPlan | undefined,
): Map<string, Decision> {
  const kept = new Map<string, Decision>();
  if (from === undefined || to === undefined || decisions.size === 0) return kept;
  const former = new Map(actuating(from).map(({ identity, key }) => [identity, key]));
  for (const { identity, key, config } of actuating(to)) {
    const decision = decisions.get(former.get(identity) ?? key);
    if (decision === undefined) continue;
    const { component_id: componentId, agent_groups: agentGroups } = config;
    kept.set(key, { ...decision, componentId, agentGroups });
  }
  return kept;
}

function actuating({ leaves }: CircuitPlan) {
  return leaves.flatMap(({ kind, identity, config }) => {
    const decided = DECIDED[kind];
    if (decided === undefined) return [];
    const own = config as Actuating;
    return [
      { identity, config: own, key: keyOf({ kind: decided, componentId: own.component_id }) },
    ];
  });
}
