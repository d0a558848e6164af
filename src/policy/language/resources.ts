// Resources: what agents classify and measure, independently of the circuit.

import { labelRuleFaults } from "#flow/rule-faults.ts";
import { type ExtractorRule, WHOLE_IPV4, WHOLE_IPV6 } from "#flow/rules.ts";
import type { Refuse } from "../document/finding.ts";
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
  maybe,
  message,
  number,
  object,
  part,
  published,
  required,
  text,
  uint32,
  type ValueOf,
} from "./field.ts";
import { literalSegments } from "./literal-segments.ts";
import { checkRego } from "./rego.ts";
import { agentGroup, selectors } from "./selector.ts";

/** More buckets are surely a mistake, and would cost memory in every agent. */
const MAX_BUCKETS = 1_000;
const count = () => about("Number of buckets.", int32({ above: 0, max: MAX_BUCKETS }));

const DEFAULT_BOUNDS: readonly number[] = [
  5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000,
];

function checkBounds(bounds: readonly number[], refuse: Refuse): void {
  if (bounds.length === 0 || bounds.length > MAX_BUCKETS) {
    refuse(["buckets"], `between 1 and ${MAX_BUCKETS} upper bounds`, String(bounds.length));
  }
  bounds.forEach((bound, at) => {
    const before = bounds[at - 1] ?? Number.NEGATIVE_INFINITY;
    if (!Number.isFinite(bound) || bound <= before) {
      refuse(["buckets", at], `a finite bound above the one before it (${before})`, String(bound));
    }
  });
}

const staticBuckets = message(
  "FluxMeter.StaticBuckets",
  {
    buckets: about("Upper bounds in ascending order.", {
      ...list(number()),
      default: DEFAULT_BOUNDS,
    }),
  },
  { check: ({ buckets }, refuse) => checkBounds(buckets, refuse) },
);

const linearBuckets = message("FluxMeter.LinearBuckets", {
  start: about("First upper bound.", number()),
  width: about("Distance between two bounds.", required(number({ above: 0 }))),
  count: count(),
});

