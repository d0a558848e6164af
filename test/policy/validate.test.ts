import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { describe, test } from "node:test";
import fc from "fast-check";
import { parse } from "yaml";
import type { RateLimiterRule } from "#flow/rules.ts";
import { formatPath, type Path } from "#policy/document/tree.ts";
import type { Message, Type } from "#policy/language/field.ts";
import { policy } from "#policy/language/policy.ts";
import { canonicalJson } from "#policy/message.ts";
import { rulesOf } from "../kit/sluice/stored.ts";
import {
  CONSTANT_PORTS,
  circuit,
  compiled,
  findings,
  judged,
  lines,
  rateLimiter,
  SELECTORS,
} from "./kit.ts";

describe("places", () => {
  test("a key in a wrong place says where it belongs, and a number for a port how it is written", () => {
    const text = [
      "circuit:",
      "  resources: {}",
      "  components:",
      "    - rate_limiter: {}",
      "    - flow_control:",
      "        rate_limiter:",
      "          in_ports: {bucket_capacity: 10, fill_amount: {value: 1}}",
      "          interval: 60s",
      "          parameters: {interval: 60s, selectors: [{control_point: ingress}], in_ports: {}, x: 1}",
      "          selectors: [{control_point: ingress}]",
    ].join("\n");
    const at = "circuit.components[1].flow_control.rate_limiter";
    const belongs = (key: string, message: string, place: string) =>
      `wanted a key of ${message}, got the unknown key "${key}", which belongs ${place}`;
    const found = lines(text).map((line) => line.replace(/^p\.yaml:\d+:\d+: /, ""));
    assert.deepEqual(found.slice(0, -1), [
      `circuit.resources: ${belongs("resources", "Circuit", "at the top of the document")}`,
      `circuit.components[0].rate_limiter: ${belongs("rate_limiter", "Component", "under flow_control")}`,
      `${at}.in_ports.bucket_capacity: wanted an object, which is {constant_signal: {value: 10}} for this number, got the number 10`,
      `${at}.in_ports.fill_amount.value: ${belongs("value", "InPort", "under constant_signal")}`,
      `${at}.interval: ${belongs("interval", "RateLimiter", "under parameters")}`,
      `${at}.parameters.selectors: ${belongs("selectors", "RateLimiter.Parameters", "further out, in rate_limiter")}`,
      `${at}.parameters.in_ports: ${belongs("in_ports", "RateLimiter.Parameters", "further out, in rate_limiter")}`,
    ]);
    assert.match(
      found.at(-1) ?? "",
      /parameters\.x: wanted a key of RateLimiter\.Parameters: .*, got the unknown key "x"$/,
    );
  });

  test("a key that belongs in several places at the same depth is not given one of them", () => {
    const [line = ""] = lines("circuit: {components: [{flow_control: {scheduler: {}}}]}");
    assert.match(line, /flow_control\.scheduler: wanted a key of FlowControl/);
    assert.doesNotMatch(line, /belongs/);
  });

  test("line, column and path of a value, of a missing one and of an unknown key", () => {
    const text = [
      "circuit:",
      "  components:",
      "    - flow_control:",
      "        rate_limiter:",
      "          in_ports: {bucket_capacity: {constant_signal: {value: 1}}}",
      "          parameters:",
      "            interval: 1m",
      "            continous_fill: true",
      "          selectors: [{control_point: ingress}]",
    ].join("\n");
    const at = "circuit.components[0].flow_control.rate_limiter";
    assert.deepEqual(lines(text), [
      `p.yaml:5:21: ${at}.in_ports.fill_amount: wanted a value: fill_amount is required, got nothing`,
      `p.yaml:7:23: ${at}.parameters.interval: wanted a duration in seconds with the suffix s, such as 10s or 0.5s, got "1m"`,
      `p.yaml:8:13: ${at}.parameters.continous_fill: wanted a key of RateLimiter.Parameters; did you mean continuous_fill?, got the unknown key "continous_fill"`,
    ]);
  });

  test("a misspelt required key is one finding, not two", () => {
    const found = findings(circuit(rateLimiter(CONSTANT_PORTS, "parameters: {intervall: 1s}")));
    assert.deepEqual(
      found.map(({ path }) => path),
      ["circuit.components[0].flow_control.rate_limiter.parameters.intervall"],
    );
    assert.match(found[0]?.wanted ?? "", /did you mean interval\?/);
  });

  test("long values are cut", () => {
    const [line = ""] = lines(`circuit: {evaluation_interval: ${"x".repeat(10_000)}}`);
    assert.ok(line.length < 300, String(line.length));
  });

  test("paths quote keys that are not identifiers", () => {
    assert.equal(formatPath(["a", 0, "b-c", "d/e", ""]), 'a[0].b-c["d/e"][""]');
  });
});

