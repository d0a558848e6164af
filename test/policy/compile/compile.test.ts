// The results of compiling documents: circuits, hashes, names, and sets of policies.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { compilePolicy } from "#policy/compile.ts";
import { readPolicies } from "#policy/document/read.ts";
import { findingLine } from "#policy/format.ts";
import { compileSet } from "#policy/set.ts";
import { validateQuery } from "#promql/validate.ts";
import {
  CONSTANT_PORTS,
  circuit,
  compiled,
  digest,
  lines,
  OPTIONS,
  rateLimiter,
  SELECTORS,
} from "../kit.ts";
import {
  alerter,
  constant,
  fault,
  ingress,
  inverter,
  nested,
  planOf,
  query,
  signal,
  to,
  variable,
} from "./setup.ts";

describe("invalid wiring is refused, with signal and position", () => {
  test("a signal without a writer, in a list, and with a writer in another circuit only", () => {
    const got = fault(inverter("NOPE", "A"));
    assert.match(got, /^p\.yaml:3:29: circuit\.components\[0\]\.inverter\.in_ports\.input: wanted/);
    assert.match(got, /got signal NOPE/);
    assert.match(fault(`max: {in_ports: {inputs: [{}, ${signal("X")}]}}`), /inputs\[1\].*signal X/);
    const inside = nested(`components: [{${variable("A")}}]`);
    assert.match(fault(inside, alerter("A")), /components\[1\].*signal A/);
    const outside = nested(`components: [{${alerter("A")}}]`);
    assert.match(
      fault(variable("A"), outside),
      /nested_circuit\.components\[0\].*root\.1 writes, got signal A/,
    );
  });

  test("a signal with two writers, including composites", () => {
    const got = fault(variable("A"), variable("A"));
    assert.match(got, /components\[1\]\.variable\.out_ports\.output.*signal A .*first: root\.0/);
    const limiter = rateLimiter(
      CONSTANT_PORTS,
      `parameters: {interval: 1s}, out_ports: {accept_percentage: ${signal("A")}}`,
    );
    assert.match(fault(variable("A"), limiter), /rate_limiter\.out_ports\.accept_percentage/);
  });

  test("ports of nested circuits: without an ingress or egress inside, and with two", () => {
    const ports = (map: string, inside: string) =>
      fault(
        variable("A"),
        nested(`${map}: {p: ${signal(map[0] === "i" ? "A" : "B")}}, components: [${inside}]`),
      );
    assert.match(ports("in_ports_map", ""), /in_ports_map\.p: wanted a nested_signal_ingress/);
    assert.match(ports("out_ports_map", ""), /out_ports_map\.p: wanted a nested_signal_egress/);
    const twice = `${ingress("p", "X")}, ${ingress("p", "Y")}`;
    assert.match(ports("in_ports_map", twice), /components\[1\].*port_name.*second one for port p/);
  });

  test("queries: empty, not PromQL, of a wrong type, or not supported without a server", () => {
    assert.match(fault(query("''")), /query_string: wanted a query in PromQL, got empty text/);
    assert.match(fault(query("' '")), /got empty text/);
    assert.match(fault(query("'sum('")), /components\[0\]\.query\.promql\.query_string/);
    assert.match(fault(query("'up[5m]'")), /range/);
    const own = (text: string) => {
      const texts = [{ source: "p.yaml", defaultName: "p", text: circuit(query(text)) }];
      return compileSet(texts, { digest, queries: "own" }).findings;
    };
    assert.equal(own("'sum(rate(m[1m]))'").length, 0);
    assert.equal(own("'holt_winters(m[1m], 0.5, 0.5)'").length, 1);
  });

  test("all at once", () => {
    const found = lines(circuit(inverter("X", "A"), inverter("Y", "A"), query("''")));
    assert.equal(found.length, 4, found.join("\n"));
  });
});

