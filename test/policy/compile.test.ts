import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { LimiterNumbers } from "#flow/rules.ts";
import { findingLine, setLines } from "#policy/report.ts";
import { compileSet } from "#policy/set.ts";
import {
  CONSTANT_PORTS,
  circuit,
  compiled,
  digest,
  findings,
  judged,
  lines,
  rateLimiter,
  SELECTORS,
} from "./kit.ts";

const constant = (value: string) => `{constant_signal: {value: ${value}}}`;
const special = (value: string) => `{constant_signal: {special_value: ${value}}}`;
const signal = (name: string) => `{signal_name: ${name}}`;
const variable = (name: string, value: string, more = "") =>
  `variable: {constant_output: ${value}, out_ports: {output: ${signal(name)}}${more}}`;
const query = (name: string) => `query: {promql: {out_ports: {output: ${signal(name)}}}}`;

function ports(capacity: string, fill = constant("1"), pass?: string): string {
  const through = pass === undefined ? "" : `, pass_through: ${pass}`;
  return `bucket_capacity: ${capacity}, fill_amount: ${fill}${through}`;
}

/** Capacity, fill and pass-through of the last limiter. */
function bucket(decisions: readonly LimiterNumbers[]) {
  const last = decisions.at(-1);
  assert.equal(last?.kind, "rate_limiter");
  return [last.bucketCapacity, last.fillAmount, last.passThrough];
}

function decided(...components: readonly string[]) {
  return bucket(compiled(circuit(...components)).decisions);
}

function accepted(...components: readonly string[]): number {
  const last = compiled(circuit(...components)).decisions.at(-1);
  assert.equal(last?.kind, "sampler");
  return last.acceptPercentage;
}

const sampler = (port: string, more = "") =>
  `flow_control: {sampler: {in_ports: {${port}}, parameters: {${SELECTORS}${more}}}}`;

describe("numbers", () => {
  test("constants, zeros included: the first decision is always there", () => {
    assert.deepEqual(decided(rateLimiter(ports(constant("5"), constant("2")))), [5, 2, false]);
    assert.deepEqual(decided(rateLimiter(ports(constant("0"), constant("0")))), [0, 0, false]);
    assert.deepEqual(decided(rateLimiter(ports("{constant_signal: {}}"))), [0, 1, false]);
    assert.deepEqual(decided(rateLimiter(ports(special("+Inf")))), [Infinity, 1, false]);
  });
  test("an invalid number passes everything through", () => {
    assert.deepEqual(decided(rateLimiter(ports(special("NaN")))), [0, 0, true]);
    assert.deepEqual(decided(rateLimiter(ports(constant("5"), "{}"))), [0, 0, true]);
  });
  test("pass-through is asked for by a number that is valid and not zero", () => {
    const through = (port: string) =>
      decided(rateLimiter(ports(constant("5"), constant("1"), port)));
    assert.deepEqual(through(constant("1")), [5, 1, true]);
    assert.deepEqual(through(constant("-0.5")), [5, 1, true]);
    assert.deepEqual(through(constant("0")), [5, 1, false]);
    assert.deepEqual(through(special("NaN")), [5, 1, false]);
    assert.deepEqual(through("{}"), [5, 1, false]);
  });
  test("samplers: invalid is all or, in ramp mode, nothing; numbers stay between 0 and 100", () => {
    assert.equal(accepted(sampler("")), 100);
    assert.equal(accepted(sampler("", ", ramp_mode: true")), 0);
    assert.equal(accepted(sampler(`accept_percentage: ${constant("12.5")}`)), 12.5);
    assert.equal(accepted(sampler(`accept_percentage: ${constant("150")}`)), 100);
    assert.equal(accepted(sampler(`accept_percentage: ${constant("-1")}`)), 0);
  });
  test("numbers that are seldom meant are pointed at: invalid ones open, negative ones count as 0", () => {
    const told = (capacity: string, fill: string) =>
      compiled(circuit(rateLimiter(ports(constant(capacity), constant(fill))))).warnings.map(
        ({ path, text }) => `${path.split(".").at(-1)}: ${text.split(":")[0]}`,
      );
    assert.deepEqual(told("5", "0"), []);
    assert.deepEqual(told('"NaN"', "-1"), [
      "bucket_capacity: no valid number",
      "fill_amount: negative",
    ]);
  });
  test("a circuit that never runs decides nothing", () => {
    const text = circuit(rateLimiter(CONSTANT_PORTS)).replace(
      "circuit:\n",
      "circuit:\n  evaluation_interval: 0s\n",
    );
    const { rules, decisions, warnings } = compiled(text);
    assert.deepEqual([rules.length, decisions.length], [1, 0]);
    assert.match(warnings[0]?.text ?? "", /never runs/);
  });
});

