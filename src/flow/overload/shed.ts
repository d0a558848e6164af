// Answers a flow that the agent has no time to judge: by the failure modes of its rules, or, if its caller takes more than
// its fair share of that time, by a refusal of each limiter that applies, so that to be costly is no way around a limit.

import { networkOf } from "#base/net/ip-address.ts";
import { type JudgementContext, judge, judgeBy } from "../check.ts";
import type { KeyHash } from "../counters/local/keys/key-hash.ts";
import { type Flow, type Pending, RejectReason, type ShedCause, type Verdict } from "../flow.ts";
import { Labels } from "../label.ts";
import type { Plan } from "../plan/plan.ts";
import { keyOf, priorityOf, refusalOf, type ShedPlan } from "../plan/shed-plan.ts";
import type { Caller } from "./callers.ts";
import type { OverloadGuard } from "./guard.ts";
import { priorityClass } from "./priorities.ts";

/**
 * Judges a flow or sheds it. Call when `now` has reached `guard.until`. A control point without rules has nothing that
 * could be saved.
 */
export function judgeOrShed(
  plan: Plan,
  flow: Flow,
  guard: OverloadGuard,
  context: JudgementContext,
  now: number,
): Verdict | Pending<Verdict> {
  if (!guard.attend(now)) return judge(plan, flow, context, now);
  const here = plan.controlPoint(flow.controlPoint);
  if (here.rules.length === 0) return judge(plan, flow, context, now);
  const service = here.forServices(flow.services);
  const labels = new Labels(here.labels, flow.labels);
  const { shedding } = service;
  const importance = priorityClass(priorityOf(shedding, labels));
  const cause = guard.sheds(importance, now, callerOf(shedding, labels, flow, guard.hash));
  if (cause !== undefined) return shed(shedding, labels, flow, cause, context, now);
  const verdict = judgeBy(service, labels, flow, context, now);
  guard.judged(context.clock.now() - now);
  return verdict;
}

/**
 * The caller to whom a check is charged: the source of the request, or the peer that asks where the check describes none,
 * and the key of a limiter. Clients may choose the key, and many users may share a source, so neither alone would do.
 */
function callerOf(shedding: ShedPlan, labels: Labels, flow: Flow, hash: KeyHash): Caller {
  const key = keyOf(shedding, labels);
  const address = flow.http?.source?.address ?? flow.peer ?? "";
  return { source: hashOf(hash, networkOf(address, 32, 64)), key: hashOf(hash, key ?? "") };
}

function hashOf(hash: KeyHash, text: string): number {
  if (text === "") return 0;
  hash.of(text);
  return hash.lo;
}

function shed(
  shedding: ShedPlan,
  labels: Labels,
  flow: Flow,
  cause: ShedCause,
  { clock, observer }: JudgementContext,
  now: number,
): Verdict {
  const refusal = refusalOf(shedding, flow, labels, cause === "cost");
  const start = clock.wallOf(now);
  const verdict: Verdict = {
    accepted: refusal === undefined,
    reason: refusal?.reason ?? RejectReason.none,
    deniedStatus: refusal?.deniedStatus ?? 0,
    refusal: undefined,
    shed: cause,
    waitMs: 0,
    decisions: refusal?.decision === undefined ? [] : [refusal.decision],
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
