// The flow controller as callers use it: it judges flows, and ends those that passed.

import type { Refusal } from "#base/http/refusal.ts";
import { decisionIds } from "./check/decision-ids.ts";
import { Reservations } from "./check/reservations.ts";
import { refuse } from "./check/without-rules.ts";
import { type CheckContext, judge } from "./check.ts";
import {
  type Flow,
  type FlowEnd,
  type Grant,
  Pending,
  type Settlement,
  type SlotRef,
  type SlotReturn,
  type Verdict,
} from "./flow.ts";
import { holdsSlots, type SlotLimiter } from "./limit/limiter.ts";
import type { Observer } from "./observer.ts";
import type { OverloadGuard } from "./overload/guard.ts";
import { judgeOrShed } from "./overload/shed.ts";
import type { Rulebook } from "./rulebook.ts";

export interface FlowController {
  /** Judges a flow, or sheds it where the agent cannot judge all of them. */
  judge(flow: Flow): Verdict | Pending<Verdict>;
  /** Refuses a flow without asking any limiter. */
  refuse(flow: Flow, refusal: Refusal): Verdict;
  /**
   * Frees slots, also those that were taken over another connection or by an earlier version of the policy. Pending only
   * where agents share their slots.
   */
  end(refs: readonly SlotRef[]): readonly SlotReturn[] | Pending<readonly SlotReturn[]>;
  /**
   * Replaces the estimate of a flow with its true cost. A second end changes nothing. Only the agent that judged the flow
   * knows its reservation.
   */
  settle(end: FlowEnd): Settlement;
  /** Estimates that await their settlement. */
  readonly reservations: number;
  readonly observer: Observer;
}

/** Judges each flow by the plan in force when the flow arrives. Without a guard it sheds none. */
export function createFlowController(
  book: Rulebook,
  around: Pick<CheckContext, "clock" | "chance" | "observer">,
  guard?: OverloadGuard,
): FlowController {
  const { clock, chance } = around;
  const reservations = new Reservations(around);
  const nextDecisionId = decisionIds(chance);
  const context = { ...around, nextDecisionId, reservations, inProgress: guard };
  return {
    judge:
      guard === undefined
        ? (flow) => judge(book.plan, flow, context)
        : (flow) => {
            const now = clock.now();
            return now < guard.until
              ? judge(book.plan, flow, context, now)
              : judgeOrShed(book.plan, flow, guard, context, now);
          },
    refuse: (flow, refusal) => refuse(flow, refusal, context),
    end: (refs) => whenAll(refs.map((ref) => endSlot(book, ref))),
    settle: (end) => reservations.settle(end),
    get reservations() {
      return reservations.count;
    },
    observer: context.observer,
  };
}

/** Ends one slot. Never throws: errors are part of the result. */
function endSlot(book: Rulebook, ref: SlotRef): SlotReturn | Pending<SlotReturn> {
  const { policyName, policyHash, componentId, label, requestId } = ref;
  const all = book.limiters(policyName).filter(holdsSlots);
  const isNamed = ({ component }: SlotLimiter) => component.componentId === componentId;
  const present = all.filter(({ component }) => component.policyHash === policyHash);
  // In another version of the policy the component may have another number. Slot ids are unique, so all are tried, those
  // with this number first.
  const any = all.toSorted((one, other) => Number(isNamed(other)) - Number(isNamed(one)));
  const candidates = present.length > 0 ? present.filter(isNamed) : any;
  if (candidates.length === 0) {
    return { returned: false, error: "flow ender not found for limiter id" };
  }
  if (requestId === "") return { returned: false, error: "request id cannot be empty" };
  const grant = { policyName, componentId, key: label, id: requestId, amount: ref.tokens };
  const ended = endAtFirst(candidates, grant);
  return ended instanceof Pending ? ended.chain(returnOf) : returnOf(ended);
}

/** Asks one limiter after the other until one knows the slot. */
function endAtFirst(limiters: readonly SlotLimiter[], grant: Grant): boolean | Pending<boolean> {
  for (const [at, limiter] of limiters.entries()) {
    const ended = limiter.end(grant);
    if (ended === true) return true;
    if (ended === false) continue;
    return ended.chain((known) => known || endAtFirst(limiters.slice(at + 1), grant));
  }
  return false;
}

function returnOf(returned: boolean): SlotReturn {
  return { returned, error: "" };
}

/** All answers in order, when the last one has arrived. */
function whenAll<T>(answers: readonly (T | Pending<T>)[]): readonly T[] | Pending<readonly T[]> {
  const settled: T[] = [];
  const later = new Pending<readonly T[]>();
  let left = 0;
  for (const [at, answer] of answers.entries()) {
    if (!(answer instanceof Pending)) {
      settled[at] = answer;
      continue;
    }
    left++;
    answer.whenSettled(
      (value) => {
        settled[at] = value;
        left--;
        if (left === 0) later.settle(settled);
      },
      (thrown) => later.fail(thrown),
    );
  }
  return left === 0 ? settled : later;
}
