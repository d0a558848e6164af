// Concurrency limiters and their numbers, read from wrapper messages.

import type { ConcurrencyLimiterRule } from "#flow/rules.ts";
import { decode, millisecondsOf } from "#wire/protobuf/messages.ts";
import { selectorRule } from "./selector.ts";
import {
  attributesOf,
  type FollowedKind,
  failureOf,
  incomplete,
  nameIn,
  ownParameters,
} from "./wrapper.ts";

const CONFIG = "aperture.policy.sync.v1.ConcurrencyLimiterWrapper";
const DECISION = "aperture.policy.sync.v1.ConcurrencyLimiterDecisionWrapper";

export const concurrencyLimiter: FollowedKind = {
  readRule(bytes, group) {
    const { commonAttributes, concurrencyLimiter: limiter } = decode(CONFIG, bytes);
    const parameters = limiter?.parameters ?? null;
    if (commonAttributes === null || limiter === null || parameters === null) {
      throw incomplete(CONFIG);
    }
    const rule: ConcurrencyLimiterRule = {
      kind: "concurrency_limiter",
      ...attributesOf(commonAttributes),
      selectors: limiter.selectors.map(selectorRule),
      ...ownParameters(parameters, { kind: "concurrency_limiter", onMissingLabel: "pass" }),
      deniedStatus: limiter.requestParameters?.deniedResponseStatusCode ?? 0,
      tokensLabelKey: limiter.requestParameters?.tokensLabelKey ?? "",
      limitByLabelKey: parameters.limitByLabelKey,
      maxInflightMs: millisecondsOf(parameters.maxInflightDuration),
      maxIdleMs: millisecondsOf(parameters.maxIdleTime),
    };
    return { name: nameIn(group, rule), rule };
  },

  readNumbers(bytes, group) {
    const { commonAttributes, concurrencyLimiterDecision } = decode(DECISION, bytes);
    if (commonAttributes === null || concurrencyLimiterDecision === null) {
      throw incomplete(DECISION);
    }
    const attributes = attributesOf(commonAttributes);
    const { maxConcurrency, passThrough } = concurrencyLimiterDecision;
    const numbers = { maxConcurrency, passThrough, ...failureOf(concurrencyLimiterDecision) };
    return {
      name: nameIn(group, attributes),
      numbers: { kind: "concurrency_limiter", ...attributes, ...numbers },
    };
  },
};
