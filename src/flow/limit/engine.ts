// What a limiter asks of the place where its counts live. The local make answers at once; one behind
// a network answers later, or says that it cannot.

import type { Pending } from "../flow.ts";

/** What an engine says to one take. Borrowed: valid until the same engine is asked again. */
export interface Taken {
  readonly outcome: "granted" | "refused" | "undecided";
  readonly remaining: number;
  readonly current: number;
  /** Until as much as was wanted could be there; 0 when that is now, never, or not known. */
  readonly waitMs: number;
  /** The engine's own mark of what was taken; goes back with it. */
  readonly id: string;
}

/**
 * Counts of one limiter by label value; `undefined` is the one count of a limiter without a key.
 * Params are an immutable object that is replaced, never changed, when numbers or rule change.
 */
export interface CounterEngine<Params> {
  peek(value: string | undefined, want: number, params: Params): Taken;
  take(value: string | undefined, want: number, params: Params): Taken | Pending<Taken>;
  /** False when nothing is known (any more) of what was taken. */
  giveBack(value: string | undefined, amount: number, id: string, params: Params): boolean;
}

/** The same, never waiting: what stands in for an engine that is away. */
export interface LocalEngine<Params> extends CounterEngine<Params> {
  take(value: string | undefined, want: number, params: Params): Taken;
}

/** Token amounts this close count as equal: sums of fractions are not exact. */
export const SLACK = 1e-9;

/** A reply that its engine fills anew for each answer, so that answering allocates nothing. */
export class Reply implements Taken {
  outcome: "granted" | "refused" | "undecided" = "granted";
  remaining = 0;
  current = 0;
  waitMs = 0;
  id = "";
}