/** A pod scaler with this constant, and with other parts of its object than these. */
function podScaler(replicas: string, other = "agent_group: default"): string {
  const changed = other.split(", ").map((part) => part.split(":")[0]);
  const object = [
    "namespace: n",
    "api_version: apps/v1",
    "kind: Deployment",
    "name: web-1.a",
  ].filter((part) => !changed.includes(part.split(":")[0]));
  return `auto_scale: {pod_scaler: {in_ports: {replicas: {constant_signal: {value: ${replicas}}}}, kubernetes_object_selector: {${[...object, other].join(", ")}}}}`;
}

function scheduling(scheduler: string): string {
  return `flow_control: {concurrency_scheduler: {in_ports: {max_concurrency: {constant_signal: {value: 5}}}, concurrency_limiter: {max_inflight_duration: 1s}, ${SELECTORS}, scheduler: {${scheduler}}}}`;
}

/** Components with one finding each, and what its line must contain. */
const ONE_FAULT: readonly (readonly [string, RegExp])[] = [
  [
    rateLimiter(CONSTANT_PORTS, "parameters: {interval: 0s}"),
    /interval: wanted a duration above 0s/,
  ],
  [rateLimiter(CONSTANT_PORTS, "parameters: {interval: -1s}"), /interval: wanted a duration above/],
  [
    rateLimiter(CONSTANT_PORTS, "parameters: {interval: 1s, max_idle_time: -1s}"),
    /max_idle_time: wanted a duration of at least 0s/,
  ],
  [
    rateLimiter(
      CONSTANT_PORTS,
      "parameters: {interval: 1s}, request_parameters: {denied_response_status_code: 299}",
    ),
    /denied_response_status_code: wanted a StatusCode/,
  ],
  [
    rateLimiter(
      CONSTANT_PORTS,
      "parameters: {interval: 1s}, request_parameters: {denied_response_status_code: TooManyRequest}",
    ),
    /did you mean TooManyRequests\?/,
  ],
  [
    `flow_control: {concurrency_limiter: {in_ports: {max_concurrency: {}}, parameters: {max_inflight_duration: 0s}, ${SELECTORS}}}`,
    /max_inflight_duration: wanted a duration above 0s/,
  ],
  [
    "flow_control: {sampler: {parameters: {selectors: [{control_point: x, agent_group: a/b}]}}}",
    /agent_group: wanted a name without `\/`/,
  ],
  [
    "flow_control: {sampler: {parameters: {selectors: [{control_point: ''}]}}}",
    /control_point: wanted text that is not empty/,
  ],
  ["decider: {operator: GT}", /operator: wanted one of gt, .*; did you mean gt\?, got "GT"/],
  ["unary_operator: {operator: sqroot}", /operator: wanted one of .*; did you mean sqrt\?/],
  ["decider: {operator: between}", /operator: wanted one of gt, lt, gte, lte, eq, neq, got/],
  ["variable: {constant_output: {value: 1e400}}", /value: wanted a number/],
  ["variable: {constant_output: {value: .inf}}", /value: wanted a number/],
  ["variable: {constant_output: {value: '0x10'}}", /value: wanted a number/],
  ["bool_variable: {constant_output: on}", /constant_output: wanted true or false/],
  ["query: {promql: {query_string: up, evaluation_interval: 0s}}", /evaluation_interval: wanted/],
  ["integrator: {evaluation_interval: 0s}", /evaluation_interval: wanted a duration above 0s/],
  [
    "pid_controller: {parameters: {evaluation_interval: 0s}}",
    /evaluation_interval: wanted a duration above 0s/,
  ],
  ["polynomial_range_function: {parameters: {end: {}}}", /start: wanted a value/],
  [
    "arithmetic_combinator: {operator: lshift, in_ports: {rhs: {constant_signal: {value: -1}}}}",
    /in_ports.rhs: wanted a shift of at least 0/,
  ],
  [
    "gradient_controller: {parameters: {slope: 1, min_gradient: 2, max_gradient: 1}}",
    /max_gradient: wanted at least min_gradient \(2\), got 1/,
  ],
  ["pulse_generator: {out_ports: {output: {signal_name: ''}}}", /signal_name: wanted text/],
  ["pulse_generator: {outPorts: {}}", /wanted out_ports \(keys are snake_case\)/],
  ["holder: {hold_for: 315576000001s}", /hold_for: wanted a duration of at most 315576000000s/],
  [
    "gradient_controller: {parameters: {slope: NaN, max_gradient: Infinity}}",
    /slope: wanted a number, got "NaN"/,
  ],
  [
    "gradient_controller: {parameters: {slope: 1, max_gradient: NaN}}",
    /max_gradient: wanted a number, or "Infinity", "-Infinity" as text, got "NaN"/,
  ],
  [scheduling("default_workload_parameters: {tokens: Infinity}"), /tokens: wanted a number, got/],
  [podScaler("2147483648"), /value: wanted a whole number from 0 to 2147483647, got 2147483648/],
  [podScaler("1", "namespace: 'b b'"), /namespace: wanted a namespace: at most 63 lower case/],
  [podScaler("1", `namespace: ${"n".repeat(64)}`), /namespace: wanted a namespace: at most 63/],
  [podScaler("1", "name: X_Y"), /name: wanted a name of lower case letters.*got "X_Y"/],
  [podScaler("1", "kind: apps/Deployment"), /kind: wanted a kind such as Deployment/],
  [podScaler("1", "api_version: nonsense"), /api_version: wanted a group and a version such as/],
  ["constructor: {}", /constructor: wanted a key of Component/],
];

