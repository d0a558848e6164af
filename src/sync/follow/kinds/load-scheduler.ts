// Reads load schedulers and their numbers from wrapper messages.

import { millisecondsOf } from "#wire/protobuf/messages.ts";
import { schedulerRule } from "./scheduler.ts";
import { commonParameters, limiterKind } from "./wrapper.ts";

export const loadScheduler = limiterKind("load_scheduler", {
  config: "aperture.policy.sync.v1.LoadSchedulerWrapper",
  rule({ loadScheduler: message }) {
    const parameters = message?.parameters ?? null;
    if (parameters === null) return null;
    const { selectors, scheduler } = parameters;
    // Load schedulers have neither `on_failure` nor a label key.
    return {
      ...commonParameters({ selectors, refusal: scheduler, parameters: {} }, "load_scheduler"),
      scheduler: schedulerRule(scheduler),
    };
  },
  decision: "aperture.policy.sync.v1.LoadDecisionWrapper",
  numbers({ loadDecision }) {
    if (loadDecision === null) return null;
    const { loadMultiplier, passThrough, tokensByWorkloadIndex, validUntil } = loadDecision;
    return {
      loadMultiplier,
      passThrough,
      tokensByWorkload: new Map(Object.entries(tokensByWorkloadIndex)),
      // Decisions of other controllers may lack it; they are valid until the next decision.
      validUntil: validUntil === null ? Number.POSITIVE_INFINITY : millisecondsOf(validUntil),
    };
  },
});
