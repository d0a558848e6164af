// The concurrency limit of one key that finds its own value from the latencies of its flows. It grows in steps while flows
// that the limit holds back take about as long as without a queue, and is cut when they take longer: a sawtooth around the
// concurrency at which the service is just busy. The cuts replace probes: each goes a little below that concurrency, so the
// window after it shows the latency without a queue. Works like the gradients of Netflix's concurrency-limits and of Envoy
// (limit × baseline latency ÷ latency), with other rules for the baseline.

import type { AdaptiveBounds } from "../../rules.ts";

/** A window ends after `WINDOW_MS` with `FLOWS` ended flows, or after `LONG_WINDOW_MS` with `FEW_FLOWS`. */
const FLOWS = 100;
const WINDOW_MS = 200;
const FEW_FLOWS = 20;
const LONG_WINDOW_MS = 2_000;
/** A window begins when this part of the old limit has ended after a change: those flows met the old limit. */
const TURNOVER = 1.25;

/** A cut goes to this part of the concurrency at which flows begin to queue, but at most halves the limit. */
const BELOW_KNEE = 0.95;
const DEEPEST_CUT = 0.5;
/** Latencies that differ by less than this factor count as noise. */
const NOISE = 1.25;
/** Factor by which a limit rises again to test whether its cut was of any use. */
const TEST_RISE = 1.5;

/** Below this ratio of latency to baseline there is no queue, and each further step grows by this part of the limit. */
const NO_QUEUE = 1.2;
const FASTER = 0.05;
const FASTEST = 0.5;
/** Part of the limit that has to be in use before it counts as reached. */
const REACHED = 0.9;
/** Time in which the baseline follows the latency of flows that no limit held back, ms. */
const FOLLOW_MS = 300_000;

/** Flows that end within this part of the baseline, such as failed ones, are not measured unless most flows do. */
const QUICK = 0.1;
const QUICK_MAJORITY = 0.9;
/** Differences below this are not measured, ms. */
const SHORTEST_MS = 0.1;

/** After this time without flows the limit returns to its start, halfway in each half-life, ms. */
const IDLE_MS = 30_000;
const HALF_LIFE_MS = 60_000;
/** After this time without flows nothing is known any more, ms. */
const FORGET_MS = 600_000;

/** A change of the limit that tells whether latency depends on it. The window after it belongs to the trial. */
interface Trial {
  readonly kind: "cut" | "rise";
  /** Limit and latency before the change. */
  readonly limit: number;
  readonly latency: number;
}

export class Gradient {
  bounds: AdaptiveBounds;
  /** Mean latency of flows that meet no queue, ms; undefined before the first window. */
  baseline: number | undefined;
  #limit: number;
  /** Time of the last flow that asked. */
  #seenAt: number;

  /** Tokens that still have to leave before the window begins. */
  #skip = 0;
  #begin: number;
  #flows = 0;
  #latency = 0;
  #quickFlows = 0;
  #quickLatency = 0;
  #expired = 0;
  /** True if the limit held flows back, or was about to. */
  #reached = false;

  /** Steps of growth without a queue. */
  #steps = 0;
  #trial: Trial | undefined;

  constructor(bounds: AdaptiveBounds, now: number) {
    this.bounds = bounds;
    this.#limit = bounds.start;
    this.#seenAt = now;
    this.#begin = now;
  }