const METERS: readonly (readonly [string, RegExp])[] = [
  ["static_buckets: {buckets: []}", /buckets: wanted between 1 and 1000/],
  ["static_buckets: {buckets: [1, 3, 2]}", /buckets\[2\]: wanted a finite bound above .* \(3\)/],
  ["linear_buckets: {width: 0, count: 3}", /width: wanted/],
  ["linear_buckets: {width: 1, count: 1001}", /count: wanted/],
  ["exponential_buckets: {start: 0, factor: 2, count: 2}", /start: wanted a number above 0/],
  ["exponential_buckets: {start: 1, factor: 1, count: 2}", /factor: wanted a number above 1/],
  ["exponential_buckets: {start: 1, factor: 1e9, count: 99}", /count: wanted bounds that stay/],
  ["exponential_buckets_range: {min: 2, max: 2, count: 2}", /max: wanted .* above min \(2\)/],
];

describe("one finding each", () => {
  for (const [component, wanted] of ONE_FAULT) {
    test(component.slice(0, 90), () => {
      const found = lines(circuit(component));
      assert.equal(found.length, 1, found.join("\n"));
      assert.match(found[0] ?? "", wanted);
    });
  }
  for (const [buckets, wanted] of METERS) {
    test(buckets, () => {
      const found = lines(
        `resources: {flow_control: {flux_meters: {m: {${SELECTORS}, ${buckets}}}}}`,
      );
      assert.equal(found.length, 1, found.join("\n"));
      assert.match(found[0] ?? "", wanted);
    });
  }
});

test("what agents do not act on is published, with one warning for each place", () => {
  const set = judged(
    `${circuit(
      "auto_scale: {pod_scaler: {kubernetes_object_selector: {namespace: n, api_version: v1, kind: K, name: x}}}",
      "flow_control: {load_scheduler: {in_ports: {}, parameters: {selectors: [{control_point: x}]}}}",
      "variable: {constant_output: {value: 1}}",
    )}resources: {infra_meters: {m: {}}, telemetry_collectors: []}`,
  );
  assert.deepEqual(set.findings, []);
  assert.deepEqual(
    set.warnings.filter((each) => each.text.startsWith("published")).map((each) => each.path),
    ["resources.infra_meters"],
  );
});

test("a label that a Rego module does not define gives a warning", () => {
  const rego = (label: string) =>
    judged(
      `resources: {flow_control: {classifiers: [{selectors: [{control_point: x}], rego: {labels: {${label}: {}}, module: "package x\\na = 1"}}]}}`,
    ).warnings.map((each) => each.path.replace(/.*classifiers\[0\]\./, ""));
  assert.deepEqual(rego("a"), ["rego"]);
  assert.deepEqual(rego("b"), ["rego", "rego.labels.b"]);
});

test("a regular expression is warned of where long values cannot be tested, and refused where short ones cannot", () => {
  const judge = (regex: string) =>
    judged(
      `resources: {flow_control: {flux_meters: {a: {selectors: [{control_point: ingress, label_matcher: {expression: {label_matches: {label: http.path, regex: '${regex}'}}}}]}}}}`,
    );
  const costly = judge("a[ab]{900}[0-9]").warnings.filter((each) => each.code === "costly_regex");
  assert.deepEqual(
    costly.map((each) => [each.path.split(".").at(-1), each.text]),
    [
      [
        "regex",
        "values of more than 72 characters are not tested, because the expression takes up to 904 steps for each character",
      ],
    ],
  );
  for (const regex of ["^/api/v[0-9]+/.*/orders$", "(gold|silver)$", "a[ab]{3}[0-9]"]) {
    assert.deepEqual(judge(regex).warnings, [], regex);
  }
  const [finding] = judge("a[ab]{1000}[abc]{1000}[0-9]").findings;
  assert.match(
    finding?.got ?? "",
    /takes up to 2004 steps for each character; at most 2000 are allowed/,
  );
});

