// Metrics of circuits: readings of signals, ticks, faults, queries, decisions. A tick costs a few increments per signal;
// quantiles are computed when metrics are collected. The series of a policy disappear when it is removed.

import type { Signal } from "#circuit/plan.ts";
import type { MetricSink, MetricSource, Summary } from "./table.ts";

/** The quantiles of `signal_reading` (control-plane specification, §8). */
const QUANTILES = [0, 0.01, 0.05, 0.5, 0.9, 0.99, 1] as const;

/**
 * Number of recent readings over which quantiles are computed, exactly: two minutes of a circuit that ticks every second.
 * A signal needs 1 KiB at most, and nothing while its readings are all equal.
 */
const WINDOW = 128;
/** Initial size of a window, which grows with the readings. */
const INITIAL_WINDOW = 8;

const QUERY_BOUNDS = [1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000] as const;

/** Counts for one policy in force. */
export interface PolicyMeter {
  /** Call it after each tick. `reading` gives the value of a signal by its index; NaN is invalid. */
  ticked(lateMs: number, reading: (signal: number) => number): void;
  skipped(ticks: number): void;
  fault(componentId: string, kind: string): void;
  decided(kind: string): void;
}

export class CircuitMetrics implements MetricSource {
  readonly #policies = new Map<string, PolicyCounts>();
  readonly #attempts = new Float64Array(QUERY_BOUNDS.length + 1);
  readonly #commits = { success: 0, failure: 0 };
  #attemptsMs = 0;

  /**
   * The meter of a new version of a policy. Signals with the same name keep their series. Faults are counted from 0,
   * because components of the previous version may be gone.
   */
  policy(name: string, signals: readonly Signal[]): PolicyMeter {
    const counts = this.#policies.get(name) ?? new PolicyCounts();
    this.#policies.set(name, counts);
    return counts.measure(signals);
  }

  /** Removes all series of a policy. */
  remove(name: string): void {
    this.#policies.delete(name);
  }

  /** Counts the end of a query by its result. */
  ended(policy: string, result: string): void {
    this.#policies.get(policy)?.queries.add(result);
  }

  /** Counts a retry of a query. */
  retried(policy: string): void {
    const counts = this.#policies.get(policy);
    if (counts !== undefined) counts.retries += 1;
  }

  /** Records the duration of one attempt at a query, in ms. */
  attempted(ms: number): void {
    const at = QUERY_BOUNDS.findIndex((bound) => ms <= bound);
    const bucket = at < 0 ? QUERY_BOUNDS.length : at;
    this.#attempts[bucket] = (this.#attempts[bucket] ?? 0) + 1;
    this.#attemptsMs += ms;
  }

  /** Counts a write of the controller to the store. */
  committed(result: "success" | "failure"): void {
    this.#commits[result] += 1;
  }

