// Resources: what agents classify and measure, independently of the circuit.

import { labelRuleFaults } from "#flow/rule-faults.ts";
import { type ExtractorRule, WHOLE_IPV4, WHOLE_IPV6 } from "#flow/rules.ts";
import type { Refuse } from "../document/finding.ts";
import {
  arm,
  each,
  filledMap,
  flag,
  int32,
  list,
  map,
  message,
  nested,
  number,
  object,
  part,
  text,
  uint32,
  type ValueOf,
} from "./field.ts";
import { checkRego } from "./rego.ts";
import { agentGroup, selectors } from "./selector.ts";

/** More buckets are surely a mistake, and would cost memory in every agent. */
const MAX_BUCKETS = 1_000;
const count = (tag: number) =>
  int32(tag, { above: 0, max: MAX_BUCKETS }).about("Number of buckets.");

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
    buckets: list(1, number()).or(DEFAULT_BOUNDS).about("Upper bounds in ascending order."),
  },
  { check: ({ buckets }, refuse) => checkBounds(buckets, refuse) },
);

const linearBuckets = message("FluxMeter.LinearBuckets", {
  start: number(1).about("First upper bound."),
  width: number(2, { above: 0 }).required.about("Distance between two bounds."),
  count: count(3),
});

const exponentialBuckets = message(
  "FluxMeter.ExponentialBuckets",
  {
    start: number(1, { above: 0 }).about("First upper bound."),
    factor: number(2, { above: 1 }).about("Ratio of a bound to the one before it."),
    count: count(3),
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
    min: number(1, { above: 0 }).about("First upper bound."),
    max: number(2).about("Last upper bound."),
    count: count(3),
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
  static_buckets: arm(2, "buckets", staticBuckets).about("Buckets with the given bounds."),
  linear_buckets: arm(3, "buckets", linearBuckets).about("Buckets of equal width."),
  exponential_buckets: arm(4, "buckets", exponentialBuckets).about(
    "Buckets that grow by a factor.",
  ),
  exponential_buckets_range: arm(5, "buckets", exponentialBucketsRange).about(
    "Buckets that grow by a constant factor from `min` to `max`.",
  ),
  attribute_key: text(6, { default: "workload_duration_ms", filled: true }).about(
    "Attribute of the flow that is measured.",
  ),
  selectors: selectors(7),
});
export type FluxMeter = ValueOf<typeof fluxMeter>;

const from = (tag: number) => text(tag).required.about("Request attribute to read.");

const addressExtractor = message("AddressExtractor", {
  from: from(1),
  port: flag(2000)
    .optional(true)
    .about(
      "Appends the port, as in `192.0.2.1:443`. Every connection has another port, so the label of a limiter that counts clients needs `false`.",
    ),
  ipv4_prefix: uint32(2001, { min: 1, max: WHOLE_IPV4 })
    .optional()
    .about(
      "Number of bits of IPv4 addresses that are kept: 24 gives `192.0.2.0` for `192.0.2.77`. Needs `port: false`. Absent keeps all.",
    ),
  ipv6_prefix: uint32(2002, { min: 1, max: WHOLE_IPV6 })
    .optional()
    .about(
      "Number of bits of IPv6 addresses that are kept: one customer usually has all addresses of a prefix of 64 bits or fewer. Needs `port: false`. Absent keeps all.",
    ),
});

/**
 * One sentence for each segment of a template that looks like a parameter or a wildcard of other template languages.
 * Here it is literal text, so that the template matches next to no path.
 */
function literalSegments(template: string): readonly string[] {
  return template.split("/").flatMap((segment) => {
    const instead = insteadOf(segment);
    return instead === undefined
      ? []
      : [`the segment ${JSON.stringify(segment)} matches only this literal text${instead}`];
  });
}

/** A hint for a segment that looks like something else; undefined for a segment that does not. */
function insteadOf(segment: string): string | undefined {
  if (segment === "*") return undefined;
  if (/^:\w/.test(segment)) return `; a parameter is written {${segment.slice(1)}}`;
  if (segment.includes("*")) return "; a wildcard is * alone, as the last segment";
  const braces = segment.startsWith("{") && segment.endsWith("}");
  return !braces && /[{}]/.test(segment) ? "; a parameter is a whole segment" : undefined;
}

