// Reads samplers, including load ramps, and their numbers from wrapper messages.

import { SESSION_HASHES } from "#flow/rules.ts";
import { commonParameters, limiterKind, numbersOf, oneOf } from "./wrapper.ts";

export const sampler = limiterKind("sampler", {
  config: "aperture.policy.sync.v1.SamplerWrapper",
  rule({ sampler: message }) {
    const parameters = message?.parameters ?? null;
    if (parameters === null) return null;
    const { selectors, rampMode, sessionLabelKey, labelKey, hash } = parameters;
    const kind = rampMode ? "ramp_sampler" : "sampler";
    return {
      ...commonParameters({ selectors, refusal: parameters, parameters }, kind, "default_key"),
      // The deprecated key counts only where the current one is empty.
      sessionLabelKey: sessionLabelKey || (labelKey ?? ""),
      rampMode,
      hash: oneOf("hash", SESSION_HASHES, hash) ?? "mixed",
    };
  },
  decision: "aperture.policy.sync.v1.SamplerDecisionWrapper",
  numbers: ({ samplerDecision }) => samplerDecision && numbersOf(samplerDecision),
});
