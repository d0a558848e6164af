// Resources: what agents classify and measure, whatever the circuit does.

import { judgeLabelRule } from "#flow/classify.ts";
import type { ExtractorRule } from "#flow/rules.ts";
import {
  arm,
  deprecated,
  either,
  filledMap,
  flag,
  int32,
  list,
  map,
  message,
  number,
  object,
  part,
  refused,
  required,
  type Say,
  text,
  type ValueOf,
} from "./field.ts";
import { selectors } from "./selector.ts";

/** More bounds than this is a mistake, and memory in every agent. */
const MOST_BUCKETS = 1_000;
const count = () => int32({ above: 0, max: MOST_BUCKETS });

const DEFAULT_BOUNDS: readonly number[] = [
  5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000,
];

function sayBounds(bounds: readonly number[], say: Say): void {
  if (bounds.length === 0 || bounds.length > MOST_BUCKETS) {
    say(["buckets"], `between 1 and ${MOST_BUCKETS} upper bounds`, String(bounds.length));
  }
  bounds.forEach((bound, at) => {
    const before = bounds[at - 1] ?? Number.NEGATIVE_INFINITY;
    if (!Number.isFinite(bound) || bound <= before) {
      say(["buckets", at], `a finite bound above the one before it (${before})`, String(bound));
    }
  });
}

const staticBuckets = message(
  "FluxMeter.StaticBuckets",
  { buckets: { ...list(number()), default: DEFAULT_BOUNDS } },
  { check: ({ buckets }, say) => sayBounds(buckets, say) },
);

const linearBuckets = message("FluxMeter.LinearBuckets", {
  start: number(),
  width: required(number({ above: 0 })),
  count: count(),
});

const exponentialBuckets = message(
  "FluxMeter.ExponentialBuckets",
  { start: number({ above: 0 }), factor: number({ above: 1 }), count: count() },
  {
    check({ start, factor, count: buckets }, say) {
      const last = start * factor ** (buckets - 1);
      if (!Number.isFinite(last)) say(["count"], "bounds that stay finite", String(buckets));
    },
  },
);

const exponentialBucketsRange = message(
  "FluxMeter.ExponentialBucketsRange",
  { min: number({ above: 0 }), max: number(), count: count() },
  {
    check({ min, max }, say) {
      if (!(max > min && Number.isFinite(max))) {
        say(["max"], `a finite number above min (${min})`, String(max));
      }
    },
  },
);

export const fluxMeter = message("FluxMeter", {
  static_buckets: arm("buckets", staticBuckets),
  linear_buckets: arm("buckets", linearBuckets),
  exponential_buckets: arm("buckets", exponentialBuckets),
  exponential_buckets_range: arm("buckets", exponentialBucketsRange),
  attribute_key: text({ default: "workload_duration_ms", filled: true }),
  selectors: selectors(),
});
export type FluxMeter = ValueOf<typeof fluxMeter>;

/** What a meter without any buckets gets: durations in milliseconds. */
export const defaultBounds = (): readonly number[] => DEFAULT_BOUNDS;

const extractor = message(
  "Extractor",
  {
    from: either("variant", text({ filled: true })),
    json: arm("variant", message("JSONExtractor", { from: required(text()), pointer: text() })),
    address: arm("variant", message("AddressExtractor", { from: required(text()) })),
    jwt: arm("variant", message("JWTExtractor", { from: required(text()), json_pointer: text() })),
    path_templates: arm(
      "variant",
      message("PathTemplateMatcher", {
        template_values: filledMap(text(), text({ filled: true })),
      }),
    ),
  },
  {
    oneOf: { variant: "extractor" },
    check(value, say) {
      const label = { label: "label", telemetry: true, extractor: extractorRule(value) };
      for (const reason of judgeLabelRule(label)) {
        say([], "an extractor that agents can run", reason.replace(/^label "label": /, ""));
      }
    },
  },
);

/** The one variant that is present. */
export function extractorRule(value: {
  readonly from: string | undefined;
  readonly json: { readonly from: string; readonly pointer: string } | undefined;
  readonly address: { readonly from: string } | undefined;
  readonly jwt: { readonly from: string; readonly json_pointer: string } | undefined;
  readonly path_templates: { readonly template_values: ReadonlyMap<string, string> } | undefined;
}): ExtractorRule {
  const { from = "", json, address, jwt, path_templates } = value;
  if (json !== undefined) return { kind: "json", ...json };
  if (address !== undefined) return { kind: "address", ...address };
  if (jwt !== undefined) return { kind: "jwt", from: jwt.from, pointer: jwt.json_pointer };
  if (path_templates === undefined) return { kind: "from", from };
  return {
    kind: "path_templates",
    templates: Object.fromEntries(path_templates.template_values),
  };
}

const rule = message("Rule", {
  extractor: required(part(extractor)),
  telemetry: flag(true),
});

const labelName = text({ labelName: true });

const rego = message(
  "Rego",
  {
    labels: filledMap(part(message("Rego.LabelProperties", { telemetry: flag(true) })), labelName),
    module: refused(required(text())),
  },
  {
    check({ module }, say) {
      if (!/^\s*package\s+\S/m.test(module)) {
        say(["module"], "a Rego module with a package line", "none");
      }
    },
  },
);

export const classifier = message("Classifier", {
  rules: map(part(rule), labelName),
  rego: part(rego),
  selectors: selectors(),
});
export type Classifier = ValueOf<typeof classifier>;

const named = text({ filled: true, noSlash: true });

export const infraMeter = message("InfraMeter", {
  receivers: map(object()),
  processors: map(object()),
  pipeline: part(
    message("InfraMeter.MetricsPipeline", { receivers: list(text()), processors: list(text()) }),
  ),
  per_agent_group: flag(),
  agent_group: text({ default: "default", filled: true, noSlash: true }),
});

export type InfraMeter = ValueOf<typeof infraMeter>;

const telemetryCollector = message("TelemetryCollector", {
  agent_group: text({ default: "default", filled: true, noSlash: true }),
  infra_meters: map(part(infraMeter), named),
});

const flowControlResources = message("FlowControlResources", {
  flux_meters: map(part(fluxMeter), named),
  classifiers: list(part(classifier)),
});

export const resources = message("Resources", {
  telemetry_collectors: deprecated("infra_meters", list(part(telemetryCollector))),
  infra_meters: map(part(infraMeter), named),
  flow_control: part(flowControlResources),
});
export type Resources = ValueOf<typeof resources>;