  /** The limit in force, in whole tokens. */
  limit(now: number): number {
    const { min, max } = this.bounds;
    return Math.round(Math.min(max, Math.max(min, this.#restedLimit(now))));
  }

  /** True if it has learned nothing, so that a new one could replace it. */
  isFresh(now: number): boolean {
    return now - this.#seenAt > FORGET_MS || (this.baseline === undefined && this.#flows === 0);
  }

  /** A flow passed; `sum` are the tokens in flight with it. */
  passed(sum: number, now: number): void {
    this.#wake(now);
    if (this.#skip <= 0 && sum >= this.#limit * REACHED) this.#reached = true;
  }

  /** The limit refused a flow. */
  refused(now: number): void {
    this.#wake(now);
    if (this.#skip <= 0) this.#reached = true;
  }

  /** A flow ended so many ms after it had passed. */
  ended(latencyMs: number, tokens: number, now: number): void {
    if (this.#skips(tokens, now)) return;
    if (this.baseline !== undefined && latencyMs < this.baseline * QUICK) {
      this.#quickFlows++;
      this.#quickLatency += latencyMs;
    } else {
      this.#flows++;
      this.#latency += latencyMs;
    }
    const flows = this.#flows + this.#quickFlows;
    const enough = flows >= FLOWS ? WINDOW_MS : LONG_WINDOW_MS;
    if (flows >= FEW_FLOWS && now - this.#begin >= enough) this.#closeWindow(now);
  }

  /**
   * A slot expired because its end was lost or its flow is very slow. This is not a measurement. But if most slots expire
   * although ends arrived before, the service hangs, and the limit is cut.
   */
  expired(tokens: number, now: number): void {
    if (this.#skips(tokens, now)) return;
    this.#expired++;
    const flows = this.#flows + this.#quickFlows;
    if (this.baseline === undefined || this.#expired < FEW_FLOWS || this.#expired <= flows) return;
    const limit = this.#limit;
    this.#limit = Math.max(this.bounds.min, limit * DEEPEST_CUT);
    this.#trial = undefined;
    this.#steps = 0;
    this.#nextWindow(TURNOVER * limit, now);
  }

  /** True if a flow that leaves was slowed by an earlier limit. */
  #skips(tokens: number, now: number): boolean {
    if (this.#skip <= 0) return false;
    this.#skip -= tokens;
    if (this.#skip <= 0) this.#begin = now;
    return true;
  }

  #closeWindow(now: number): void {
    const latency = this.#meanLatency();
    const baseline = this.#learn(latency, now - this.#begin);
    const before = this.#limit;
    if (this.#reached) this.#adjust(latency, baseline);
    this.#nextWindow(this.#limit === before ? 0 : TURNOVER * before, now);
  }

  #nextWindow(skip: number, now: number): void {
    this.#skip = skip;
    this.#begin = now;
    this.#flows = 0;
    this.#latency = 0;
    this.#quickFlows = 0;
    this.#quickLatency = 0;
    this.#expired = 0;
    this.#reached = false;
  }

  #meanLatency(): number {
    const all = this.#flows + this.#quickFlows;
    const mean =
      this.#quickFlows >= all * QUICK_MAJORITY
        ? (this.#latency + this.#quickLatency) / all
        : this.#latency / this.#flows;
    return Math.max(SHORTEST_MS, mean);
  }

  /** The baseline as this window shows it. */
  #learn(latency: number, span: number): number {
    const known = this.baseline ?? latency;
    const trial = this.#trial;
    this.#trial = undefined;
    let baseline = latency < known ? (known + latency) / 2 : known;
    if (!this.#reached) {
      // No flow queued because of this limit, so this is the latency of the service.
      if (latency > known) baseline += (latency - known) * Math.min(1, span / FOLLOW_MS);
    } else if (trial !== undefined) baseline = this.#judge(trial, latency, known);
    this.baseline = baseline;
    return baseline;
  }

  /**
   * The baseline after a trial. If flows queue, latency changes with the limit, in proportion; if they do not, it stays.
   */
  #judge(trial: Trial, latency: number, known: number): number {
    const ratio = this.#limit / trial.limit;
    if (trial.kind === "rise") {
      const queues = latency >= (trial.latency * (1 + ratio)) / 2;
      return queues ? known : Math.min(latency, trial.latency);
    }
    const queues = latency < trial.latency * (ratio + (1 - ratio) / 4);
    if (queues) return Math.min(known, latency);
    if (latency <= known * NOISE) return (known + latency) / 2;
    // Flows take longer than before, apparently not because of the limit. Raising it again shows whether that is so.
    this.#trial = { kind: "rise", limit: this.#limit, latency };
    this.#limit = Math.min(trial.limit, this.#limit * TEST_RISE);
    return known;
  }

  /** Cuts the limit or lets it grow. It was reached. */
  #adjust(latency: number, baseline: number): void {
    if (this.#trial !== undefined) return;
    const { min, max, tolerance } = this.bounds;
    const limit = this.#limit;
    if (latency > baseline * tolerance) {
      this.#steps = 0;
      const part = Math.max(DEEPEST_CUT, (BELOW_KNEE * baseline) / latency);
      this.#limit = Math.max(min, limit * part);
      if (this.#limit < limit) this.#trial = { kind: "cut", limit, latency };
      // At its floor the limit cannot tell why flows are slow.
      else this.baseline = baseline + (latency - baseline) / 10;
      return;
    }
    this.#steps = latency < baseline * NO_QUEUE ? this.#steps + 1 : 0;
    const part = Math.min(FASTEST, FASTER * Math.max(1, this.#steps));
    this.#limit = Math.min(max, limit + Math.max(Math.sqrt(limit), limit * part));
  }

  #restedLimit(now: number): number {
    const idle = now - this.#seenAt;
    if (idle <= IDLE_MS) return this.#limit;
    const { start } = this.bounds;
    if (idle > FORGET_MS) return start;
    return start + (this.#limit - start) * 0.5 ** ((idle - IDLE_MS) / HALF_LIFE_MS);
  }

  #wake(now: number): void {
    const idle = now - this.#seenAt;
    if (idle > IDLE_MS) {
      this.#limit = this.#restedLimit(now);
      if (idle > FORGET_MS) this.baseline = undefined;
      this.#trial = undefined;
      this.#steps = 0;
      this.#nextWindow(0, now);
    }
    this.#seenAt = now;
  }
}
