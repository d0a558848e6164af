// The names that a policy needs from others: the labels of its limiters, the metrics and flux meters of its queries.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ATTRIBUTE_NAMES } from "#api/labels/attributes.ts";
import { HEADER_PREFIX, isRequestLabel } from "#flow/label.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import { type KnownNames, needsAttachment, unmetNeeds } from "#policy/unmet-needs.ts";
import { CONSTANT_PORTS, circuit, compiled, judged, rateLimiter, SELECTORS } from "./kit.ts";

function limitedBy(label: string): string {
  const parameters = `parameters: {interval: 1s, limit_by_label_key: "${label}"}`;
  return circuit(rateLimiter(CONSTANT_PORTS, parameters));
}

function asking(query: string): string {
  return circuit(
    `query: {promql: {query_string: '${query}', evaluation_interval: 1s, out_ports: {output: {signal_name: A}}}}`,
  );
}

function warned(policies: readonly CompiledPolicy[], known: KnownNames = {}) {
  return [...unmetNeeds(policies, known)].flatMap(([policy, warnings]) =>
    warnings.map(({ code, path, text }) => ({ policy, code, path, text })),
  );
}

test("a label that the document says callers send is expected, and a similar one is not", () => {
  const expecting = (name: string) =>
    warned([
      compiled(
        `resources: {flow_control: {expected_labels: [${name}]}}\n${limitedBy("tenant_id")}`,
      ),
    ]);
  assert.deepEqual(expecting("tenant_id"), []);
  const [warning, ...more] = expecting("tenant_ids");
  assert.deepEqual(more, []);
  assert.equal(warning?.code, "unknown_label");
  const other = compiled("resources: {flow_control: {expected_labels: [tenant_id]}}", "other");
  assert.equal(warned([compiled(limitedBy("tenant_id")), other]).length, 1, "only in its policy");
});

test("a header with the cost of a request is the client's choice, one with its key is not remarked upon", () => {
  const costing = (label: string) =>
    compiled(
      circuit(
        rateLimiter(
          CONSTANT_PORTS,
          `parameters: {interval: 1s, limit_by_label_key: ${HEADER_PREFIX}x_user}, request_parameters: {tokens_label_key: ${label}}`,
        ),
      ),
    );
  const [warning, ...more] = warned([costing(`${HEADER_PREFIX}x_cost`)]);
  assert.deepEqual(more, []);
  assert.equal(warning?.code, "client_label");
  assert.match(warning?.path ?? "", /request_parameters\.tokens_label_key$/);
  assert.match(warning?.text ?? "", /x_cost is a header, so clients choose what a request costs/);
  assert.deepEqual(warned([costing("http.request_content_length")]), []);
});

describe("the label that a limit is keyed by", () => {
  for (const label of ["", "http.method", "aperture.source_fqdns", `${HEADER_PREFIX}x_user`]) {
    test(`"${label}" is made by the request`, () => {
      assert.deepEqual(warned([compiled(limitedBy(label))]), []);
    });
  }

  test("with - or capitals it is the label of no header: the warning spells the right one", () => {
    const [warning] = warned([compiled(limitedBy(`${HEADER_PREFIX}X-User`))]);
    assert.equal(warning?.code, "unknown_label");
    assert.match(
      warning?.text ?? "",
      /http\.request\.header\.X-User; .*: http\.request\.header\.x_user; only a caller that sends it, .* can set it$/,
    );
    assert.equal(
      warning?.path,
      "circuit.components[0].flow_control.rate_limiter.parameters.limit_by_label_key",
    );
  });

  test("baggage is named only where it may set the label", () => {
    for (const name of ["http.request.header.x-user", "http.user", "aperture.user"])
      assert.doesNotMatch(
        warned([compiled(limitedBy(name))])[0]?.text ?? "baggage",
        /baggage/,
        name,
      );
    assert.match(
      warned([compiled(limitedBy("user"))])[0]?.text ?? "",
      /only baggage or a caller .* can set it$/,
    );
  });

  test("a classifier of any policy of the set may make it", () => {
    const maker = (label: string) =>
      compiled(
        `resources: {flow_control: {classifiers: [{${SELECTORS}, rules: {${label}: {extractor: {from: request.http.host}}}}]}}`,
        "maker",
      );
    const user = compiled(limitedBy("user"));
    assert.deepEqual(warned([user, maker("user")]), []);
    const [warning, ...more] = warned([maker("usr"), user]);
    assert.deepEqual(more, []);
    assert.equal(warning?.policy, "p");
    assert.match(
      warning?.text ?? "",
      /makes the label user; did you mean usr\?; only baggage or a caller/,
    );
    assert.deepEqual(warned([user], { labels: ["user"] }), []);
  });

  test("keys of samplers, tokens and schedulers count too", () => {
    const sampler = `flow_control: {sampler: {parameters: {${SELECTORS}, session_label_key: session}}}`;
    const tokens = rateLimiter(
      CONSTANT_PORTS,
      "parameters: {interval: 1s}, request_parameters: {tokens_label_key: cost}",
    );
    const codes = warned([compiled(circuit(sampler, tokens))]).map(({ path }) => path);
    assert.deepEqual(
      codes.map((path) => path.split(".").at(-1)),
      ["session_label_key", "tokens_label_key"],
    );
    const former = sampler.replace("session_label_key", "label_key");
    assert.deepEqual(
      warned([compiled(circuit(former))]).map(({ path }) => path.split(".").at(-1)),
      ["label_key"],
    );
  });

  test("the known labels are those that the API reads from requests", () => {
    for (const name of ATTRIBUTE_NAMES.proxy) assert.ok(isRequestLabel(name), name);
    assert.ok(!isRequestLabel("http.status_code"));
    assert.ok(!isRequestLabel("user"));
    for (const header of ["X-User", "x-user", "traceparent"]) {
      assert.ok(isRequestLabel(HEADER_PREFIX + header.toLowerCase().replaceAll("-", "_")), header);
    }
  });
});

