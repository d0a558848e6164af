// Answers a flow that the agent has no time to judge. The failure modes of its rules decide. Where the caller takes more
// than its fair share of the time, every limiter that applies refuses, so that nobody gets past a limit by costly checks.

import { networkOf } from "#base/net/ip-address.ts";
import { verdictWithoutRules } from "../check/without-rules.ts";
import { type CheckContext, judge, judgeBy } from "../check.ts";
import type { KeyHash } from "../counters/local/keys/key-hash.ts";
import { type Flow, type Pending, RejectReason, type ShedCause, type Verdict } from "../flow.ts";
import { Labels } from "../label.ts";
import type { Plan } from "../plan/plan.ts";
import { keyOf, priorityOf, refusalOf, type ShedPlan } from "../plan/shed-plan.ts";
import type { Caller } from "./callers.ts";
import type { OverloadGuard } from "./guard.ts";
import { priorityClass } from "./priorities.ts";

/** Judges a flow or sheds it. Call when `now` has reached `guard.until`. Control points without rules shed nothing. */
export function judgeOrShed(
  plan: Plan,
  flow: Flow,
  guard: OverloadGuard,
  context: CheckContext,
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
 * The caller to whom a check is charged: the source of the request, or else the peer that asks, and the key of a limiter.
 * Both are needed, because clients may choose the key, and many users may share a source.
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
  context: CheckContext,
  now: number,
): Verdict {
  const refusal = refusalOf(shedding, flow, labels, cause === "cost");
  const accepted = refusal === undefined;
  const reasons = {
    accepted,
    reason: refusal?.reason ?? RejectReason.none,
    deniedStatus: refusal?.deniedStatus ?? 0,
    refusal: undefined,
    shed: cause,
    decisions: refusal?.decision === undefined ? [] : [refusal.decision],
  };
  const start = context.clock.wallOf(now);
  const verdict = verdictWithoutRules(flow, labels, reasons, start, context);
  context.observer.shed(flow.controlPoint, accepted, cause);
  return verdict;
}