const exponentialBuckets = message(
  "FluxMeter.ExponentialBuckets",
  {
    start: about("First upper bound.", number({ above: 0 })),
    factor: about("Ratio of a bound to the one before it.", number({ above: 1 })),
    count: count(),
  },
  {
    check({ start, factor, count: buckets }, refuse) {
      const last = start * factor ** (buckets - 1);
      if (!Number.isFinite(last)) refuse(["count"], "bounds that stay finite", String(buckets));
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
    check({ min, max }, refuse) {
      if (!(max > min && Number.isFinite(max))) {
        refuse(["max"], `a finite number above min (${min})`, String(max));
      }
    },
  },
);

export const fluxMeter = message("FluxMeter", {
  static_buckets: about("Buckets with the given bounds.", arm("buckets", staticBuckets)),
  linear_buckets: about("Buckets of equal width.", arm("buckets", linearBuckets)),
  exponential_buckets: about("Buckets that grow by a factor.", arm("buckets", exponentialBuckets)),
  exponential_buckets_range: about(
    "Buckets that grow by a constant factor from `min` to `max`.",
    arm("buckets", exponentialBucketsRange),
  ),
  attribute_key: about(
    "Attribute of the flow that is measured.",
    text({ default: "workload_duration_ms", filled: true }),
  ),
  selectors: selectors(),
});
export type FluxMeter = ValueOf<typeof fluxMeter>;

const from = () => about("Request attribute to read.", required(text()));

const addressExtractor = message("AddressExtractor", {
  from: from(),
  port: about(
    "Appends the port, as in `192.0.2.1:443`. Every connection has another port, so the label of a limiter that counts clients needs `false`.",
    maybe(flag(), true),
  ),
  ipv4_prefix: about(
    "Number of bits of IPv4 addresses that are kept: 24 gives `192.0.2.0` for `192.0.2.77`. Needs `port: false`. Absent keeps all.",
    maybe(uint32({ min: 1, max: WHOLE_IPV4 })),
  ),
  ipv6_prefix: about(
    "Number of bits of IPv6 addresses that are kept: one customer usually has all addresses of a prefix of 64 bits or fewer. Needs `port: false`. Absent keeps all.",
    maybe(uint32({ min: 1, max: WHOLE_IPV6 })),
  ),
});

const extractor = message(
  "Extractor",
  {
    from: about(
      "A request attribute, such as `request.http.headers.user-agent`.",
      either("variant", text({ filled: true })),
    ),
    json: about(
      "A part of an attribute with JSON content.",
      arm(
        "variant",
        message("JSONExtractor", {
          from: from(),
          pointer: about("JSON pointer to the part; empty for the whole value.", text()),
        }),
      ),
    ),
    form: about(
      "A field of a form (`application/x-www-form-urlencoded`).",
      arm(
        "variant",
        message("FormExtractor", {
          from: about(
            "Request attribute to read: `request.http.body`, or `request.http.path` for its query.",
            required(text()),
          ),
          name: about(
            "Name of the field. A field that is there twice cannot be read.",
            required(text()),
          ),
        }),
      ),
    ),
    address: about(
      "An address as text, `source.address` or `destination.address`.",
      arm("variant", addressExtractor),
    ),
    jwt: about(
      "A claim of a JSON Web Token. The signature is not verified.",
      arm(
        "variant",
        message("JWTExtractor", {
          from: from(),
          json_pointer: about("JSON pointer to the claim; empty for the whole payload.", text()),
        }),
      ),
    ),
    path_templates: about(
      "A name for the request path.",
      arm(
        "variant",
        message(
          "PathTemplateMatcher",
          {
            template_values: about(
              "Names by path template, such as `/users/{id}` or `/static/*`.",
              filledMap(text(), text({ filled: true })),
            ),
          },
          {
            check({ template_values: templates }, _, warn) {
              for (const template of templates.keys()) {
                for (const remark of literalSegments(template)) {
                  warn("literal_path", ["template_values", template], remark);
                }
              }
            },
          },
        ),
      ),
    ),
  },
  {
    oneOf: { variant: "extractor" },
    check(value, refuse) {
      const kept = { telemetry: true, unreadableValue: "" };
      const label = { label: "label", ...kept, extractor: extractorRule(value) };
      for (const reason of labelRuleFaults(label)) {
        refuse([], "an extractor that agents can run", reason.replace(/^label "label": /, ""));
      }
    },
  },
);

/** The extractor rule of the one variant that is present. */
function extractorRule(value: {
  readonly from: string | undefined;
  readonly json: { readonly from: string; readonly pointer: string } | undefined;
  readonly form: { readonly from: string; readonly name: string } | undefined;
  readonly address: ValueOf<typeof addressExtractor> | undefined;
  readonly jwt: { readonly from: string; readonly json_pointer: string } | undefined;
  readonly path_templates: { readonly template_values: ReadonlyMap<string, string> } | undefined;
}): ExtractorRule {
  const { from: attribute = "", json, form, address, jwt, path_templates } = value;
  if (json !== undefined) return { kind: "json", ...json };
  if (form !== undefined) return { kind: "form", ...form };
  if (address !== undefined) {
    const { from, port = true, ipv4_prefix = WHOLE_IPV4, ipv6_prefix = WHOLE_IPV6 } = address;
    return { kind: "address", from, port, ipv4Prefix: ipv4_prefix, ipv6Prefix: ipv6_prefix };
  }
  if (jwt !== undefined) return { kind: "jwt", from: jwt.from, pointer: jwt.json_pointer };
  if (path_templates === undefined) return { kind: "from", from: attribute };
  return {
    kind: "path_templates",
    templates: Object.fromEntries(path_templates.template_values),
  };
}

const telemetry = () => about("Includes the label in telemetry.", flag(true));

const rule = message("Rule", {
  extractor: about("Source of the label's value.", required(part(extractor))),
  telemetry: telemetry(),
  unreadable_value: about(
    "Value of the label where its source cannot be read: the proxy sent only the beginning of the body, the text is no JSON document or token, or a selector's regular expression was not tested because a value is too long for it. Empty leaves such a flow without the label.",
    text(),
  ),
});

const labelName = text({ labelName: true });

export const rego = message(
  "Rego",
  {
    labels: about(
      "Labels that the module defines, by name.",
      filledMap(part(message("Rego.LabelProperties", { telemetry: telemetry() })), labelName),
    ),
    module: about("Source of the Rego module.", required(text())),
  },
  {
    check({ module, labels }, refuse, warn) {
      const { fault, names } = checkRego(module);
      if (fault !== undefined) {
        refuse(["module"], fault.wanted, fault.got);
        return;
      }
      for (const label of labels.keys()) {
        if (!names.has(label))
          warn("unknown_label", ["labels", label], "the module defines no rule with this name");
      }
    },
  },
);

export const classifier = message("Classifier", {
  rules: about("Extraction rules by label name.", map(part(rule), labelName)),
  rego: about("Labels computed by a Rego module.", published(part(rego))),
  selectors: selectors(),
});
export type Classifier = ValueOf<typeof classifier>;

const infraMeterName = text({ filled: true, noSlash: true });

/** Policies generated from blueprints of the reference system name meters like paths: `load-ramping/average_latency/0`. */
const fluxMeterName = text({ filled: true });

export const infraMeter = message("InfraMeter", {
  receivers: about("Receivers of the metrics collector, by id.", map(object())),
  processors: about("Processors of the metrics collector, by id.", map(object())),
  pipeline: about(
    "Receivers and processors of the pipeline. May be absent when there is only one receiver.",
    part(
      message("InfraMeter.MetricsPipeline", {
        receivers: about("Ids of the receivers.", list(text())),
        processors: about("Ids of the processors, in order.", list(text())),
      }),
    ),
  ),
  per_agent_group: about("Runs in one agent of the group instead of in each.", flag()),
  agent_group: agentGroup(),
});
export type InfraMeter = ValueOf<typeof infraMeter>;

const telemetryCollector = message("TelemetryCollector", {
  agent_group: agentGroup(),
  infra_meters: about("Infra meters by name.", map(part(infraMeter), infraMeterName)),
});

const flowControlResources = message("FlowControlResources", {
  flux_meters: about(
    "Histograms of a flow attribute, by flux meter name (the value of the metric label).",
    map(part(fluxMeter), fluxMeterName),
  ),
  classifiers: about("Rules that add labels to flows.", list(part(classifier))),
  expected_labels: about(
    "Labels that callers send with their checks, as SDKs do. There is no warning that nothing makes them, in this policy.",
    maybe(list(text({ filled: true, name: true }))),
  ),
});

export const resources = message("Resources", {
  telemetry_collectors: about(
    "Former place of infra meters.",
    deprecated("infra_meters", published(list(part(telemetryCollector)))),
  ),
  infra_meters: about(
    "Infrastructure metrics that agents collect, by name.",
    published(map(part(infraMeter), infraMeterName)),
  ),
  flow_control: about("What agents classify and measure.", part(flowControlResources)),
});
export type Resources = ValueOf<typeof resources>;