describe("circuits", () => {
  test("there is none without components, and none that never ticks, with a warning", () => {
    assert.equal(compiled("circuit: {}").circuit, undefined);
    const text = circuit(rateLimiter(CONSTANT_PORTS));
    const still = compiled(text.replace("circuit:", "circuit:\n  evaluation_interval: 0s"));
    assert.equal(still.circuit, undefined);
    assert.equal(still.configs.length, 1);
    assert.match(still.warnings[0]?.text ?? "", /never runs, so agents get no decisions/);
    const fast = text.replace("circuit:", "circuit:\n  evaluation_interval: 0.0001s");
    assert.match(lines(fast)[0] ?? "", /evaluation_interval: wanted 0s, or at least 0\.001s/);
  });

  test("an empty element of a list is unconnected", () => {
    const [leaf] = planOf(circuit("max: {in_ports: {inputs: [{}, {constant_signal: {}}]}}")).leaves;
    const wires = [{ kind: "open" }, { kind: "constant", value: 0 }];
    assert.deepEqual(leaf?.inputs["inputs"], wires);
  });

  test("the compiler does not change the document", () => {
    const ramp = `flow_control: {load_ramp: {parameters: {sampler: {${SELECTORS}}, steps: [{duration: 1s}]}}}`;
    const { document, configs } = compiled(circuit(ramp));
    const [written] = document.circuit?.components ?? [];
    assert.equal(written?.flow_control?.load_ramp?.parameters.sampler.ramp_mode, false);
    const [config] = configs;
    assert.equal(config?.name, "root.0.1");
    assert.ok(config !== undefined);
    assert.deepEqual(Object(config.message["parameters"]).ramp_mode, true);
  });

  test("queries of composites are valid in both dialects, whatever the policy's name", () => {
    const scheduler = `flow_control: {load_scheduler: {in_ports: {load_multiplier: ${constant(1)}}, parameters: {workload_latency_based_tokens: true, ${SELECTORS}}}}`;
    const text = circuit(scheduler, rateLimiter(CONSTANT_PORTS));
    const { circuit: plan } = compiled(text, 'odd "name" \\ {x}');
    const asked = plan?.leaves.flatMap((leaf) => {
      if (leaf.kind === "promql") return leaf.config.query_string;
      return leaf.kind === "load_actuator" ? leaf.config.tokens_query : [];
    });
    assert.equal(asked?.length, 3);
    for (const each of asked) {
      assert.ok(each.includes('policy_name="odd \\"name\\" \\\\ {x}"'), each);
      assert.deepEqual(validateQuery(each, "own"), []);
      assert.deepEqual(validateQuery(each, "prometheus"), []);
    }
  });
});

describe("bounds", () => {
  test("ten thousand components in reverse order compile; too many inside composites are refused", () => {
    const many = Array.from({ length: 10_000 }, (_, at) => inverter(`S${at + 1}`, `S${at}`));
    const plan = planOf(circuit(...many, variable("S10000")));
    assert.equal(plan.order[0], 10_000);
    assert.equal(plan.order.length, 10_001);
    const scaler = `auto_scale: {auto_scaler: {scaling_backend: {kubernetes_replicas: {kubernetes_object_selector: {namespace: n, api_version: v, kind: k, name: x}}}, scaling_parameters: {scale_out_alerter: {alert_name: o}, scale_in_alerter: {alert_name: i}}}}`;
    const got = fault(...Array.from({ length: 600 }, () => scaler));
    assert.match(got, /circuit\.components: wanted at most 20000 components/);
  });

  test("circuits within circuits, as deep as documents go", () => {
    let inside = variable("A");
    for (let depth = 0; depth < 45; depth++) inside = nested(`components: [{${inside}}]`);
    const [leaf] = planOf(circuit(inside)).leaves;
    assert.equal(leaf?.id, `root${".0".repeat(46)}`);
    assert.ok((leaf?.identity.length ?? 0) < 300);
  });
});

describe("dynamic configuration of a Kubernetes object", () => {
  const wrapped = (config: string) =>
    `apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: {name: d}\ndynamicConfig: ${config}\nspec:\n${circuit(`variable: {constant_output: {value: 7}, config_key: a, ${to("A")}}`).replaceAll(/^/gm, "  ")}`;

  test("is part of the compiled policy; values of the wrong form give warnings", () => {
    const { dynamicConfig, warnings } = compiled(wrapped("{a: {value: 9}}"));
    assert.deepEqual([dynamicConfig, warnings], [{ a: { value: 9 } }, []]);
    const [warning] = compiled(wrapped("{a: nine}")).warnings;
    assert.equal(warning?.path, "dynamicConfig.a");
    assert.equal(warning?.at.line, 4);
    assert.equal(compiled(circuit(variable("A"))).dynamicConfig, undefined);
  });
});

describe("hash", () => {
  const text = circuit(rateLimiter(CONSTANT_PORTS));
  test("is sixteen bytes of hex, that of the plan too", () => {
    const { hash, circuit: plan } = compiled(text);
    assert.match(hash, /^[0-9a-f]{32}$/);
    assert.equal(plan?.policyHash, hash);
  });
  test("depends on the meaning, not on syntax or spelled-out defaults", () => {
    const limiter = {
      selectors: [{ service: "any", control_point: "ingress" }],
      parameters: { continuous_fill: true, interval: "1.0s" },
      in_ports: {
        fill_amount: { constant_signal: { value: "1" } },
        bucket_capacity: { constant_signal: { value: 5 } },
      },
    };
    const json = JSON.stringify({
      circuit: {
        components: [{ flow_control: { rate_limiter: limiter } }],
        evaluation_interval: "1s",
      },
    });
    assert.equal(compiled(json).hash, compiled(text).hash);
    assert.equal(compiled(text, "other").hash, compiled(text).hash);
    assert.notEqual(compiled(text.replace("5", "6")).hash, compiled(text).hash);
  });
});