const extractor = message(
  "Extractor",
  {
    from: text(1, { filled: true })
      .oneOf("variant")
      .about("A request attribute, such as `request.http.headers.user-agent`."),
    json: arm(
      2,
      "variant",
      message("JSONExtractor", {
        from: from(1),
        pointer: text(2).about("JSON pointer to the part; empty for the whole value."),
      }),
    ).about("A part of an attribute with JSON content."),
    form: arm(
      2000,
      "variant",
      message("FormExtractor", {
        from: text(1).required.about(
          "Request attribute to read: `request.http.body`, or `request.http.path` for its query.",
        ),
        name: text(2).required.about(
          "Name of the field. A field that is there twice cannot be read.",
        ),
      }),
    ).about("A field of a form (`application/x-www-form-urlencoded`)."),
    address: arm(3, "variant", addressExtractor).about(
      "An address as text, `source.address` or `destination.address`.",
    ),
    jwt: arm(
      4,
      "variant",
      message("JWTExtractor", {
        from: from(1),
        json_pointer: text(2).about("JSON pointer to the claim; empty for the whole payload."),
      }),
    ).about("A claim of a JSON Web Token. The signature is not verified."),
    path_templates: arm(
      5,
      "variant",
      message(
        "PathTemplateMatcher",
        {
          template_values: filledMap(1, text(), text({ filled: true })).about(
            "Names by path template, such as `/users/{id}` or `/static/*`.",
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
    ).about("A name for the request path."),
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

const telemetry = (tag: number) => flag(tag, true).about("Includes the label in telemetry.");

const rule = message("Rule", {
  extractor: part(1, extractor).required.about("Source of the label's value."),
  telemetry: telemetry(3),
  unreadable_value: text(2000).about(
    "Value of the label where its source cannot be read: the proxy sent only the beginning of the body, the text is no JSON document or token, or a selector's regular expression was not tested because a value is too long for it. Empty leaves such a flow without the label.",
  ),
});

const labelName = text({ labelName: true });

const labelProperties = message("Rego.LabelProperties", { telemetry: telemetry(1) });

export const rego = message(
  "Rego",
  {
    labels: filledMap(1, each(labelProperties), labelName).about(
      "Labels that the module defines, by name.",
    ),
    module: text(2).required.about("Source of the Rego module."),
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
  rules: map(2, each(rule), labelName).about("Extraction rules by label name."),
  rego: part(3, rego).published.about("Labels computed by a Rego module."),
  selectors: selectors(4),
});
export type Classifier = ValueOf<typeof classifier>;

const infraMeterName = text({ filled: true, noSlash: true });

/** Policies generated from blueprints of the reference system name meters like paths: `load-ramping/average_latency/0`. */
const fluxMeterName = text({ filled: true });

export const infraMeter = message("InfraMeter", {
  receivers: map(1, object()).about("Receivers of the metrics collector, by id."),
  processors: map(2, object()).about("Processors of the metrics collector, by id."),
  pipeline: nested(3, "MetricsPipeline", {
    receivers: list(1, text()).about("Ids of the receivers."),
    processors: list(2, text()).about("Ids of the processors, in order."),
  }).about(
    "Receivers and processors of the pipeline. May be absent when there is only one receiver.",
  ),
  per_agent_group: flag(4).about("Runs in one agent of the group instead of in each."),
  agent_group: agentGroup(5),
});
export type InfraMeter = ValueOf<typeof infraMeter>;

const telemetryCollector = message("TelemetryCollector", {
  agent_group: agentGroup(1),
  infra_meters: map(2, each(infraMeter), infraMeterName).about("Infra meters by name."),
});

const flowControlResources = message("FlowControlResources", {
  flux_meters: map(1, each(fluxMeter), fluxMeterName).about(
    "Histograms of a flow attribute, by flux meter name (the value of the metric label).",
  ),
  classifiers: list(2, each(classifier)).about("Rules that add labels to flows."),
  expected_labels: list(2000, text({ filled: true, name: true }))
    .optional()
    .about(
      "Labels that callers send with their checks, as SDKs do. There is no warning that nothing makes them, in this policy.",
    ),
});

export const resources = message("Resources", {
  telemetry_collectors: list(1, each(telemetryCollector))
    .published.deprecated("infra_meters")
    .about("Former place of infra meters."),
  infra_meters: map(2, each(infraMeter), infraMeterName).published.about(
    "Infrastructure metrics that agents collect, by name.",
  ),
  flow_control: part(101, flowControlResources).about("What agents classify and measure."),
});
export type Resources = ValueOf<typeof resources>;
