// Concurrency limiters, and the schedulers that count slots as they do, with their numbers, read from wrapper messages.

import type { ConcurrencyLimiterRule, ConcurrencySchedulerRule } from "#flow/rules.ts";
import type { Decoded } from "#wire/protobuf/message-types.ts";
import { decode, millisecondsOf } from "#wire/protobuf/messages.ts";
import { schedulerRule } from "./scheduler.ts";
import { selectorRule } from "./selector.ts";
import {
  attributesOf,
  type FollowedKind,
  failureOf,
  incomplete,
  nameIn,
  ownParameters,
  type StoredNumbers,
} from "./wrapper.ts";

const CONFIG = "aperture.policy.sync.v1.ConcurrencyLimiterWrapper";
const DECISION = "aperture.policy.sync.v1.ConcurrencyLimiterDecisionWrapper";

const QUEUE_CONFIG = "aperture.policy.sync.v1.ConcurrencySchedulerWrapper";

type SlotParameters = Decoded<"aperture.policy.language.v1.ConcurrencyLimiter.Parameters">;

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
      deniedStatus: limiter.requestParameters?.deniedResponseStatusCode ?? 0,
      tokensLabelKey: limiter.requestParameters?.tokensLabelKey ?? "",
      ...slotRule(parameters, "concurrency_limiter"),
    };
    return { name: nameIn(group, rule), rule };
  },

  readNumbers: (bytes, group) => slotNumbers(bytes, group, "concurrency_limiter"),
};

/** Its slots and decisions are those of a concurrency limiter. */
export const concurrencyScheduler: FollowedKind = {
  readRule(bytes, group) {
    const { commonAttributes, concurrencyScheduler: message } = decode(QUEUE_CONFIG, bytes);
    const parameters = message?.concurrencyLimiter ?? null;
    if (commonAttributes === null || message === null || parameters === null) {
      throw incomplete(QUEUE_CONFIG);
    }
    const rule: ConcurrencySchedulerRule = {
      kind: "concurrency_scheduler",
      ...attributesOf(commonAttributes),
      selectors: message.selectors.map(selectorRule),
      deniedStatus: message.scheduler?.deniedResponseStatusCode ?? 0,
      ...slotRule(parameters, "concurrency_scheduler"),
      scheduler: schedulerRule(message.scheduler),
    };
    return { name: nameIn(group, rule), rule };
  },

  readNumbers: (bytes, group) => slotNumbers(bytes, group, "concurrency_scheduler"),
};

function slotRule(
  parameters: SlotParameters,
  kind: "concurrency_limiter" | "concurrency_scheduler",
) {
  return {
    ...ownParameters(parameters, { kind, onMissingLabel: "pass" }),
    limitByLabelKey: parameters.limitByLabelKey,
    maxInflightMs: millisecondsOf(parameters.maxInflightDuration),
    maxIdleMs: millisecondsOf(parameters.maxIdleTime),
  };
}

function slotNumbers(
  bytes: Uint8Array,
  group: string,
  kind: "concurrency_limiter" | "concurrency_scheduler",
): StoredNumbers {
  const { commonAttributes, concurrencyLimiterDecision } = decode(DECISION, bytes);
  if (commonAttributes === null || concurrencyLimiterDecision === null) {
    throw incomplete(DECISION);
  }
  const attributes = attributesOf(commonAttributes);
  const { maxConcurrency, passThrough } = concurrencyLimiterDecision;
  const numbers = { maxConcurrency, passThrough, ...failureOf(concurrencyLimiterDecision) };
  return { name: nameIn(group, attributes), numbers: { kind, ...attributes, ...numbers } };
}