test("all findings of a document are reported together", () => {
  const all = lines(circuit(...ONE_FAULT.map(([component]) => component)));
  assert.equal(all.length, ONE_FAULT.length, all.join("\n"));
});

describe("defaults", () => {
  const rule = (parameters: string): RateLimiterRule => {
    const [only] = rulesOf(compiled(circuit(rateLimiter(CONSTANT_PORTS, parameters))));
    assert.equal(only?.kind, "rate_limiter");
    return only;
  };
  test("absent takes the default, null is absent", () => {
    for (const text of ["", ", continuous_fill: null, max_idle_time: ~"]) {
      const got = rule(`parameters: {interval: 1s${text}}`);
      assert.equal(got.continuousFill, true);
      assert.equal(got.maxIdleMs, 7_200_000);
      assert.equal(got.selectors[0]?.agentGroup, "default");
      assert.equal(got.selectors[0]?.service, "any");
    }
  });
  test("explicit zero and false are kept", () => {
    const got = rule("parameters: {interval: 1s, continuous_fill: false, max_idle_time: 0s}");
    assert.equal(got.continuousFill, false);
    assert.equal(got.maxIdleMs, 0);
  });
  test("defaults inside a part apply only where the part is written", () => {
    assert.equal(rule("parameters: {interval: 1s, lazy_sync: {enabled: true}}").lazySyncs, 4);
    assert.equal(rule("parameters: {interval: 1s, lazy_sync: {}}").lazySyncs, 0);
    assert.equal(rule("parameters: {interval: 1s}").lazySyncs, 0);
  });
  test("status by name and by number", () => {
    for (const status of ["PaymentRequired", "402"]) {
      const request = `request_parameters: {denied_response_status_code: ${status}}`;
      assert.equal(rule(`parameters: {interval: 1s}, ${request}`).deniedStatus, 402);
    }
  });
  test("a refusal of flows without a label, where no label is read, is remarked upon", () => {
    const texts = (kind: string, parameters: string, ports: string) =>
      compiled(
        circuit(
          `flow_control: {${kind}: {${SELECTORS}, in_ports: {${ports}}, parameters: {${parameters}}}}`,
        ),
      ).warnings.map(({ path, text }) => `${path.split(".").at(-1)}: ${text}`);
    const rate = (more: string) => texts("rate_limiter", `interval: 1s, ${more}`, CONSTANT_PORTS);
    const most = "max_concurrency: {constant_signal: {value: 5}}";
    const inFlight = (more: string) =>
      texts("concurrency_limiter", `max_inflight_duration: 1s, ${more}`, most);
    for (const warningsOf of [rate, inFlight]) {
      assert.deepEqual(warningsOf("on_missing_label: refuse"), [
        "on_missing_label: has no effect without `limit_by_label_key`: no flow lacks a label",
      ]);
      assert.deepEqual(warningsOf("on_missing_label: refuse, limit_by_label_key: user"), []);
      assert.deepEqual(warningsOf("on_missing_label: pass"), []);
    }
    const unused = 'label_key: "", limit_by_label_key: user';
    assert.deepEqual(rate(unused), [], "an empty deprecated field is not used");
    const old = rate("on_missing_label: refuse, label_key: user").join();
    assert.match(old, /deprecated/);
    assert.doesNotMatch(old, /has no effect/);
    const sampled = (more: string) =>
      compiled(
        circuit(
          `flow_control: {sampler: {in_ports: {accept_percentage: {constant_signal: {value: 5}}}, parameters: {${SELECTORS}, ${more}}}}`,
        ),
      ).warnings.map(({ text }) => text);
    assert.deepEqual(sampled("on_missing_label: refuse"), [
      "has no effect without `session_label_key`: no flow lacks a label",
    ]);
    assert.deepEqual(sampled("on_missing_label: refuse, session_label_key: user"), []);
  });
  test("a duration that is too long is told its bound", () => {
    const said = (interval: string) =>
      lines(circuit(rateLimiter(CONSTANT_PORTS, `parameters: {interval: ${interval}}`))).join();
    for (const long of ["315576000001s", "999999999999999s", "99999999999999999.5s"]) {
      assert.match(
        said(long),
        /wanted a duration of at most 315576000000s \(10 000 years\), got ".*", which is longer$/,
      );
    }
    assert.equal(said("315576000000s"), "");
    assert.match(said("99999999999999m"), /in seconds with the suffix s/);
  });
  test("statuses that refund a flow are classes or statuses", () => {
    const said = (statuses: string) => {
      const settlement = `settlement: {refund_statuses: ${statuses}}`;
      return lines(
        circuit(rateLimiter(CONSTANT_PORTS, `parameters: {interval: 1s, ${settlement}}`)),
      ).join();
    };
    assert.equal(said('["5xx", "429", "100", "599"]'), "");
    for (const bad of ["5XX", "6xx", "0", "600", "50", "", "2xxx"]) {
      assert.match(
        said(`["429", "${bad}"]`),
        /refund_statuses\[1\]: wanted a class of HTTP statuses such as 5xx, or a status such as 429, got/,
      );
    }
    const both = said('["6xx", 503, "teapot"]');
    for (const at of [0, 1, 2])
      assert.match(both, new RegExp(`refund_statuses\\[${at}\\]: wanted`));
    const timeout = "parameters: {interval: 1s, settlement: {timeout: 0s}}";
    assert.match(lines(circuit(rateLimiter(CONSTANT_PORTS, timeout))).join(), /settlement.timeout/);
  });
  test("flows that take more tokens than the bucket of a quota scheduler holds are remarked upon", () => {
    const remarks = (capacity: string, scheduler: string) => {
      const ports = `in_ports: {bucket_capacity: ${capacity}, fill_amount: {constant_signal: {value: 1}}}`;
      const parts = `${ports}, rate_limiter: {interval: 1s}, ${SELECTORS}, scheduler: {${scheduler}}`;
      const { warnings } = compiled(circuit(`flow_control: {quota_scheduler: {${parts}}}`));
      return warnings.map(({ path, text }) => `${path.split("quota_scheduler.")[1]}: ${text}`);
    };
    const ten = "{constant_signal: {value: 10}}";
    const of = (tokens: number) =>
      `{label_matcher: {match_labels: {a: "${tokens}"}}, parameters: {tokens: ${tokens}}}`;
    assert.deepEqual(
      remarks(
        ten,
        `workloads: [${of(10)}, ${of(11)}], default_workload_parameters: {tokens: 12.5}`,
      ),
      [
        "scheduler.workloads[1].parameters.tokens: 11 tokens are more than the bucket_capacity of 10: such a flow never passes",
        "scheduler.default_workload_parameters.tokens: 12.5 tokens are more than the bucket_capacity of 10: such a flow never passes",
      ],
    );
    assert.deepEqual(remarks("{constant_signal: {value: 0}}", `workloads: [${of(5)}]`), []);
    assert.deepEqual(remarks(ten, ""), []);
  });
  test("what is valid and makes no sense is remarked upon", () => {
    const remarks = (component: string) =>
      compiled(circuit(component)).warnings.map(({ path, text }) => {
        const name = path.split(".").at(-1);
        return `${name}: ${text}`;
      });
    assert.deepEqual(remarks(podScaler("150000")), []);
    assert.deepEqual(remarks(podScaler("150001")), [
      "value: 150001 replicas are more than the 150000 pods for which Kubernetes is designed",
    ]);
    assert.deepEqual(remarks(podScaler("NaN")), [
      "value: never a valid number, so the scale stays as it is",
    ]);
    const object = (version: string, kind: string) =>
      remarks(podScaler("1", `api_version: ${version}, kind: ${kind}`)).join();
    for (const [version, kind] of [
      ["apps/v1", "StatefulSet"],
      ["v1", "ReplicationController"],
      ["argoproj.io/v1alpha1", "Rollout"],
    ] as const)
      assert.equal(object(version, kind), "", kind);
    for (const [version, kind] of [
      ["v1", "Pod"],
      ["apps/v1", "deployment"],
      ["apps/v1beta1", "Deployment"],
      ["networking.k8s.io/v1", "Ingress"],
    ] as const)
      assert.equal(
        object(version, kind),
        `kind: Kubernetes has no ${kind} of ${version} with replicas to change: those of its own are Deployment, ReplicaSet, StatefulSet (apps/v1) or ReplicationController (v1)`,
      );
    const scaled = (parameters: string, setpoint = 1) => {
      const selector = "{namespace: n, api_version: apps/v1, kind: Deployment, name: x}";
      const gradient = `{in_ports: {signal: {constant_signal: {value: 1}}, setpoint: {constant_signal: {value: ${setpoint}}}}}`;
      const out = `{alerter: {alert_name: g}, controller: {gradient: ${gradient}}}`;
      const alerts = "scale_out_alerter: {alert_name: o}, scale_in_alerter: {alert_name: i}";
      return remarks(
        `auto_scale: {auto_scaler: {scaling_backend: {kubernetes_replicas: {kubernetes_object_selector: ${selector}}}, scale_out_controllers: [${out}], scaling_parameters: {${alerts}, ${parameters}}}}`,
      );
    };
    assert.deepEqual(scaled("max_scale_out_percentage: 0, max_scale_in_percentage: 900"), []);
    assert.deepEqual(scaled("max_scale_out_percentage: -4, max_scale_in_percentage: -1"), [
      "max_scale_out_percentage: -4, so that each step is one replica",
      "max_scale_in_percentage: -1, so that each step is one replica",
    ]);
    const zero = "setpoint: 0, which no signal can be divided by: the output is never valid";
    assert.deepEqual(scaled("", 0), [zero]);
    assert.deepEqual(
      remarks(
        "gradient_controller: {parameters: {slope: 1}, in_ports: {setpoint: {constant_signal: {value: 0}}}}",
      ),
      [zero],
    );
    const slot = (duration: string) => scheduling("").replace("1s", duration);
    assert.deepEqual(remarks(slot("0.010s")), []);
    assert.match(
      remarks(slot("0.009s")).join(),
      /^max_inflight_duration: a slot expires after 9 ms/,
    );
    assert.deepEqual(remarks(scheduling("decision_deadline_margin: 9.9s")), []);
    assert.deepEqual(remarks(scheduling("decision_deadline_margin: 10s")), [
      "decision_deadline_margin: flows of callers that wait for less than 10s never queue",
    ]);
    const at = (selector: string) =>
      remarks(
        rateLimiter(CONSTANT_PORTS).replace(SELECTORS, `selectors: [{control_point: ${selector}}]`),
      );
    for (const odd of ['" "', '"in "', '" in"', '"i\\u0007n"', 'in, service: "a\\n"'])
      assert.match(at(odd).join(), /: ".*" has blanks around it or control characters/, odd);
    assert.deepEqual(at('"in here"'), []);
  });
  test("a workload that no flow reaches is remarked upon", () => {
    const unreached = (...matchers: readonly string[]) => {
      const workloads = matchers.map((matcher) => `{label_matcher: {${matcher}}}`).join(", ");
      return compiled(circuit(scheduling(`workloads: [${workloads}]`))).warnings.map(
        ({ path, text }) => `${path.match(/workloads\[\d+\]/)?.[0]}: ${text}`,
      );
    };
    const by = (first: number, later: number) =>
      `workloads[${later}]: no flow reaches this workload: workloads[${first}] matches all of its flows`;
    const a = "match_labels: {a: b}";
    const listed = "match_list: [{key: a, operator: In, values: [b, c]}]";
    const either = "expression: {any: {of: [{label_exists: a}, {label_exists: b}]}}";
    assert.deepEqual(unreached(a, "", a, "match_labels: {x: y}"), [by(0, 2), by(1, 3)]);
    assert.deepEqual(unreached(listed, either, listed, either), [by(0, 2), by(1, 3)]);
    const always = "expression: {all: {of: [{all: {of: []}}]}}";
    assert.deepEqual(unreached(always, a), [by(0, 1)]);
    assert.deepEqual(unreached("expression: {any: {of: []}}", a), []);
    assert.deepEqual(unreached(a, "match_labels: {x: y, a: b}", `${a}, ${listed}`), [
      by(0, 1),
      by(0, 2),
    ]);
    const both = "match_labels: {a: b, x: y}";
    assert.deepEqual(unreached(both, "match_labels: {x: y, a: b}"), [by(0, 1)]);
    assert.deepEqual(
      unreached(both, a, "match_labels: {a: c}", listed, "match_labels: {b: a}"),
      [],
    );
  });
  test("workloads that metrics cannot tell apart are remarked upon", () => {
    const confused = (...names: readonly string[]) => {
      const workloads = names.map(
        (name, at) => `{label_matcher: {match_labels: {a: "${at}"}}, name: "${name}"}`,
      );
      return compiled(circuit(scheduling(`workloads: [${workloads.join(", ")}]`))).warnings.map(
        ({ path, text }) => `${path.match(/workloads.*/)?.[0]}: ${text}`,
      );
    };
    assert.deepEqual(confused("a", "", "", "b"), []);
    assert.deepEqual(confused("a", "default", "a", "", "3"), [
      'workloads[1].name: metrics cannot tell this workload from the flows that match no workload: both are called "default"',
      'workloads[2].name: metrics cannot tell this workload from workloads[0]: both are called "a"',
      'workloads[4].name: metrics cannot tell this workload from workloads[3]: both are called "3"',
    ]);
  });
  test("a part that switches something on needs a value where its key is written", () => {
    const said = (parameters: string) =>
      lines(
        circuit(rateLimiter(CONSTANT_PORTS, `parameters: {interval: 1s, ${parameters}}`)),
      ).join();
    for (const nothing of ["settlement: ", "settlement"])
      assert.match(
        said(nothing),
        /settlement: wanted an object, \{\} for its defaults, got nothing/,
      );
    // Documents of machines write what is absent as null.
    for (const fine of ["settlement: {}", "settlement: null", "settlement: ~", "lazy_sync: "])
      assert.equal(said(fine), "");
  });
  test("a status that does not tell of a refusal is remarked upon", () => {
    const texts = (status: string) =>
      compiled(
        circuit(
          rateLimiter(
            CONSTANT_PORTS,
            `parameters: {interval: 1s}, request_parameters: {denied_response_status_code: ${status}}`,
          ),
        ),
      ).warnings.map(({ code, text }) => `${code}: ${text}`);
    for (const [status, number] of Object.entries({ OK: 200, 200: 200, Continue: 100, Found: 302 }))
      assert.deepEqual(texts(status), [
        `unusual_value: a refusal with status ${number} does not look like one: use a status from 400 on`,
      ]);
    for (const status of ["BadRequest", "503", "Empty", "0"]) assert.deepEqual(texts(status), []);
  });
  test("a max_idle_time that is shorter than a bucket takes to fill is remarked upon, with both times", () => {
    const remarks = (idle: string, amount = 10) =>
      compiled(
        circuit(
          rateLimiter(
            `bucket_capacity: {constant_signal: {value: 100}}, fill_amount: {constant_signal: {value: ${amount}}}`,
            `parameters: {interval: 60s, max_idle_time: ${idle}}`,
          ),
        ),
      ).warnings.map(({ text }) => text);
    assert.deepEqual(remarks("599s"), [
      "599s is shorter than the 600s that an empty bucket takes to fill: it has no effect, because a bucket is forgotten when it is full and not before",
    ]);
    for (const idle of ["600s", "0s"]) assert.deepEqual(remarks(idle), [], idle);
    assert.deepEqual(remarks("60s", 0), [], "never filled: Redis goes by the time");
    assert.deepEqual(remarks("7200s", 0.001), [], "the default");
  });
  test("without a status the stage that refuses chooses it", () => {
    assert.equal(rule("parameters: {interval: 1s}, request_parameters: {}").deniedStatus, 0);
    assert.equal(rule("parameters: {interval: 1s}").deniedStatus, 0);
    const empty = "request_parameters: {denied_response_status_code: Empty}";
    assert.equal(rule(`parameters: {interval: 1s}, ${empty}`).deniedStatus, 0);
  });
});

