// Reads flux meters from wrapper messages.

import type { BucketsRule, FluxMeterRule } from "#flow/rules.ts";
import type { Decoded } from "#wire/protobuf/message-types.ts";
import { decode } from "#wire/protobuf/messages.ts";
import { fluxMeterName } from "../../keys.ts";
import { selectorRule } from "./selector.ts";
import { type FollowedKind, incomplete } from "./wrapper.ts";

const CONFIG = "aperture.policy.sync.v1.FluxMeterWrapper";

/** Upper bounds in milliseconds. */
const DEFAULT_BUCKETS: readonly number[] = [
  5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000,
];

export const fluxMeter: FollowedKind = {
  readRule(bytes, group) {
    const { fluxMeterName: name, policyName, fluxMeter: message } = decode(CONFIG, bytes);
    if (message === null) throw incomplete(CONFIG);
    const rule: FluxMeterRule = {
      kind: "flux_meter",
      policyName,
      name,
      attributeKey: message.attributeKey,
      buckets: bucketsRule(message),
      selectors: message.selectors.map(selectorRule),
    };
    return { name: fluxMeterName(group, name), rule };
  },
};

function bucketsRule(message: Decoded<"aperture.policy.language.v1.FluxMeter">): BucketsRule {
  const { staticBuckets, linearBuckets, exponentialBuckets, exponentialBucketsRange } = message;
  if (linearBuckets) return { kind: "linear", ...linearBuckets };
  if (exponentialBuckets) return { kind: "exponential", ...exponentialBuckets };
  if (exponentialBucketsRange) return { kind: "exponential_range", ...exponentialBucketsRange };
  // Controllers of the reference system may leave the default out.
  const bounds = staticBuckets?.buckets ?? [];
  return { kind: "static", bounds: bounds.length > 0 ? bounds : DEFAULT_BUCKETS };
}
