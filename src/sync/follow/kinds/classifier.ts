// Reads classifiers from wrapper messages.

import { Fault } from "#base/fault.ts";
import { type ClassifierRule, type ExtractorRule, WHOLE_IPV4, WHOLE_IPV6 } from "#flow/rules.ts";
import type { Decoded } from "#wire/protobuf/message-types.ts";
import { decode } from "#wire/protobuf/messages.ts";
import { classifierName } from "../../keys.ts";
import { selectorRule } from "./selector.ts";
import { type FollowedKind, incomplete } from "./wrapper.ts";

const CONFIG = "aperture.policy.sync.v1.ClassifierWrapper";

/** The rule keeps only the label names of a Rego module, because this version of the agent does not run Rego. */
export const classifier: FollowedKind = {
  readRule(bytes, group) {
    const { classifierAttributes: attributes, classifier: message } = decode(CONFIG, bytes);
    if (attributes === null || message === null) throw incomplete(CONFIG);
    const { rego } = message;
    const rule: ClassifierRule = {
      kind: "classifier",
      policyName: attributes.policyName,
      policyHash: attributes.policyHash,
      index: Number(attributes.classifierIndex),
      selectors: message.selectors.map(selectorRule),
      rules: Object.entries(message.rules).map(([label, rule]) => ({
        label,
        telemetry: rule.telemetry,
        unreadableValue: rule.unreadableValue,
        extractor: extractorRule(rule.extractor ?? {}),
      })),
      ...(rego === null ? {} : { rego: Object.keys(rego.labels) }),
    };
    const name = classifierName(group, rule.policyName, rule.index);
    return rego === null ? { name, rule } : { name, rule, without: "rego" };
  },
};

function extractorRule(message: Decoded<"aperture.policy.language.v1.Extractor">): ExtractorRule {
  const { from, json, form, address, jwt, pathTemplates } = message;
  if (from !== undefined) return { kind: "from", from };
  if (json) return { kind: "json", ...json };
  if (form) return { kind: "form", ...form };
  if (address) {
    return {
      kind: "address",
      from: address.from,
      port: address.port ?? true,
      ipv4Prefix: address.ipv4Prefix || WHOLE_IPV4,
      ipv6Prefix: address.ipv6Prefix || WHOLE_IPV6,
    };
  }
  if (jwt) return { kind: "jwt", from: jwt.from, pointer: jwt.jsonPointer };
  if (pathTemplates) return { kind: "path_templates", templates: pathTemplates.templateValues };
  throw new Fault("INVALID_ARGUMENT", "extractor: wanted one of its variants, got none");
}