test("64-bit integers are compared to the last digit, as numbers and as text", () => {
  const scaler = (least: string, most: string) =>
    `auto_scale: {auto_scaler: {scaling_backend: {kubernetes_replicas: {min_replicas: ${least}, max_replicas: ${most}, kubernetes_object_selector: {namespace: n, api_version: v, kind: k, name: x}}}, scaling_parameters: {scale_out_alerter: {alert_name: o}, scale_in_alerter: {alert_name: i}}}}`;
  const faults = (least: string, most: string) => findings(circuit(scaler(least, most)));
  assert.deepEqual(faults("9007199254740993", "'9007199254740993'"), []);
  assert.match(faults("9007199254740993", "9007199254740992")[0]?.wanted ?? "", /min_replicas/);
  assert.deepEqual(faults("1.0", "1e3"), []);
  // However they are written.
  for (const exact of ["9007199254740993.0", "9.007199254740993e15", "0x20000000000001"]) {
    assert.deepEqual(faults(exact, "9007199254740993"), [], exact);
    assert.match(faults(exact, "9007199254740992")[0]?.wanted ?? "", /min_replicas/, exact);
  }
  for (const bad of ["1.5", "1e19", "9007199254740993.5", "9223372036854775808", "1e99"]) {
    assert.match(faults("1", bad)[0]?.wanted ?? "", /^a whole number from -922.* \(int64\)$/, bad);
  }
});