describe("names", () => {
  test("a flux meter's name may hold slashes, as a blueprint makes them, and a query may name it", () => {
    const name = "load-ramping/average_latency/0";
    const meters = `resources: {flow_control: {flux_meters: {${name}: {${SELECTORS}}}}}`;
    const text = `sum(flux_meter_sum{flux_meter_name='${name}'})`;
    const { configs, warnings } = compiled(`${meters}\n${circuit(query(`"${text}"`))}`);
    const found = configs.filter(({ kind }) => kind === "flux_meter");
    assert.deepEqual(
      found.map((config) => "name" in config && config.name),
      [name],
    );
    assert.deepEqual(warnings, []);
  });
});

describe("a set", () => {
  const meter = `resources: {flow_control: {flux_meters: {m: {${SELECTORS}}}}}`;
  const set = (texts: Readonly<Record<string, string>>) =>
    compileSet(
      Object.entries(texts).map(([defaultName, text]) => ({
        source: `${defaultName}.yaml`,
        defaultName,
        text,
      })),
      OPTIONS,
    );

  test("duplicate policy names and flux meter names are reported with both places", () => {
    const named =
      "apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: {name: a}\nspec: {circuit: {}}\n";
    const twice = set({ a: "circuit: {}", b: named }).findings.map(findingLine);
    assert.deepEqual(twice.length, 1);
    assert.match(twice[0] ?? "", /^b\.yaml:1:1: .*policy name a .*a\.yaml:1:1/);
    const meters = set({ a: meter, b: meter }).findings.map(findingLine);
    assert.deepEqual(meters.length, 1);
    assert.match(meters[0] ?? "", /flux meter name m in policy b and in policy a/);
    assert.deepEqual(set({ a: meter, b: "circuit: {}" }).findings, []);
  });

  test("valid policies are returned even if others are invalid", () => {
    const { policies, findings } = set({ a: "circuit: {}", b: "circuit: {nope: 1}" });
    assert.deepEqual(
      policies.map((each) => each.name),
      ["a"],
    );
    assert.equal(findings.length, 1);
  });

  test("findings of all stages are listed in the order of the text", () => {
    const text = `resources: {infra_meters: {m: {}}, telemetry_collectors: [{infra_meters: {m: {}}}]}\n${circuit(inverter("X", "A"))}`;
    const [document] = readPolicies(text, "p").documents;
    const outcome = document && compilePolicy(document, OPTIONS);
    assert.equal(outcome?.ok, false);
    assert.match(lines(text).join("\n"), /m again[^\n]*\n.*signal X/);
  });
});

test("two policies whose names give the same store key are refused", () => {
  const limiter = (group: string) => `circuit: {components: [{flow_control: {sampler: {parameters: {
    selectors: [{control_point: c, agent_group: ${group}}]}}}}]}`;
  const meter = (group: string, name: string) =>
    `resources: {infra_meters: {"${name}": {agent_group: ${group}}}}`;
  const together = (...documents: readonly (readonly [string, string])[]) =>
    compileSet(
      documents.map(([defaultName, text]) => ({ source: defaultName, defaultName, text })),
      { digest, queries: "prometheus" },
    ).findings.map((each) => each.got);
  const [got, ...more] = together(
    ["a-policy-b", limiter("default")],
    ["b", limiter("default-policy-a")],
  );
  assert.match(
    got ?? "",
    /store key sampler of agent_group-default-policy-a-policy-b-component_id-root/,
  );
  assert.deepEqual(more, []);
  assert.equal(
    together(["p", meter("g", "q-infra_meter-x")], ["p-infra_meter-q", meter("g", "x")]).length,
    1,
  );
  assert.deepEqual(together(["a", limiter("default")], ["b", limiter("default")]), []);
});

