// Warnings of documents that are valid and probably not meant.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  CONSTANT_PORTS,
  circuit,
  compiled,
  lines,
  podScaler,
  rateLimiter,
  SELECTORS,
  scheduling,
} from "../kit.ts";

describe("remarks", () => {
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
});
