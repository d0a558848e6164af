// Records every attempt of every caller in columns, so that exact figures of any time window can be computed
// afterwards.

import { Fault } from "#base/fault.ts";
import { RejectReason } from "#flow/flow.ts";
import { MAX_ATTEMPTS } from "../scenario/bounds.ts";

/** The ends of an attempt. */
export const ATTEMPT_END = {
  /** It did not end within the simulated time. */
  open: 0,
  answered: 1,
  /** Its caller stopped waiting. */
  timedOut: 2,
  /** It was accepted, but the queue of the service was full. */
  queueFull: 3,
} as const;
export type AttemptEnd = (typeof ATTEMPT_END)[keyof typeof ATTEMPT_END];

/** Selects attempts. */
export interface AttemptFilter {
  /** Milliseconds; `until` is excluded. */
  readonly from: number;
  readonly until: number;
  /** By request class, see `Ledger.recordArrival`; undefined is every class. */
  readonly classes: ReadonlySet<number> | undefined;
}

/** Counts attempts by arrival time, and ends by the time of the end. */
export interface AttemptCounts {
  readonly offered: number;
  readonly accepted: number;
  /** By RejectReason. */
  readonly refused: ReadonlyMap<RejectReason, number>;
  readonly answered: number;
  readonly failed: number;
  /** Ascending, ms: of answers, and of attempts whose callers stopped waiting. */
  readonly latencies: Float64Array;
}

export class Ledger {
  #size = 0;
  #class = new Uint16Array(1024);
  #reason = new Uint8Array(1024);
  #end = new Uint8Array(1024);
  #arrived = new Float64Array(1024);
  #ended = new Float64Array(1024);

  /**
   * Records an attempt that was checked and returns its index. `requestClass` is the index of its class among all
   * request classes of the scenario.
   */
  recordArrival(requestClass: number, at: number, reason: RejectReason): number {
    const place = this.#size++;
    if (place >= MAX_ATTEMPTS) throw tooManyRequests();
    if (place >= this.#class.length) this.#grow();
    this.#class[place] = requestClass;
    this.#reason[place] = reason;
    this.#arrived[place] = at;
    return place;
  }

  recordEnd(place: number, at: number, how: AttemptEnd): void {
    this.#end[place] = how;
    this.#ended[place] = at;
  }

  tally({ from, until, classes }: AttemptFilter): AttemptCounts {
    const refused = new Map<RejectReason, number>();
    let offered = 0;
    let answered = 0;
    let failed = 0;
    const latencies: number[] = [];
    for (let at = 0; at < this.#size; at++) {
      if (classes !== undefined && !classes.has(this.#class[at] ?? 0)) continue;
      const arrived = this.#arrived[at] ?? 0;
      if (arrived >= from && arrived < until) {
        offered++;
        const reason = (this.#reason[at] ?? 0) as RejectReason;
        if (reason !== RejectReason.none) refused.set(reason, (refused.get(reason) ?? 0) + 1);
      }
      const end = this.#end[at];
      const ended = this.#ended[at] ?? 0;
      if (end === ATTEMPT_END.open || ended < from || ended >= until) continue;
      if (end === ATTEMPT_END.answered) answered++;
      else failed++;
      if (end !== ATTEMPT_END.queueFull) latencies.push(ended - arrived);
    }
    const turned = [...refused.values()].reduce((sum, count) => sum + count, 0);
    const sorted = Float64Array.from(latencies).sort();
    return { offered, accepted: offered - turned, refused, answered, failed, latencies: sorted };
  }

  #grow(): void {
    const size = this.#class.length * 2;
    const wider = <T extends Uint8Array | Uint16Array | Float64Array>(to: T, from: T): T => {
      to.set(from);
      return to;
    };
    this.#class = wider(new Uint16Array(size), this.#class);
    this.#reason = wider(new Uint8Array(size), this.#reason);
    this.#end = wider(new Uint8Array(size), this.#end);
    this.#arrived = wider(new Float64Array(size), this.#arrived);
    this.#ended = wider(new Float64Array(size), this.#ended);
  }
}

/** Rates are checked before the run, but the number of retries is known only now. */
function tooManyRequests(): Fault {
  return new Fault(
    "INVALID_ARGUMENT",
    `wanted a scenario of at most ${MAX_ATTEMPTS} requests, got more with their retries: lower rates or retries, or simulate less time`,
  );
}

/** Percentile by nearest rank; NaN of an empty array. */
export function percentile(ascending: Float64Array, percent: number): number {
  const rank = Math.ceil((percent / 100) * ascending.length);
  return ascending[Math.max(0, rank - 1)] ?? Number.NaN;
}
