// Verdicts about flows that no rule judges: requests that no service should see, and checks that are shed.

import type { Refusal } from "#base/http/refusal.ts";
import type { CheckContext } from "../check.ts";
import { type Flow, RejectReason, type Verdict } from "../flow.ts";
import { EMPTY_SCHEMA, Labels } from "../label.ts";

type Reasons = Pick<
  Verdict,
  "accepted" | "reason" | "deniedStatus" | "refusal" | "shed" | "decisions"
>;

/** Makes the verdict of a flow that no rule judges, and tells telemetry. */
export function verdictWithoutRules(
  flow: Flow,
  labels: Labels,
  reasons: Reasons,
  start: number,
  { observer, nextDecisionId }: CheckContext,
): Verdict {
  const verdict: Verdict = {
    ...reasons,
    waitMs: 0,
    classifiers: [],
    fluxMeters: [],
    held: undefined,
    reservationId: "",
    decisionId: nextDecisionId(),
    labels,
    start,
    end: start,
  };
  observer.decided(flow, verdict);
  return verdict;
}

/** Refuses a request that no service should see. Counted like every refusal. */
export function refuse(flow: Flow, refusal: Refusal, context: CheckContext): Verdict {
  context.observer.anomaly("request_refused");
  const reasons = {
    accepted: false,
    reason: RejectReason.none,
    deniedStatus: refusal.status,
    refusal,
    shed: undefined,
    decisions: [],
  };
  const labels = new Labels(EMPTY_SCHEMA, flow.labels);
  return verdictWithoutRules(flow, labels, reasons, context.clock.wall(), context);
}