describe("what a query reads", () => {
  test("a flux meter that no policy defines", () => {
    const policy = compiled(asking('sum(flux_meter_sum{flux_meter_name="latency"})'));
    const [warning] = warned([policy]);
    assert.equal(warning?.code, "unknown_flux_meter");
    assert.equal(warning?.path, "circuit.components[0]");
    const meter = compiled(
      `resources: {flow_control: {flux_meters: {latency: {${SELECTORS}}}}}`,
      "meter",
    );
    assert.deepEqual(warned([policy, meter]), []);
  });

  test("a metric, where it is known who answers", () => {
    const policy = compiled(asking("rate(up[1m]) + down"));
    assert.deepEqual(warned([policy]), []);
    const found = warned([policy], { knowsMetric: (name) => name === "up" });
    assert.deepEqual(
      found.map(({ code, text }) => [code, text.split(",")[0]]),
      [["unknown_metric", "a query reads down"]],
    );
  });
});

describe("the search for the name that was meant", () => {
  const meters = "ab".split("").map((name) => `m_${name}: {${SELECTORS}}`);
  const meter = compiled(`resources: {flow_control: {flux_meters: {${meters.join(", ")}}}}`, "m");
  const reads = (name: string) =>
    compiled(asking(`sum(flux_meter_sum{flux_meter_name="${name}"})`));
  const searches = (policies: readonly CompiledPolicy[]) => {
    const words: string[] = [];
    const suggest = (word: string) => {
      words.push(word);
      return undefined;
    };
    unmetNeeds(policies, { agentGroups: ["default"], labels: ["user"], suggest });
    return words;
  };

  test("is not made for needs that are met", () => {
    assert.deepEqual(
      searches([meter, reads("m_a"), reads("m_b"), compiled(limitedBy("user"))]),
      [],
    );
  });

  test("is made once for each that is not", () => {
    assert.deepEqual(searches([meter, reads("m_c"), reads("m_a")]), ["m_c"]);
  });
});

describe("path templates", () => {
  const codes = (template: string) =>
    judged(
      `resources: {flow_control: {classifiers: [{${SELECTORS}, rules: {t: {extractor: {path_templates: {template_values: {"${template}": x}}}}}}]}}`,
    ).warnings.map((each) => [each.code, each.text]);

  test("segments that only look like parameters or wildcards are warned of", () => {
    for (const [template, wanted] of [
      ["/users/:id", /":id" matches only this literal text; a parameter is written \{id\}/],
      ["/files/**", /"\*\*" matches only .*; a wildcard is \* alone/],
      ["/files/a*", /"a\*" matches only/],
      ["/files/{id}.json", /"\{id\}\.json" matches only .*whole segment/],
    ] as const) {
      const [[code, text] = [], ...more] = codes(template);
      assert.deepEqual([code, more], ["literal_path", []], template);
      assert.match(text ?? "", wanted);
    }
  });

  test("parameters, the wildcard and plain text are not", () => {
    for (const template of ["/users/{id}", "/static/*", "/a:b/c", "/"]) {
      assert.deepEqual(codes(template), [], template);
    }
  });
});

