// Refusing a flow without asking any limiter, because its request is one that no service should see.

import type { Refusal } from "#base/http/refusal.ts";
import type { JudgementContext } from "../check.ts";
import { type Flow, RejectReason, type Verdict } from "../flow.ts";
import { EMPTY_SCHEMA, Labels } from "../label.ts";

/** Refuses one flow. Counted like every refusal. */
export function refuse(flow: Flow, refusal: Refusal, context: JudgementContext): Verdict {
  const { clock, observer } = context;
  const start = clock.wall();
  const verdict: Verdict = {
    accepted: false,
    reason: RejectReason.none,
    deniedStatus: refusal.status,
    refusal,
    shed: undefined,
    waitMs: 0,
    decisions: [],
    hit: undefined,
    classifiers: [],
    fluxMeters: [],
    held: undefined,
    reservationId: "",
    labels: new Labels(EMPTY_SCHEMA, flow.labels),
    start,
    end: start,
  };
  observer.anomaly("request_refused");
  observer.decided(flow, verdict);
  return verdict;
}
