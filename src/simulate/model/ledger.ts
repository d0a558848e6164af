// Every attempt of every caller, in columns: whatever is asked about any stretch of time afterwards, the
// answer is exact.

import { Fault } from "#base/fault.ts";
import { RejectReason } from "#flow/flow.ts";
import { MOST_ATTEMPTS } from "../scenario/bounds.ts";

/** How an attempt ended. */
export const END = {
  /** Not within the time that was simulated. */
  open: 0,
  answered: 1,
  /** Its caller stopped waiting. */
  timedOut: 2,
  /** It was let in, and found no room in the queue. */
  turnedAway: 3,
} as const;
export type End = (typeof END)[keyof typeof END];

/** Which attempts are looked at. */
export interface Slice {
  /** Milliseconds; `until` is not part of it. */
  readonly from: number;
  readonly until: number;
  /** By sort, see `Ledger.arrive`; undefined is every sort. */
  readonly sorts: ReadonlySet<number> | undefined;
}

/** Attempts by when they came, ends by when they were over. */
export interface Tally {
  readonly offered: number;
  readonly accepted: number;
  /** By RejectReason. */
  readonly refused: ReadonlyMap<RejectReason, number>;
  readonly answered: number;
  readonly failed: number;
  /** Ascending, ms: answers, and those whose callers stopped waiting. */
  readonly latencies: Float64Array;
}

export class Ledger {
  #size = 0;
  #sort = new Uint16Array(1024);
  #reason = new Uint8Array(1024);
  #end = new Uint8Array(1024);
  #arrived = new Float64Array(1024);
  #ended = new Float64Array(1024);

  /** An attempt was judged; gives its place. `sort` is its place among all kinds of requests of the scenario. */
  arrive(sort: number, at: number, reason: RejectReason): number {
    const place = this.#size++;
    if (place >= MOST_ATTEMPTS) throw tooMany();
    if (place >= this.#sort.length) this.#grow();
    this.#sort[place] = sort;
    this.#reason[place] = reason;
    this.#arrived[place] = at;
    return place;
  }

  end(place: number, at: number, how: End): void {
    this.#end[place] = how;
    this.#ended[place] = at;
  }

  tally({ from, until, sorts }: Slice): Tally {
    const refused = new Map<RejectReason, number>();
    let offered = 0;
    let answered = 0;
    let failed = 0;
    const latencies: number[] = [];
    for (let at = 0; at < this.#size; at++) {
      if (sorts !== undefined && !sorts.has(this.#sort[at] ?? 0)) continue;
      const arrived = this.#arrived[at] ?? 0;
      if (arrived >= from && arrived < until) {
        offered++;
        const reason = (this.#reason[at] ?? 0) as RejectReason;
        if (reason !== RejectReason.none) refused.set(reason, (refused.get(reason) ?? 0) + 1);
      }
      const end = this.#end[at];
      const ended = this.#ended[at] ?? 0;
      if (end === END.open || ended < from || ended >= until) continue;
      if (end === END.answered) answered++;
      else failed++;
      if (end !== END.turnedAway) latencies.push(ended - arrived);
    }
    const turned = [...refused.values()].reduce((sum, count) => sum + count, 0);
    const sorted = Float64Array.from(latencies).sort();
    return { offered, accepted: offered - turned, refused, answered, failed, latencies: sorted };
  }

  #grow(): void {
    const size = this.#sort.length * 2;
    const wider = <T extends Uint8Array | Uint16Array | Float64Array>(to: T, from: T): T => {
      to.set(from);
      return to;
    };
    this.#sort = wider(new Uint16Array(size), this.#sort);
    this.#reason = wider(new Uint8Array(size), this.#reason);
    this.#end = wider(new Uint8Array(size), this.#end);
    this.#arrived = wider(new Float64Array(size), this.#arrived);
    this.#ended = wider(new Float64Array(size), this.#ended);
  }
}

/** Rates are judged before the run; how often callers come back is known only now. */
function tooMany(): Fault {
  return new Fault(
    "INVALID_ARGUMENT",
    `wanted a scenario of at most ${MOST_ATTEMPTS} requests, got more with their retries: lower rates or retries, or simulate less time`,
  );
}

/** The value below which so many percent lie (nearest rank); NaN of none. */
export function percentile(ascending: Float64Array, percent: number): number {
  const rank = Math.ceil((percent / 100) * ascending.length);
  return ascending[Math.max(0, rank - 1)] ?? Number.NaN;
}
