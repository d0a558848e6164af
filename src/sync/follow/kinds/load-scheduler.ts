// Load schedulers and their numbers, read from wrapper messages.

import { type LoadSchedulerRule, usualFailureMode } from "#flow/rules.ts";
import { decode, millisecondsOf } from "#wire/protobuf/messages.ts";
import { schedulerRule } from "./scheduler.ts";
import { selectorRule } from "./selector.ts";
import { attributesOf, type FollowedKind, incomplete, nameIn } from "./wrapper.ts";

const CONFIG = "aperture.policy.sync.v1.LoadSchedulerWrapper";
const DECISION = "aperture.policy.sync.v1.LoadDecisionWrapper";

export const loadScheduler: FollowedKind = {
  readRule(bytes, group) {
    const { commonAttributes, loadScheduler: message } = decode(CONFIG, bytes);
    const parameters = message?.parameters ?? null;
    if (commonAttributes === null || parameters === null) throw incomplete(CONFIG);
    const rule: LoadSchedulerRule = {
      kind: "load_scheduler",
      ...attributesOf(commonAttributes),
      selectors: parameters.selectors.map(selectorRule),
      onFailure: usualFailureMode("load_scheduler"),
      // It is keyed by no label.
      onMissingLabel: "pass",
      deniedStatus: parameters.scheduler?.deniedResponseStatusCode ?? 0,
      scheduler: schedulerRule(parameters.scheduler),
    };
    return { name: nameIn(group, rule), rule };
  },

  readNumbers(bytes, group) {
    const { commonAttributes, loadDecision } = decode(DECISION, bytes);
    if (commonAttributes === null || loadDecision === null) throw incomplete(DECISION);
    const attributes = attributesOf(commonAttributes);
    const { loadMultiplier, passThrough, tokensByWorkloadIndex, validUntil } = loadDecision;
    return {
      name: nameIn(group, attributes),
      numbers: {
        kind: "load_scheduler",
        ...attributes,
        loadMultiplier,
        passThrough,
        tokensByWorkload: new Map(Object.entries(tokensByWorkloadIndex)),
        // Decisions of other controllers may have none: they are valid until the next.
        validUntil: validUntil === null ? Number.POSITIVE_INFINITY : millisecondsOf(validUntil),
      },
    };
  },
};