test("a number that a double cannot hold is warned of, with what it is read as", () => {
  const capacity = (value: string) =>
    compiled(
      circuit(
        `variable: {constant_output: {value: ${value}}, out_ports: {output: {signal_name: A}}}`,
      ),
    ).warnings.map(({ text }) => text);
  for (const value of ["9007199254740993", "'9007199254740993'", "9007199254740993.0"]) {
    assert.match(capacity(value)[0] ?? "", /9007199254740993.* is read as 9007199254740992/, value);
  }
  for (const value of [
    "9007199254740992",
    "1e300",
    "0.1",
    "Infinity",
    "'NaN'",
    "18014398509481984",
  ])
    assert.deepEqual(
      capacity(value).filter((text) => text.includes("is read as")),
      [],
      value,
    );
});

test("the deprecated list of a matcher counts only where the current one is empty", () => {
  const one = (key: string) => `[{key: ${key}, operator: Exists}]`;
  const keys = (matcher: string) => {
    const policy = compiled(
      `resources: {flow_control: {flux_meters: {m: {selectors: [{control_point: x, label_matcher: {${matcher}}}]}}}}`,
    );
    assert.equal(policy.warnings.length, 1);
    return rulesOf(policy)[0]?.selectors[0]?.matcher.list.map(({ key }) => key);
  };
  assert.deepEqual(keys(`match_expressions: ${one("old")}`), ["old"]);
  assert.deepEqual(keys(`match_expressions: ${one("old")}, match_list: ${one("new")}`), ["new"]);
});

