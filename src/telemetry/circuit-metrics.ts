// Counts what circuits do: readings of signals, ticks, faults, queries, decisions. A tick costs a few
// increments per signal; quantiles are computed when `/metrics` is read. A policy's series go with it.

import type { Signal } from "#circuit/plan.ts";
import type { Sink, Source, Summary } from "./metrics-table.ts";

/** §8. */
const QUANTILES = [0, 0.01, 0.05, 0.5, 0.9, 0.99, 1] as const;

/**
 * Quantiles speak of the last readings, so many of them: two minutes of a circuit that ticks every second.
 * They are exact over this window, and a signal costs 1 KiB at most.
 */
const WINDOW = 128;
/** Windows grow with what is read: most signals of most policies never matter to anybody. */
const FIRST_WINDOW = 8;

const QUERY_BOUNDS = [1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000] as const;

/** The meter of one policy that is in force. */
export interface PolicyMeter {
  /** After each tick; `reading` by a signal's place, NaN is invalid. */
  ticked(lateMs: number, reading: (signal: number) => number): void;
  skipped(ticks: number): void;
  fault(componentId: string, kind: string): void;
  decided(kind: string): void;
}

export class CircuitMetrics implements Source {
  readonly #policies = new Map<string, PolicyCounts>();
  readonly #tries = new Float64Array(QUERY_BOUNDS.length + 1);
  readonly #commits = { success: 0, failure: 0 };
  #triesMs = 0;

  /**
   * For a version of a policy that comes into force: signals that go on by name keep their series. Faults
   * are counted anew, since the components of the version before may be gone.
   */
  policy(name: string, signals: readonly Signal[]): PolicyMeter {
    const counts = this.#policies.get(name) ?? new PolicyCounts();
    this.#policies.set(name, counts);
    return counts.measure(signals);
  }

  /** Takes all series of a policy away. */
  remove(name: string): void {
    this.#policies.delete(name);
  }

  /** A query of a policy ended in one of the few ways in which queries do. */
  ended(policy: string, ending: string): void {
    this.#policies.get(policy)?.queried(ending);
  }

  /** A query is tried again. */
  retried(policy: string): void {
    const counts = this.#policies.get(policy);
    if (counts !== undefined) counts.retries += 1;
  }

  /** One attempt at a query is over, after so many ms. */
  tried(took: number): void {
    const at = QUERY_BOUNDS.findIndex((bound) => took <= bound);
    const bucket = at < 0 ? QUERY_BOUNDS.length : at;
    this.#tries[bucket] = (this.#tries[bucket] ?? 0) + 1;
    this.#triesMs += took;
  }

  /** The store took what the controller published, or did not. */
  committed(result: "success" | "failure"): void {
    this.#commits[result] += 1;
  }

  collect(to: Sink): void {
    for (const [name, counts] of this.#policies) counts.tell(to, name);
    for (const result of ["success", "failure"] as const)
      to.number("sluice_controller_commits_total", [result], this.#commits[result]);
    const tries = { bounds: QUERY_BOUNDS, counts: this.#tries, sum: this.#triesMs };
    if (this.#tries.some((count) => count > 0)) to.buckets("sluice_query_latency_ms", [], tries);
  }
}

/** Everything that is counted for one policy, over all its versions. */
class PolicyCounts {
  #signals = new Map<string, SignalCounts>();
  readonly #faults = new Map<string, { readonly labels: readonly string[]; count: number }>();
  readonly #decisions = new Map<string, number>();
  readonly #queries = new Map<string, number>();
  retries = 0;
  #ticks = 0;
  #skipped = 0;
  #late = 0;

  measure(signals: readonly Signal[]): PolicyMeter {
    const before = this.#signals;
    const places = signals.map((signal) => {
      const key = JSON.stringify([signal.circuit, signal.name]);
      return [key, before.get(key) ?? new SignalCounts(signal)] as const;
    });
    this.#signals = new Map(places);
    this.#faults.clear();
    const counts = places.map(([, each]) => each);
    return {
      ticked: (lateMs, reading) => {
        this.#ticks += 1;
        this.#late = lateMs;
        for (let at = 0; at < counts.length; at++) counts[at]?.read(reading(at));
      },
      skipped: (ticks) => {
        this.#skipped += ticks;
      },
      fault: (componentId, kind) => {
        const labels = [componentId, kind];
        const key = JSON.stringify(labels);
        const row = this.#faults.get(key) ?? { labels, count: 0 };
        row.count += 1;
        this.#faults.set(key, row);
      },
      decided: (kind) => void this.#decisions.set(kind, (this.#decisions.get(kind) ?? 0) + 1),
    };
  }

  queried(ending: string): void {
    this.#queries.set(ending, (this.#queries.get(ending) ?? 0) + 1);
  }

  tell(to: Sink, name: string): void {
    for (const signal of this.#signals.values()) signal.tell(to, name);
    if (this.#ticks > 0) {
      to.number("sluice_circuit_ticks_total", [name], this.#ticks);
      to.number("sluice_circuit_ticks_skipped_total", [name], this.#skipped);
      to.number("sluice_circuit_tick_late_ms", [name], this.#late);
    }
    for (const { labels, count } of this.#faults.values())
      to.number("sluice_circuit_faults_total", [name, ...labels], count);
    for (const [kind, count] of this.#decisions)
      to.number("sluice_circuit_decisions_total", [name, kind], count);
    for (const [ending, count] of this.#queries)
      to.number("sluice_circuit_queries_total", [name, ending], count);
    if (this.retries > 0) to.number("sluice_circuit_query_retries_total", [name], this.retries);
  }
}

/** The readings of one signal: each once per tick, a looped one too. */
class SignalCounts {
  readonly #labels: readonly [string, string];
  #window = new Float64Array(FIRST_WINDOW);
  #sum = 0;
  #count = 0;
  #invalid = 0;
  #infinite = 0;

  constructor({ name, circuit }: Signal) {
    this.#labels = [name, circuit];
  }

  read(value: number): void {
    if (Number.isNaN(value)) this.#invalid += 1;
    else if (!Number.isFinite(value)) this.#infinite += 1;
    else this.#observe(value);
  }

  #observe(value: number): void {
    if (this.#count === this.#window.length && this.#count < WINDOW) {
      const grown = new Float64Array(Math.min(WINDOW, this.#count * 2));
      grown.set(this.#window);
      this.#window = grown;
    }
    this.#window[this.#count % this.#window.length] = value;
    this.#count += 1;
    this.#sum += value;
  }

  tell(to: Sink, policy: string): void {
    const labels = [...this.#labels, policy];
    to.summary("signal_reading", labels, this.#summary());
    if (this.#invalid > 0) to.number("invalid_signal_readings_total", labels, this.#invalid);
    if (this.#infinite > 0) to.number("infinite_signal_readings_total", labels, this.#infinite);
  }

  /** Without a reading there are no quantiles. */
  #summary(): Summary {
    const sorted = this.#window.slice(0, Math.min(this.#count, this.#window.length)).sort();
    const rank = (quantile: number) => Math.max(0, Math.ceil(quantile * sorted.length) - 1);
    const quantiles = sorted.length === 0 ? [] : QUANTILES;
    const values = quantiles.map((quantile) => sorted[rank(quantile)] ?? Number.NaN);
    return { quantiles, values, sum: this.#sum, count: this.#count };
  }
}