describe("the labels that a selector asks for", () => {
  const selecting = (matcher: string) =>
    compiled(
      circuit(
        `flow_control: {rate_limiter: {in_ports: {${CONSTANT_PORTS}}, parameters: {interval: 1s}, selectors: [{control_point: c, label_matcher: {${matcher}}}]}}`,
      ),
    );
  const WRONG = "http.request.headers.x_user";
  const BASE = "circuit.components[0].flow_control.rate_limiter.selectors[0].label_matcher";
  const cases: readonly (readonly [string, string])[] = [
    [`match_labels: {${WRONG}: a}`, `match_labels["${WRONG}"]`],
    [`match_list: [{key: ${WRONG}, operator: Exists}]`, "match_list[0].key"],
    [`match_expressions: [{key: ${WRONG}, operator: Exists}]`, "match_expressions[0].key"],
    [`expression: {not: {label_exists: ${WRONG}}}`, "expression.not.label_exists"],
    [`expression: {label_equals: {label: ${WRONG}, value: a}}`, "expression.label_equals.label"],
    [`expression: {label_matches: {label: ${WRONG}, regex: a}}`, "expression.label_matches.label"],
  ];
  for (const [matcher, place] of cases) {
    test(`${place} that nothing makes`, () => {
      const found = warned([selecting(matcher)]).filter(({ code }) => code === "unknown_label");
      assert.deepEqual(
        found.map(({ path }) => path),
        [`${BASE}.${place}`.replace(".[", "[")],
      );
      assert.match(found[0]?.text ?? "", /makes the label http\.request\.headers\.x_user; only/);
      assert.deepEqual(warned([selecting(matcher.replace("headers", "header"))]), []);
      assert.deepEqual(warned([selecting(matcher)], { labels: [WRONG] }), []);
    });
  }

  test("a label that only a caller or baggage sets lets clients choose their selectors", () => {
    const policy = selecting("match_labels: {user_type: guest}");
    const [warning, ...more] = warned([policy]);
    assert.deepEqual(more, []);
    assert.equal(warning?.code, "client_label");
    assert.equal(warning?.path, `${BASE}.match_labels.user_type`);
    assert.match(warning?.text ?? "", /no classifier makes the label user_type; whoever sends it/);
    assert.deepEqual(warned([policy], { labels: ["user_type"] }), []);
    const made = { ...policy, supply: { ...policy.supply, labels: ["user_type"] } };
    assert.deepEqual(warned([policy, made]), []);
  });
});

test("components that scale the same object are rivals, in one policy and in several", () => {
  const object = (version: string) =>
    `kubernetes_object_selector: {namespace: n, api_version: ${version}, kind: Deployment, name: x}`;
  const scaler = (more = "", version = "apps/v1") =>
    `auto_scale: {pod_scaler: {in_ports: {replicas: {constant_signal: {value: 2}}}, ${object(version)}, ${more}}}`;
  const alerts = "{scale_out_alerter: {alert_name: o}, scale_in_alerter: {alert_name: i}}";
  const auto = (more = "") =>
    `auto_scale: {auto_scaler: {scaling_backend: {kubernetes_replicas: {${object("apps/v1")}}}, scaling_parameters: ${alerts}, ${more}}}`;
  const rivals = (...policies: readonly (readonly string[])[]) =>
    warned(policies.map((components, at) => compiled(circuit(...components), `p${at}`))).map(
      ({ policy, code, path, text }) => [policy, code, path.match(/\[\d\]/)?.[0], text],
    );
  const text = "2 components scale Deployment n/x, and each undoes what the others decide";
  const first = ["p0", "other_autoscaler", "[0]", text];
  assert.deepEqual(rivals([scaler()]), []);
  assert.deepEqual(rivals([scaler(), auto()]), [first, ["p0", "other_autoscaler", "[1]", text]]);
  assert.deepEqual(rivals([scaler()], [scaler("", "apps/v1beta1")]), [
    first,
    ["p1", "other_autoscaler", "[0]", text],
  ]);
  assert.deepEqual(rivals([scaler()], [scaler("", "v1")]), []);
  for (const off of ["dry_run: true", "dry_run_config_key: k"]) {
    assert.deepEqual(rivals([scaler(), auto(off)]), [], off);
    // A dry run says nothing about the components after it.
    assert.deepEqual(
      rivals([auto(off), scaler(), scaler()]).map(([, , component]) => component),
      ["[1]", "[2]"],
      off,
    );
  }
});

test("a target is a warning where nobody attaches, and none where that is not known", () => {
  const targetRefs = "[{group: gateway.networking.k8s.io, kind: HTTPRoute, name: checkout}]";
  const head =
    "apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: {name: p, namespace: n}";
  const limit = limitedBy("http.path").replace(SELECTORS, "selectors: [{}]");
  const text = `${head}\nspec:\n  targetRefs: ${targetRefs}\n  ${limit.replaceAll("\n", "\n  ")}`;
  const policy = compiled(text);
  assert.deepEqual(warned([policy]), []);
  const [warning, ...others] = warned([policy], { attaching: needsAttachment });
  assert.deepEqual(others, []);
  assert.equal(warning?.code, "needs_attachment");
  assert.equal(warning?.path, "spec.targetRefs[0]");
  assert.match(
    warning?.text ?? "",
    /HTTPRoute n\/checkout .* only where the policy is a Kubernetes/,
  );
});