  collect(to: MetricSink): void {
    for (const [name, counts] of this.#policies) counts.tell(to, name);
    for (const result of ["success", "failure"] as const)
      to.number("sluice_controller_commits_total", [result], this.#commits[result]);
    const attempts = { bounds: QUERY_BOUNDS, counts: this.#attempts, sum: this.#attemptsMs };
    if (this.#attempts.some((count) => count > 0))
      to.buckets("sluice_query_latency_ms", [], attempts);
  }
}

/** The counts of one policy, over all its versions. Tables that most policies do not need are made on first use. */
class PolicyCounts {
  readonly decisions = new Counts();
  readonly queries = new Counts();
  retries = 0;
  ticks = 0;
  skipped = 0;
  late = 0;
  faults: Map<string, FaultRow> | undefined;
  #signals: readonly SignalCounts[] = [];

  measure(signals: readonly Signal[]): PolicyMeter {
    const before = new Map(this.#signals.map((each) => [each.key, each]));
    this.#signals = signals.map((signal) => {
      const counts = new SignalCounts(signal);
      return before.get(counts.key) ?? counts;
    });
    this.faults = undefined;
    return new VersionMeter(this, this.#signals);
  }

  tell(to: MetricSink, name: string): void {
    if (SIGNAL_METRICS.some((metric) => to.wants(metric)))
      for (const signal of this.#signals) signal.tell(to, name);
    if (this.ticks > 0) {
      to.number("sluice_circuit_ticks_total", [name], this.ticks);
      to.number("sluice_circuit_ticks_skipped_total", [name], this.skipped);
      to.number("sluice_circuit_tick_late_ms", [name], this.late);
    }
    for (const { componentId, kind, count } of this.faults?.values() ?? [])
      to.number("sluice_circuit_faults_total", [name, componentId, kind], count);
    for (const { name: kind, count } of this.decisions.rows)
      to.number("sluice_circuit_decisions_total", [name, kind], count);
    for (const { name: result, count } of this.queries.rows)
      to.number("sluice_circuit_queries_total", [name, result], count);
    if (this.retries > 0) to.number("sluice_circuit_query_retries_total", [name], this.retries);
  }
}

interface FaultRow {
  readonly componentId: string;
  readonly kind: string;
  count: number;
}

/** Counts by name, for a handful of names: a policy has one or two, and a list of these is far smaller than a map. */
class Counts {
  #rows: { readonly name: string; count: number }[] = [];

  get rows(): readonly { readonly name: string; readonly count: number }[] {
    return this.#rows;
  }

  add(name: string): void {
    const row = this.#rows.find((each) => each.name === name);
    // Without the spare room of an array that grows: every policy keeps two.
    if (row === undefined) this.#rows = this.#rows.concat({ name, count: 1 });
    else row.count += 1;
  }
}

/** The meter of one version of a policy. */
class VersionMeter implements PolicyMeter {
  readonly #policy: PolicyCounts;
  /** By the index of the signal. */
  readonly #signals: readonly SignalCounts[];

  constructor(policy: PolicyCounts, signals: readonly SignalCounts[]) {
    this.#policy = policy;
    this.#signals = signals;
  }

  ticked(lateMs: number, reading: (signal: number) => number): void {
    this.#policy.ticks += 1;
    this.#policy.late = lateMs;
    for (let at = 0; at < this.#signals.length; at++) this.#signals[at]?.read(reading(at));
  }

  skipped(ticks: number): void {
    this.#policy.skipped += ticks;
  }

  fault(componentId: string, kind: string): void {
    this.#policy.faults ??= new Map();
    const key = JSON.stringify([componentId, kind]);
    const row = this.#policy.faults.get(key) ?? { componentId, kind, count: 0 };
    row.count += 1;
    this.#policy.faults.set(key, row);
  }

  decided(kind: string): void {
    this.#policy.decisions.add(kind);
  }
}

const SIGNAL_METRICS = [
  "signal_reading",
  "invalid_signal_readings_total",
  "infinite_signal_readings_total",
] as const;

/** The readings of one signal, counted once per tick, even if the signal is looped. */
class SignalCounts {
  readonly #signal: Signal;
  /** Recent readings. Undefined while all readings are equal: most signals are constant, and need no window. */
  #window: Float64Array | undefined;
  #last = Number.NaN;
  #sum = 0;
  #count = 0;
  #invalid = 0;
  #infinite = 0;

  constructor(signal: Signal) {
    this.#signal = signal;
  }

  /** Identifies the signal across versions of the policy. */
  get key(): string {
    return JSON.stringify([this.#signal.circuit, this.#signal.name]);
  }

  read(value: number): void {
    if (Number.isNaN(value)) this.#invalid += 1;
    else if (!Number.isFinite(value)) this.#infinite += 1;
    else this.#observe(value);
  }

  #observe(value: number): void {
    if (this.#window !== undefined) this.#add(this.#window, value);
    else if (this.#count > 0 && value !== this.#last) {
      const kept = Math.min(this.#count, WINDOW);
      this.#window = new Float64Array(Math.max(INITIAL_WINDOW, kept)).fill(this.#last, 0, kept);
      this.#add(this.#window, value);
    }
    this.#last = value;
    this.#count += 1;
    this.#sum += value;
  }

  #add(window: Float64Array, value: number): void {
    if (this.#count >= window.length && window.length < WINDOW) {
      const grown = new Float64Array(Math.min(WINDOW, window.length * 2));
      grown.set(window);
      this.#window = grown;
      grown[this.#count] = value;
    } else window[this.#count % window.length] = value;
  }

  tell(to: MetricSink, policy: string): void {
    const labels = [this.#signal.name, this.#signal.circuit, policy];
    if (to.wants("signal_reading")) to.summary("signal_reading", labels, this.#summary());
    if (this.#invalid > 0) to.number("invalid_signal_readings_total", labels, this.#invalid);
    if (this.#infinite > 0) to.number("infinite_signal_readings_total", labels, this.#infinite);
  }

  /** Has no quantiles before the first reading. */
  #summary(): Summary {
    const sorted = this.#recent().sort();
    const rank = (quantile: number) => Math.max(0, Math.ceil(quantile * sorted.length) - 1);
    const quantiles = sorted.length === 0 ? [] : QUANTILES;
    const values = quantiles.map((quantile) => sorted[rank(quantile)] ?? Number.NaN);
    return { quantiles, values, sum: this.#sum, count: this.#count };
  }

  /** A copy of the readings that count; one stands for all where they are equal. */
  #recent(): Float64Array {
    if (this.#window !== undefined)
      return this.#window.slice(0, Math.min(this.#count, this.#window.length));
    return this.#count === 0 ? new Float64Array(0) : Float64Array.of(this.#last);
  }
}
