// Rate limiters and their numbers, read from wrapper messages.

import type { RateLimiterRule } from "#flow/rules.ts";
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

const CONFIG = "aperture.policy.sync.v1.RateLimiterWrapper";
const DECISION = "aperture.policy.sync.v1.RateLimiterDecisionWrapper";

export const rateLimiter: FollowedKind = {
  readRule(bytes, group) {
    const { commonAttributes, rateLimiter: limiter } = decode(CONFIG, bytes);
    const parameters = limiter?.parameters ?? null;
    if (commonAttributes === null || limiter === null || parameters === null) {
      throw incomplete(CONFIG);
    }
    const { lazySync } = parameters;
    const rule: RateLimiterRule = {
      kind: "rate_limiter",
      ...attributesOf(commonAttributes),
      selectors: limiter.selectors.map(selectorRule),
      ...ownParameters(parameters, { kind: "rate_limiter", onMissingLabel: "pass" }),
      deniedStatus: limiter.requestParameters?.deniedResponseStatusCode ?? 0,
      tokensLabelKey: limiter.requestParameters?.tokensLabelKey ?? "",
      // The deprecated key counts only where the current one is empty.
      limitByLabelKey: parameters.limitByLabelKey || parameters.labelKey,
      intervalMs: millisecondsOf(parameters.interval),
      continuousFill: parameters.continuousFill,
      delayInitialFill: parameters.delayInitialFill,
      maxIdleMs: millisecondsOf(parameters.maxIdleTime),
      lazySyncs: lazySync?.enabled ? lazySync.numSync : 0,
    };
    return { name: nameIn(group, rule), rule };
  },

  readNumbers(bytes, group) {
    const { commonAttributes, rateLimiterDecision } = decode(DECISION, bytes);
    if (commonAttributes === null || rateLimiterDecision === null) throw incomplete(DECISION);
    const attributes = attributesOf(commonAttributes);
    const { bucketCapacity, fillAmount, passThrough } = rateLimiterDecision;
    const numbers = { bucketCapacity, fillAmount, passThrough, ...failureOf(rateLimiterDecision) };
    return {
      name: nameIn(group, attributes),
      numbers: { kind: "rate_limiter", ...attributes, ...numbers },
    };
  },
};
