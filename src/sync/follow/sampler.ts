// Samplers, load ramps among them, and their numbers, read from wrapper messages.

import type { SamplerRule } from "#flow/rules.ts";
import { decode } from "#wire/protobuf/messages.ts";
import { selectorRule } from "./selector.ts";
import { attributesOf, type FollowedKind, incomplete, nameIn } from "./wrapper.ts";

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
      onFailure: "local",
      deniedStatus: parameters.deniedResponseStatusCode,
      sessionLabelKey: parameters.sessionLabelKey,
      rampMode: parameters.rampMode,
    };
    return { name: nameIn(group, rule), rule };
  },

  readNumbers(bytes, group) {
    const { commonAttributes, samplerDecision } = decode(DECISION, bytes);
    if (commonAttributes === null || samplerDecision === null) throw incomplete(DECISION);
    const attributes = attributesOf(commonAttributes);
    return {
      name: nameIn(group, attributes),
      numbers: { kind: "sampler", ...attributes, ...samplerDecision },
    };
  },
};