describe("signals", () => {
  test("variables, wherever they stand", () => {
    const limiter = rateLimiter(ports(signal("A"), signal("A"), signal("B")));
    const flag = "bool_variable: {constant_output: true, out_ports: {output: {signal_name: B}}}";
    assert.deepEqual(decided(limiter, variable("A", "{value: 7}"), flag).slice(0, 2), [7, 7]);
    assert.deepEqual(decided(limiter, variable("A", "{special_value: NaN}"), flag), [0, 0, true]);
  });

  test("through ports of nested circuits, both ways", () => {
    const ingress = (port: string, name: string) =>
      `{nested_signal_ingress: {port_name: ${port}, out_ports: {signal: ${signal(name)}}}}`;
    const egress = (port: string, name: string) =>
      `{nested_signal_egress: {port_name: ${port}, in_ports: {signal: ${signal(name)}}}}`;
    const inner = (parts: string) => `nested_circuit: {${parts}}`;
    const down = inner(
      `in_ports_map: {p: ${signal("A")}}, components: [${ingress("p", "X")}, {${rateLimiter(ports(signal("X")))}}]`,
    );
    const policy = compiled(circuit(variable("A", "{value: 3}"), down));
    assert.deepEqual(bucket(policy.decisions), [3, 1, false]);
    assert.equal(
      policy.rules[0]?.kind === "rate_limiter" && policy.rules[0].componentId,
      "root.1.1",
    );

    const up = inner(
      `out_ports_map: {q: ${signal("A")}}, components: [{${variable("Y", "{value: 4}")}}, ${egress("q", "Y")}]`,
    );
    assert.deepEqual(decided(rateLimiter(ports(signal("A"))), up), [4, 1, false]);

    const unmapped = inner(
      `components: [${ingress("p", "X")}, {${rateLimiter(ports(signal("X")))}}]`,
    );
    assert.deepEqual(decided(unmapped), [0, 0, true]);

    const through = inner(
      `in_ports_map: {p: ${signal("A")}}, out_ports_map: {q: ${signal("A")}}, components: [${ingress("p", "X")}, ${egress("q", "X")}]`,
    );
    const [looped = ""] = lines(circuit(rateLimiter(ports(signal("A"))), through));
    assert.match(looped, /bucket_capacity: wanted a constant.*nested_circuit/);

    const noEgress = inner(`out_ports_map: {q: ${signal("A")}}, components: []`);
    assert.match(
      lines(circuit(noEgress)).join(),
      /out_ports_map\.q: wanted a nested_signal_egress/,
    );
  });

  test("what a running circuit would feed is refused by component, port and source", () => {
    const [line, ...more] = lines(circuit(query("CAP"), rateLimiter(ports(signal("CAP")))));
    assert.deepEqual(more, []);
    assert.equal(
      line,
      "p.yaml:4:48: circuit.components[1].flow_control.rate_limiter.in_ports.bucket_capacity: " +
        "wanted a constant, a variable or a bool_variable (this version runs no circuits), " +
        "got signal CAP from query.promql at circuit.components[0]",
    );
    const fed = circuit(query("CAP"), rateLimiter(ports(signal("CAP"))));
    assert.deepEqual(
      findings(fed).map(({ kind }) => kind),
      ["unsupported"],
    );
  });

  test("what feeds no agent is observing", () => {
    const { rules, observing } = compiled(
      circuit(
        query("A"),
        `decider: {operator: gt, in_ports: {lhs: ${signal("A")}, rhs: ${constant("1")}}, out_ports: {output: ${signal("D")}}}`,
        `alerter: {in_ports: {signal: ${signal("D")}}, parameters: {alert_name: a}}`,
        rateLimiter(
          CONSTANT_PORTS,
          `parameters: {interval: 1s}, out_ports: {accept_percentage: ${signal("P")}}`,
        ),
      ).concat("resources: {infra_meters: {m: {}}}\n"),
    );
    assert.equal(rules.length, 1);
    assert.deepEqual(
      observing.map(({ path, text, at }) => [path, text, at.line]),
      [
        ["circuit.components[0].query.promql", "observing, not run", 3],
        ["circuit.components[1].decider", "observing, not run", 4],
        ["circuit.components[2].alerter", "observing, not run", 5],
        ["resources.infra_meters.m", "observing, not run", 7],
      ],
    );
  });
});

