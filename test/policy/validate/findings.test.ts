// One finding for each fault, and one warning for each remark.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  CONSTANT_PORTS,
  circuit,
  judged,
  lines,
  podScaler,
  rateLimiter,
  SELECTORS,
  scheduling,
} from "../kit.ts";

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
