// The flow controller as callers use it: ask whether a flow may pass, and end one that did.

import type { Refusal } from "#base/http/refusal.ts";
import { type JudgementContext, judge, refuse } from "./check.ts";
import type { Flow, Pending, SlotRef, SlotReturn, Verdict } from "./flow.ts";
import type { Observer } from "./observer.ts";
import { holdsSlots } from "./plan/stage-member.ts";
import type { Rulebook } from "./rulebook.ts";

export interface FlowController {
  judge(flow: Flow): Verdict | Pending<Verdict>;
  /** Refuses a flow without asking any limiter. */
  refuse(flow: Flow, refusal: Refusal): Verdict;
  /** Frees slots; also from another connection, and after a change of the policy that took them. */
  end(refs: readonly SlotRef[]): readonly SlotReturn[];
  readonly observer: Observer;
}

/** Judges each flow by the plan that the rulebook holds when the flow arrives. */
export function createFlowController(book: Rulebook, context: JudgementContext): FlowController {
  return {
    judge: (flow) => judge(book.plan, flow, context),
    refuse: (flow, refusal) => refuse(flow, refusal, context),
    end: (refs) => refs.map((ref) => endSlot(book, ref)),
    observer: context.observer,
  };
}

/** Ends one slot. Never throws: errors are part of the result. */
function endSlot(book: Rulebook, ref: SlotRef): SlotReturn {
  const { policyName, componentId, label, requestId } = ref;
  const all = book.members(policyName).filter(holdsSlots);
  const named = all.filter(({ component }) => component.componentId === componentId);
  // Inserting a component renumbers those after it. Slot ids are unique, so every component of the policy is tried.
  const candidates = [...named, ...all.filter((limiter) => !named.includes(limiter))];
  if (candidates.length === 0) {
    return { returned: false, error: "flow ender not found for limiter id" };
  }
  if (requestId === "") return { returned: false, error: "request id cannot be empty" };
  const grant = { policyName, componentId, key: label, id: requestId, amount: ref.tokens };
  return { returned: candidates.some((limiter) => limiter.end(grant)), error: "" };
}