test("a loop of signals that nothing starts gives a warning where it closes; one with a start gives none", () => {
  const add = (from: string, to: string) =>
    `{arithmetic_combinator: {operator: add, in_ports: {lhs: {signal_name: ${from}}, rhs: {constant_signal: {value: 1}}}, out_ports: {output: {signal_name: ${to}}}}}`;
  const max = (a: string, b: string, to: string) =>
    `{max: {in_ports: {inputs: [{signal_name: ${a}}, {signal_name: ${b}}]}, out_ports: {output: {signal_name: ${to}}}}}`;
  const first = (a: string, to: string) =>
    `{first_valid: {in_ports: {inputs: [{signal_name: ${a}}, {constant_signal: {value: 1}}]}, out_ports: {output: {signal_name: ${to}}}}}`;
  const warned = (...components: readonly string[]) => {
    const text = `circuit: {evaluation_interval: 1s, components: [${components.join(", ")}]}`;
    const { warnings, findings } = compileSet([{ source: "p", defaultName: "p", text }], {
      digest,
      queries: "prometheus",
    });
    assert.deepEqual(findings, []);
    return warnings.map((each) => `${each.path}: ${each.text}`);
  };
  const why =
    "a signal of a loop in which no component begins with a value, so it is never a valid number";
  assert.deepEqual(warned(add("B", "A"), add("A", "B")), [`circuit.components[0]: lhs is ${why}`]);
  assert.deepEqual(warned(add("A", "A")), [`circuit.components[0]: lhs is ${why}`]);
  const [one, ...others] = warned(add("A", "B"), max("C", "B", "A"), add("B", "C"));
  assert.match(one ?? "", /^circuit\.components\[0\]: lhs is /);
  assert.equal(others.length, 0);
  assert.deepEqual(warned(add("B", "A"), first("A", "B")), []);
  assert.deepEqual(warned(add("B", "A"), add("A", "C"), first("C", "B"), max("A", "C", "D")), []);
});

test("numbers that are allowed but rarely meant give a warning at the limiter", () => {
  const text = `circuit: {components: [
    {variable: {constant_output: {special_value: NaN}, out_ports: {output: {signal_name: BAD}}}},
    {variable: {constant_output: {value: -1}, config_key: k, out_ports: {output: {signal_name: OVERRIDDEN}}}},
    {nested_circuit: {in_ports_map: {p: {signal_name: BAD}}, components: [
      {nested_signal_ingress: {port_name: p, out_ports: {signal: {signal_name: P}}}},
      {flow_control: {concurrency_limiter: {in_ports: {max_concurrency: {signal_name: P}}, parameters: {max_inflight_duration: 1s}, selectors: [{control_point: c}]}}}]}},
    {flow_control: {rate_limiter: {in_ports: {bucket_capacity: {constant_signal: {value: -3}}, fill_amount: {signal_name: OVERRIDDEN}}, parameters: {interval: 1s}, selectors: [{control_point: c}]}}},
    {flow_control: {sampler: {in_ports: {accept_percentage: {constant_signal: {value: 500}}}, parameters: {selectors: [{control_point: c}]}}}},
    {flow_control: {sampler: {in_ports: {accept_percentage: {constant_signal: {special_value: NaN}}}, parameters: {ramp_mode: true, selectors: [{control_point: c}]}}}},
    {flow_control: {rate_limiter: {in_ports: {bucket_capacity: {constant_signal: {special_value: +Inf}}, fill_amount: {constant_signal: {value: 1e300}}}, parameters: {interval: 1s}, selectors: [{control_point: c}]}}},
    {flow_control: {concurrency_limiter: {in_ports: {max_concurrency: {constant_signal: {value: 1000000000000}}}, parameters: {max_inflight_duration: 1s}, selectors: [{control_point: c}]}}},
    {flow_control: {concurrency_limiter: {in_ports: {max_concurrency: {constant_signal: {value: 999999999999}}}, parameters: {max_inflight_duration: 1s}, selectors: [{control_point: c}]}}},
    {flow_control: {load_scheduler: {in_ports: {load_multiplier: {constant_signal: {value: -1}}}, parameters: {selectors: [{control_point: c}]}}}},
    {flow_control: {load_scheduler: {in_ports: {load_multiplier: {constant_signal: {value: -1}}}, parameters: {selectors: [{control_point: c}]}, dry_run: true}}},
    {flow_control: {load_scheduler: {in_ports: {load_multiplier: {constant_signal: {value: -1}}}, parameters: {selectors: [{control_point: c}]}, dry_run_config_key: d}}}]}`;
  const { warnings, findings } = compileSet([{ source: "p", defaultName: "p", text }], {
    digest,
    queries: "prometheus",
  });
  assert.deepEqual(findings, []);
  assert.deepEqual(
    warnings.map((each) => `${each.path}: ${each.text}`),
    [
      "circuit.components[2].nested_circuit.components[1]: max_concurrency is never a valid number, so all flows pass",
      "circuit.components[3]: bucket_capacity is -3, which counts as 0",
      "circuit.components[4]: accept_percentage is 500, which counts as 100",
      "circuit.components[5]: accept_percentage is never a valid number, so no flow passes",
      "circuit.components[6]: bucket_capacity is Infinity, which no traffic reaches: it limits nothing",
      "circuit.components[6]: fill_amount is 1e+300, which no traffic reaches: it limits nothing",
      "circuit.components[7]: max_concurrency is 1000000000000, which no traffic reaches: it limits nothing",
      "circuit.components[9]: load_multiplier is -1, which counts as 0",
    ],
  );
});
