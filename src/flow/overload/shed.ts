// Answers a flow that the agent has no time to judge, by the failure modes of its rules.

import type { Clock } from "#base/clock.ts";
import { type Flow, RejectReason, type Verdict } from "../flow.ts";
import { Labels } from "../label.ts";
import type { Observer } from "../observer.ts";
import type { Plan } from "../plan/plan.ts";
import { priorityOf, refusalOf } from "../plan/shed-plan.ts";
import { RAMP_STAGE } from "../stages.ts";
import type { OverloadGuard } from "./guard.ts";
import { priorityClass } from "./priorities.ts";

interface ShedContext {
  readonly clock: Clock;
  readonly observer: Observer;
}

/**
 * The answer to a flow that is shed; undefined for one that is judged. Call when `now` has reached `guard.until`. A control
 * point without rules has nothing that could be saved.
 */
export function shed(
  plan: Plan,
  flow: Flow,
  guard: OverloadGuard,
  { clock, observer }: ShedContext,
  now: number,
): Verdict | undefined {
  if (!guard.attend(now)) return undefined;
  const here = plan.controlPoint(flow.controlPoint);
  if (here.rules.length === 0) return undefined;
  const { shedding } = here.forServices(flow.services);
  const labels = new Labels(here.keys, flow.labels);
  const cause = guard.sheds(priorityClass(priorityOf(shedding, labels)), now);
  if (cause === undefined) return undefined;
  const refusal = refusalOf(shedding, labels);
  // A feature that is not trusted yet stays off.
  const ramp = flow.rampMode && refusal === undefined ? RAMP_STAGE : undefined;
  const start = clock.wallOf(now);
  const verdict: Verdict = {
    accepted: refusal === undefined && ramp === undefined,
    reason: refusal?.reason ?? ramp?.reason ?? RejectReason.none,
    deniedStatus: refusal?.deniedStatus ?? ramp?.deniedStatus ?? 0,
    refusal: undefined,
    shed: cause,
    waitMs: 0,
    decisions: refusal === undefined ? [] : [refusal.decision],
    hit: undefined,
    classifiers: [],
    fluxMeters: [],
    held: undefined,
    reservationId: "",
    labels,
    start,
    end: start,
  };
  observer.decided(flow, verdict);
  observer.shed(flow.controlPoint, verdict.accepted, cause);
  return verdict;
}
