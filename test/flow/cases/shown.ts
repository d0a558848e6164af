// Verdicts and decisions as golden cases write them: everything that is not as usual, and nothing else.

import type { Decision, Verdict } from "#flow/flow.ts";
import { Missing, NO_DETAIL, RejectReason } from "#flow/flow.ts";
import type { LimiterKind } from "#flow/rules.ts";

export type Shown = Readonly<Record<string, unknown>>;

const REASONS: ReadonlyMap<number, string> = new Map(
  Object.entries(RejectReason).map(([name, number]) => [number, name]),
);

/** The kinds that report a wait of 0 where there is none; the others report no wait. */
const ALWAYS_WAIT: ReadonlySet<LimiterKind> = new Set(["rate_limiter", "concurrency_limiter"]);

const SCHEDULERS: ReadonlySet<LimiterKind> = new Set([
  "load_scheduler",
  "quota_scheduler",
  "concurrency_scheduler",
]);

/** An object without the members that are as usual. */
function unusual(members: readonly (readonly [string, unknown, unknown])[]): Shown {
  return Object.fromEntries(
    members.filter(([, value, usual]) => value !== usual).map(([name, value]) => [name, value]),
  );
}

/** Sums of fractions are not exact. */
function rounded(number: number): number {
  return Number(number.toFixed(6));
}

/** Milliseconds as seconds. */
export function seconds(ms: number): number {
  return rounded(ms / 1_000);
}

/** `{ <kind>: { <what is unusual about it> } }`. */
export function shownDecision(decision: Decision): Shown {
  const { component, outcome, dropped, missing, waitMs, failure } = decision;
  const { kind, deniedStatus } = component;
  const detail = { ...NO_DETAIL, ...decision.detail };
  const scheduler = SCHEDULERS.has(kind);
  const usualWait = ALWAYS_WAIT.has(kind) ? 0 : -1;
  const lacking = Object.entries(Missing).flatMap(([name, bit]) =>
    (missing & bit) === 0 ? [] : [name],
  );
  // A load scheduler reports the workload alone.
  const label = kind === "load_scheduler" ? "default" : detail.label;
  const usualLabel = kind === "sampler" || kind === "ramp_sampler" ? ":" : "default";
  return {
    [kind]: unusual([
      ["dropped", dropped, false],
      ["undecided", outcome === "undecided", false],
      ["failure", failure, undefined],
      ["missing", lacking.join(" "), ""],
      ["label", label, usualLabel],
      ["workload", detail.workload, scheduler ? "default" : ""],
      ["priority", rounded(detail.priority), scheduler ? 1 : 0],
      ["took", rounded(detail.consumed), 0],
      ["remaining", rounded(detail.remaining), 0],
      ["current", rounded(detail.current), 0],
      ["id", detail.requestId !== "", false],
      ["wait", waitMs === usualWait ? undefined : waitMs < 0 ? "none" : seconds(waitMs), undefined],
      ["denied_status", deniedStatus, 0],
    ]),
  };
}

/** The decisions one by one; `{}` for a flow that passes where nothing limits it. */
export function shownVerdict(verdict: Verdict, waitedMs: number): Shown {
  const { accepted, reason, deniedStatus, waitMs, decisions, reservationId } = verdict;
  const by = decisions.map(shownDecision);
  return {
    ...unusual([
      ["refused", accepted ? undefined : REASONS.get(reason), undefined],
      ["status", deniedStatus, 0],
      ["retry_after", seconds(waitMs), 0],
      ["waited", seconds(waitedMs), 0],
      ["reserved", reservationId !== "", false],
    ]),
    ...(by.length === 0 ? {} : { by }),
  };
}
