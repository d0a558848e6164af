// Samplers, load ramps among them, and their numbers, read from wrapper messages.

import { type SamplerRule, SESSION_HASHES } from "#flow/rules.ts";
import { decode } from "#wire/protobuf/messages.ts";
import { selectorRule } from "./selector.ts";
import {
  attributesOf,
  type FollowedKind,
  failureOf,
  incomplete,
  nameIn,
  oneOf,
  ownParameters,
} from "./wrapper.ts";

const CONFIG = "aperture.policy.sync.v1.SamplerWrapper";
const DECISION = "aperture.policy.sync.v1.SamplerDecisionWrapper";

export const sampler: FollowedKind = {
  readRule(bytes, group) {
    const { commonAttributes, sampler: message } = decode(CONFIG, bytes);
    const parameters = message?.parameters ?? null;
    if (commonAttributes === null || parameters === null) throw incomplete(CONFIG);
    const rule: SamplerRule = {
      kind: "sampler",
      ...attributesOf(commonAttributes),
      selectors: parameters.selectors.map(selectorRule),
      ...ownParameters(parameters, {
        kind: parameters.rampMode ? "ramp_sampler" : "sampler",
        onMissingLabel: "default_key",
      }),
      deniedStatus: parameters.deniedResponseStatusCode,
      // The deprecated key counts only where the current one is empty.
      sessionLabelKey: parameters.sessionLabelKey || (parameters.labelKey ?? ""),
      rampMode: parameters.rampMode,
      hash: oneOf("hash", SESSION_HASHES, parameters.hash) ?? "mixed",
    };
    return { name: nameIn(group, rule), rule };
  },

  readNumbers(bytes, group) {
    const { commonAttributes, samplerDecision } = decode(DECISION, bytes);
    if (commonAttributes === null || samplerDecision === null) throw incomplete(DECISION);
    const attributes = attributesOf(commonAttributes);
    const { acceptPercentage, passThroughLabelValues } = samplerDecision;
    const numbers = { acceptPercentage, passThroughLabelValues, ...failureOf(samplerDecision) };
    return {
      name: nameIn(group, attributes),
      numbers: { kind: "sampler", ...attributes, ...numbers },
    };
  },
};