describe("dynamic configuration of a Kubernetes object", () => {
  const wrapped = (config: string, ...components: readonly string[]): string =>
    `apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: {name: d}\ndynamicConfig: ${config}\nspec:\n${circuit(...components).replaceAll(/^/gm, "  ")}`;
  const limited = [
    variable("A", "{value: 7}", ", config_key: a.b"),
    rateLimiter(ports(signal("A"))),
  ];

  test("overrides variables, by a whole key or by its parts", () => {
    for (const config of ["{a: {b: {value: 9}}}", "{a.b: {value: 9}}"]) {
      assert.deepEqual(bucket(compiled(wrapped(config, ...limited)).decisions), [9, 1, false]);
    }
    const off = wrapped("{a: {b: {special_value: NaN}}}", ...limited);
    assert.deepEqual(bucket(compiled(off).decisions), [0, 0, true]);
  });
  test("what is missing, null or of the wrong form leaves the static value", () => {
    for (const config of ["{}", "{a: {b: null}}", "{a: 1}", "{'': {value: 9}}"]) {
      assert.deepEqual(bucket(compiled(wrapped(config, ...limited)).decisions), [7, 1, false]);
    }
    const { decisions, warnings } = compiled(wrapped("{a: {b: nine}}", ...limited));
    assert.deepEqual(bucket(decisions), [7, 1, false]);
    assert.match(warnings[0]?.text ?? "", /set aside/);
  });
  test("booleans and pass-through values", () => {
    const flag = (config: string) =>
      bucket(
        compiled(
          wrapped(
            config,
            "bool_variable: {constant_output: false, config_key: k, out_ports: {output: {signal_name: B}}}",
            rateLimiter(ports(constant("5"), constant("1"), signal("B"))),
          ),
        ).decisions,
      )[2];
    const wanted = { "{k: true}": true, "{k: 2}": true, '{k: "true"}': true, "{k: null}": false };
    for (const [config, value] of Object.entries(wanted)) assert.equal(flag(config), value, config);
    assert.equal(flag("{k: maybe}"), false);

    const values = (config: string) => {
      const [only] = compiled(
        wrapped(
          config,
          `flow_control: {sampler: {parameters: {${SELECTORS}}, pass_through_label_values: [a], pass_through_label_values_config_key: v}}`,
        ),
      ).decisions;
      return only?.kind === "sampler" ? only.passThroughLabelValues : undefined;
    };
    assert.deepEqual(values("{}"), ["a"]);
    assert.deepEqual(values("{v: [b, c]}"), ["b", "c"]);
    assert.deepEqual(values("{v: []}"), []);
    assert.deepEqual(values("{v: [1]}"), ["a"]);
  });
});

describe("hash", () => {
  const text = circuit(rateLimiter(CONSTANT_PORTS));
  test("is sixteen bytes of hex, carried by every rule and decision", () => {
    const { hash, rules, decisions } = compiled(text);
    assert.match(hash, /^[0-9a-f]{32}$/);
    for (const one of [...rules, ...decisions]) {
      assert.equal(one.kind !== "flux_meter" && one.policyHash, hash);
    }
  });
  test("does not depend on form or spelt-out defaults, but on meaning", () => {
    const json = JSON.stringify({
      circuit: {
        components: [
          {
            flow_control: {
              rate_limiter: {
                selectors: [{ service: "any", control_point: "ingress" }],
                parameters: { continuous_fill: true, interval: "1.0s" },
                in_ports: {
                  fill_amount: { constant_signal: { value: "1" } },
                  bucket_capacity: { constant_signal: { value: 5 } },
                },
              },
            },
          },
        ],
        evaluation_interval: "1s",
      },
    });
    assert.equal(compiled(json).hash, compiled(text).hash);
    assert.equal(compiled(text, "other").hash, compiled(text).hash);
    assert.notEqual(compiled(text.replace("5", "6")).hash, compiled(text).hash);
  });
});

describe("a set", () => {
  const meter = `resources: {flow_control: {flux_meters: {m: {${SELECTORS}}}}}`;
  const set = (texts: Readonly<Record<string, string>>) =>
    compileSet(
      Object.entries(texts).map(([stem, text]) => ({ source: `${stem}.yaml`, stem, text })),
      digest,
    );

  test("one policy name twice, one meter name in two policies: both are named", () => {
    const named =
      "apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: {name: a}\nspec: {circuit: {}}\n";
    const twice = set({ a: "circuit: {}", b: named }).findings.map(findingLine);
    assert.deepEqual(twice.length, 1);
    assert.match(twice[0] ?? "", /^b\.yaml:1:1: .*policy name a .*a\.yaml:1:1/);
    const meters = set({ a: meter, b: meter }).findings.map(findingLine);
    assert.deepEqual(meters.length, 1);
    assert.match(meters[0] ?? "", /flux meter name m in policy b, and in policy a/);
    assert.deepEqual(set({ a: meter, b: "circuit: {}" }).findings, []);
  });

  test("good policies are there beside bad ones", () => {
    const { policies, findings: found } = set({ a: "circuit: {}", b: "circuit: {nope: 1}" });
    assert.deepEqual(
      policies.map(({ of }) => of.name),
      ["a"],
    );
    assert.equal(found.length, 1);
  });

  test("as lines for people", () => {
    const good = judged(circuit(query("A"), rateLimiter(CONSTANT_PORTS)));
    const hash = good.policies[0]?.of.hash;
    assert.deepEqual(setLines(good), [
      "p.yaml:3:15: circuit.components[0].query.promql: observing, not run",
      `p.yaml: policy p (${hash}): 1 rules, 1 observing`,
    ]);
  });
});
