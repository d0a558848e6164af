// What the mind tells telemetry. Calls come on the check path: implementations count in their own arrays
// and do nothing else. Every counter about decisions counts here, once, at the decision.

import type { Flow, Verdict } from "./flow.ts";

/** Irregularities worth counting: input that was set aside, modes that stood in, limits that were met. */
export const ODDITIES = [
  "baggage_dropped", // header malformed or over its bounds: none of its labels count
  "baggage_reserved", // a member named http.* or aperture.*
  "header_collision", // two headers spell one label; the dashed one won
  "bad_label_number", // text where a finite decimal >= 0 within bounds was wanted
  "missing_limit_label", // a limiter's key label was absent
  "undecided", // a take could not answer; its failure mode did
  "late", // the caller's budget ended first
  "abandoned", // the caller went away while its check waited: no decision was made
  "keys_overflow", // a limiter is full: the key shares the overflow bucket
] as const;
export type Oddity = (typeof ODDITIES)[number];

export interface Observer {
  decided(flow: Flow, verdict: Verdict): void;
  /** One FlowEnd call. */
  ended(controlPoint: string): void;
  /** One look-up of a service by peer or socket address. */
  lookedUp(found: boolean): void;
  odd(what: Oddity): void;
}

export const SILENT: Observer = {
  decided: () => undefined,
  ended: () => undefined,
  lookedUp: () => undefined,
  odd: () => undefined,
};
