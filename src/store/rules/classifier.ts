// Classifiers and flux meters, out of wrapper messages.

import { Fault } from "#base/fault.ts";
import type { BucketsRule, ClassifierRule, ExtractorRule, FluxMeterRule } from "#flow/rules.ts";
import { decode } from "#wire/messages.ts";
import type { Decoded } from "#wire/shapes.ts";
import { selectorRule } from "./selector.ts";

type ExtractorName = "aperture.policy.language.v1.Extractor";
type FluxMeterName = "aperture.policy.language.v1.FluxMeter";

const CLASSIFIER = "aperture.policy.sync.v1.ClassifierWrapper";
const FLUX_METER = "aperture.policy.sync.v1.FluxMeterWrapper";

const DEFAULT_BUCKETS_MS: readonly number[] = [
  5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000,
];

/** Rego is left out. */
export function classifierRule(bytes: Uint8Array): {
  readonly rule: ClassifierRule;
  readonly without?: string;
} {
  const { classifierAttributes: attributes, classifier } = decode(CLASSIFIER, bytes);
  if (attributes === null || classifier === null) throw incomplete(CLASSIFIER);
  const rule: ClassifierRule = {
    kind: "classifier",
    policyName: attributes.policyName,
    policyHash: attributes.policyHash,
    index: Number(attributes.classifierIndex),
    selectors: classifier.selectors.map(selectorRule),
    rules: Object.entries(classifier.rules).map(([label, { telemetry, extractor }]) => ({
      label,
      telemetry,
      extractor: extractorRule(extractor ?? {}),
    })),
  };
  return classifier.rego === null ? { rule } : { rule, without: "rego" };
}

function extractorRule(message: Decoded<ExtractorName>): ExtractorRule {
  const { from, json, address, jwt, pathTemplates } = message;
  if (from !== undefined) return { kind: "from", from };
  if (json) return { kind: "json", ...json };
  if (address) return { kind: "address", from: address.from };
  if (jwt) return { kind: "jwt", from: jwt.from, pointer: jwt.jsonPointer };
  if (pathTemplates) return { kind: "path_templates", templates: pathTemplates.templateValues };
  throw new Fault("INVALID_ARGUMENT", "extractor: wanted one of its variants, got none");
}

export function fluxMeterRule(bytes: Uint8Array): FluxMeterRule {
  const { fluxMeterName, policyName, fluxMeter } = decode(FLUX_METER, bytes);
  if (fluxMeter === null) throw incomplete(FLUX_METER);
  return {
    kind: "flux_meter",
    policyName,
    name: fluxMeterName,
    attributeKey: fluxMeter.attributeKey,
    buckets: bucketsRule(fluxMeter),
    selectors: fluxMeter.selectors.map(selectorRule),
  };
}

function bucketsRule(message: Decoded<FluxMeterName>): BucketsRule {
  const { staticBuckets, linearBuckets, exponentialBuckets, exponentialBucketsRange } = message;
  if (linearBuckets) return { kind: "linear", ...linearBuckets };
  if (exponentialBuckets) return { kind: "exponential", ...exponentialBuckets };
  if (exponentialBucketsRange) return { kind: "exponential_range", ...exponentialBucketsRange };
  // Some controllers leave the default out, which is meant in milliseconds.
  const bounds = staticBuckets?.buckets ?? [];
  return { kind: "static", bounds: bounds.length > 0 ? bounds : DEFAULT_BUCKETS_MS };
}

export function incomplete(name: string): Fault {
  return new Fault(
    "INVALID_ARGUMENT",
    `${name}: wanted attributes and a component, got neither or one`,
  );
}
