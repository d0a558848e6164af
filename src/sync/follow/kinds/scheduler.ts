// Reads the queues of schedulers from messages of the policy language.

import { Fault } from "#base/fault.ts";
import type { SchedulerRule, WorkloadParameters } from "#flow/rules.ts";
import type { Decoded } from "#wire/protobuf/message-types.ts";
import { millisecondsOf } from "#wire/protobuf/messages.ts";
import { matcherRule } from "./selector.ts";

type Message = Decoded<"aperture.policy.language.v1.Scheduler">;
type ParametersMessage = Message["defaultWorkloadParameters"];

/** The defaults of the language, which other controllers may leave out. */
const DEFAULT_PARAMETERS: WorkloadParameters = {
  priority: 1,
  tokens: 1,
  queueTimeoutMs: undefined,
};
const DEFAULT_MARGIN_MS = 10;

/** `null` is a scheduler without any field. @throws Fault INVALID_ARGUMENT for an invalid priority or number of tokens */
export function schedulerRule(message: Message | null): SchedulerRule {
  const margin = message?.decisionDeadlineMargin ?? null;
  return {
    workloads: (message?.workloads ?? []).map(({ name, labelMatcher, parameters }) => ({
      name,
      matcher: matcherRule(labelMatcher),
      parameters: parametersOf(parameters),
    })),
    defaultParameters: parametersOf(message?.defaultWorkloadParameters ?? null),
    deadlineMarginMs: margin === null ? DEFAULT_MARGIN_MS : millisecondsOf(margin),
    tokensLabelKey: message?.tokensLabelKey ?? "",
    priorityLabelKey: message?.priorityLabelKey ?? "",
    workloadLabelKey: message?.workloadLabelKey ?? "",
    fairnessLabelKey: message?.fairnessLabelKey ?? "",
  };
}

function parametersOf(message: ParametersMessage): WorkloadParameters {
  if (message === null) return DEFAULT_PARAMETERS;
  const { priority, tokens, queueTimeout } = message;
  if (!(priority > 0) || !Number.isFinite(priority)) {
    throw new Fault("INVALID_ARGUMENT", `priority: wanted a number above 0, got ${priority}`);
  }
  if (!(tokens >= 0) || !Number.isFinite(tokens)) {
    throw new Fault("INVALID_ARGUMENT", `tokens: wanted a number of at least 0, got ${tokens}`);
  }
  const queueTimeoutMs = queueTimeout === null ? undefined : millisecondsOf(queueTimeout);
  return { priority, tokens, queueTimeoutMs };
}
