// Decisions that no limiter makes: for a missing answer, by a failure mode, and after a grant was given back.

import { type Component, type Decision, Missing, NO_DETAIL } from "../flow.ts";

/** The decision of a component that did not answer. */
export function unanswered(component: Component): Decision {
  return {
    component,
    outcome: "undecided",
    dropped: true,
    missing: Missing.nothing,
    waitMs: -1,
    grantId: undefined,
    failure: undefined,
    detail: NO_DETAIL,
  };
}

/** True when the failure mode of the component has to answer, because the limiter neither decided nor named a mode. */
export function needsFailureMode({ outcome, failure }: Decision): boolean {
  return outcome === "undecided" && failure === undefined;
}

/** The decision by the failure mode of its component. Only `open` lets the flow pass. */
export function byFailureMode(decision: Decision): Decision {
  const { onFailure } = decision.component;
  return { ...decision, dropped: onFailure !== "open", failure: onFailure };
}

/** The decision after everything it took was given back. */
export function withoutGrant(decision: Decision): Decision {
  const { detail } = decision;
  const returned = "consumed" in detail ? { ...detail, consumed: 0 } : detail;
  return { ...decision, grantId: undefined, detail: returned };
}