/** Paths of all keys of a document that are defined by the tables. */
function* keysOf(message: Message, value: object, path: Path): Generator<Path> {
  for (const [name, inner] of Object.entries(value)) {
    yield [...path, name];
    const type = message.fields[name]?.type;
    if (type !== undefined) yield* keysIn(type, inner, [...path, name]);
  }
}

function* keysIn(type: Type, value: unknown, path: Path): Generator<Path> {
  if (typeof value !== "object" || value === null) return;
  if (type.kind === "message") yield* keysOf(type.of(), value, path);
  if (type.kind !== "list" && type.kind !== "map") return;
  for (const [key, inner] of Object.entries(value)) {
    yield* keysIn(type.of.type, inner, [...path, type.kind === "list" ? Number(key) : key]);
  }
}

/** The document with one key misspelt. */
function renamed(value: unknown, [step, ...rest]: Path, name: string): unknown {
  if (Array.isArray(value)) {
    return value.map((item, at) => (at === step ? renamed(item, rest, name) : item));
  }
  return Object.fromEntries(
    Object.entries(value as object).map(([key, inner]) => {
      if (key !== step) return [key, inner];
      return rest.length === 0 ? [name, inner] : [key, renamed(inner, rest, name)];
    }),
  );
}

test("a misspelt key is always refused, with its path", () => {
  const root = "test/cases/policy";
  const documents = readdirSync(root).map((name): unknown =>
    parse(readFileSync(`${root}/${name}/policy.yaml`, "utf8")),
  );
  const edit = fc.record({
    document: fc.constantFrom(...documents),
    which: fc.nat(),
    at: fc.nat(),
    letter: fc.constantFrom("", "x", "_", "A", "0", "-", " "),
    keep: fc.boolean(),
  });
  fc.assert(
    fc.property(edit, ({ document, which, at, letter, keep }) => {
      const paths = [...keysOf(policy, document as object, [])];
      const path = paths[which % paths.length] ?? [];
      const key = String(path.at(-1));
      const cut = at % key.length;
      const other = key.slice(0, cut) + letter + key.slice(keep ? cut : cut + 1);
      fc.pre(other !== key && !paths.some((known) => known.at(-1) === other));
      const found = findings(JSON.stringify(renamed(document, path, other)));
      const wanted = formatPath([...path.slice(0, -1), other]);
      assert.ok(
        found.some((finding) => finding.path === wanted && finding.got.includes("unknown key")),
        `${wanted}: ${JSON.stringify(found)}`,
      );
    }),
    { numRuns: 300 },
  );
});

test("canonical JSON does not depend on key order, and distinguishes special numbers", () => {
  const left = {
    b: [1n, Number.NaN, -0],
    a: new Map([
      ["y", 1],
      ["x", 2],
    ]),
    c: undefined,
  };
  const right = {
    a: new Map([
      ["x", 2],
      ["y", 1],
    ]),
    b: [1n, Number.NaN, 0],
  };
  assert.equal(canonicalJson(left), canonicalJson(right));
  assert.equal(canonicalJson(left), '{"a":{"x":2,"y":1},"b":["1","NaN",0]}');
  assert.notEqual(canonicalJson({ a: 1 }), canonicalJson({ a: "1" }));
});
