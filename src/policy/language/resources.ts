// Resources: what agents classify and measure, whatever the circuit does.

import { judgeLabelRule } from "#flow/classify.ts";
import type { ExtractorRule } from "#flow/rules.ts";
import {
  about,
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
  published,
  required,
  type Say,
  text,
  type ValueOf,
} from "./field.ts";
import { judgeRego } from "./rego.ts";
import { agentGroup, selectors } from "./selector.ts";

/** More bounds than this is a mistake, and memory in every agent. */
const MOST_BUCKETS = 1_000;
const count = () => about("How many buckets.", int32({ above: 0, max: MOST_BUCKETS }));

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
  { buckets: about("Upper bounds, rising.", { ...list(number()), default: DEFAULT_BOUNDS }) },
  { check: ({ buckets }, say) => sayBounds(buckets, say) },
);

const linearBuckets = message("FluxMeter.LinearBuckets", {
  start: about("First upper bound.", number()),
  width: about("Distance of one bound to the next.", required(number({ above: 0 }))),
  count: count(),
});

const exponentialBuckets = message(
  "FluxMeter.ExponentialBuckets",
  {
    start: about("First upper bound.", number({ above: 0 })),
    factor: about("Ratio of one bound to the one before.", number({ above: 1 })),
    count: count(),
  },
  {
    check({ start, factor, count: buckets }, say) {
      const last = start * factor ** (buckets - 1);
      if (!Number.isFinite(last)) say(["count"], "bounds that stay finite", String(buckets));
    },
  },
);

const exponentialBucketsRange = message(
  "FluxMeter.ExponentialBucketsRange",
  {
    min: about("First upper bound.", number({ above: 0 })),
    max: about("Last upper bound.", number()),
    count: count(),
  },
  {
    check({ min, max }, say) {
      if (!(max > min && Number.isFinite(max))) {
        say(["max"], `a finite number above min (${min})`, String(max));
      }
    },
  },
);

export const fluxMeter = message("FluxMeter", {
  static_buckets: about("Buckets one by one.", arm("buckets", staticBuckets)),
  linear_buckets: about("Buckets of one width.", arm("buckets", linearBuckets)),
  exponential_buckets: about("Buckets that grow by a factor.", arm("buckets", exponentialBuckets)),
  exponential_buckets_range: about(
    "Buckets that grow evenly from one bound to another.",
    arm("buckets", exponentialBucketsRange),
  ),
  attribute_key: about(
    "What of a flow is measured.",
    text({ default: "workload_duration_ms", filled: true }),
  ),
  selectors: selectors(),
});
export type FluxMeter = ValueOf<typeof fluxMeter>;

const from = () => about("Attribute of the request that is read.", required(text()));

const extractor = message(
  "Extractor",
  {
    from: about(
      "The attribute itself, such as `request.http.headers.user-agent`.",
      either("variant", text({ filled: true })),
    ),
    json: about(
      "A part of an attribute that holds JSON.",
      arm(
        "variant",
        message("JSONExtractor", {
          from: from(),
          pointer: about("JSON pointer to the part; empty is the whole.", text()),
        }),
      ),
    ),
    address: about(
      "An address as text, `source.address` or `destination.address`.",
      arm("variant", message("AddressExtractor", { from: from() })),
    ),
    jwt: about(
      "A claim of a token. Its signature is not checked.",
      arm(
        "variant",
        message("JWTExtractor", {
          from: from(),
          json_pointer: about("JSON pointer to the claim; empty is the whole payload.", text()),
        }),
      ),
    ),
    path_templates: about(
      "A name for the path of the request.",
      arm(
        "variant",
        message("PathTemplateMatcher", {
          template_values: about(
            "Templates (`/users/{id}`, `/static/*`) and the names that they give.",
            filledMap(text(), text({ filled: true })),
          ),
        }),
      ),
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
function extractorRule(value: {
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

const telemetry = () => about("Whether the label is reported with the flow.", flag(true));

const rule = message("Rule", {
  extractor: about("Where the value comes from.", required(part(extractor))),
  telemetry: telemetry(),
});

const labelName = text({ labelName: true });

export const rego = message(
  "Rego",
  {
    labels: about(
      "Labels that the module defines, by name.",
      filledMap(part(message("Rego.LabelProperties", { telemetry: telemetry() })), labelName),
    ),
    module: about("The module.", required(text())),
  },
  {
    check({ module, labels }, say, note) {
      const { fault, names } = judgeRego(module);
      if (fault !== undefined) {
        say(["module"], fault.wanted, fault.got);
        return;
      }
      for (const label of labels.keys()) {
        if (!names.has(label)) note(["labels", label], "the module has no rule of that name");
      }
    },
  },
);

export const classifier = message("Classifier", {
  rules: about("Labels and where their values come from.", map(part(rule), labelName)),
  rego: about("Labels by a program.", published(part(rego))),
  selectors: selectors(),
});
export type Classifier = ValueOf<typeof classifier>;

const named = text({ filled: true, noSlash: true });

export const infraMeter = message("InfraMeter", {
  receivers: about("Receivers of the metrics collector, by id.", map(object())),
  processors: about("Processors of the metrics collector, by id.", map(object())),
  pipeline: about(
    "Order of the pipeline; absent where there is one receiver and no question.",
    part(
      message("InfraMeter.MetricsPipeline", {
        receivers: about("Ids of receivers.", list(text())),
        processors: about("Ids of processors, in order.", list(text())),
      }),
    ),
  ),
  per_agent_group: about("Run by one agent of the group instead of by each.", flag()),
  agent_group: agentGroup(),
});
export type InfraMeter = ValueOf<typeof infraMeter>;

const telemetryCollector = message("TelemetryCollector", {
  agent_group: agentGroup(),
  infra_meters: about("Metrics by name.", map(part(infraMeter), named)),
});

const flowControlResources = message("FlowControlResources", {
  flux_meters: about(
    "Histograms over flows, by the name of their metric label.",
    map(part(fluxMeter), named),
  ),
  classifiers: about("What gives flows labels.", list(part(classifier))),
});

export const resources = message("Resources", {
  telemetry_collectors: about(
    "Older place of infra meters.",
    deprecated("infra_meters", published(list(part(telemetryCollector)))),
  ),
  infra_meters: about(
    "Metrics of the infrastructure that agents collect, by name.",
    published(map(part(infraMeter), named)),
  ),
  flow_control: about("What agents classify and measure.", part(flowControlResources)),
});
export type Resources = ValueOf<typeof resources>;
