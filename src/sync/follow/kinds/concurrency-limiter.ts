// Concurrency limiters, and the schedulers that count slots as they do, with their numbers, read from wrapper messages.

import { Fault } from "#base/fault.ts";
import type {
  AdaptiveBounds,
  ConcurrencyLimiterRule,
  ConcurrencySchedulerRule,
} from "#flow/rules.ts";
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

type StoredAdaptive = Decoded<"aperture.policy.language.v1.ConcurrencyLimiter.Parameters.Adaptive">;
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
    ...adaptiveOf(parameters.adaptive ?? null),
  };
}

/** Start of an adaptive limit whose policy names none, as far as its bounds allow. */
const ADAPTIVE_START = 20;

/** @throws Fault INVALID_ARGUMENT for bounds that no limit can keep */
function adaptiveOf(stored: StoredAdaptive | null): { readonly adaptive?: AdaptiveBounds } {
  if (stored === null) return {};
  const { min, max, tolerance } = stored;
  const start = stored.start ?? Math.min(max, Math.max(min, ADAPTIVE_START));
  if (!(min >= 1 && min <= start && start <= max && tolerance > 1)) {
    const wanted = "1 <= min <= start <= max and tolerance > 1";
    const got = `min ${min}, start ${start}, max ${max}, tolerance ${tolerance}`;
    throw new Fault("INVALID_ARGUMENT", `adaptive: wanted ${wanted}, got ${got}`);
  }
  return { adaptive: Object.freeze({ min, max, start, tolerance }) };
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
