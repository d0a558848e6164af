import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { Circuit } from "#circuit/circuit.ts";
import type { CircuitDecision } from "#circuit/decision.ts";
import { type Edge, loopedEdges } from "#policy/compile/flatten/loops.ts";
import { orderOf } from "#policy/compile/flatten/order.ts";
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

const constant = (value: number) => `{constant_signal: {value: ${value}}}`;
const signal = (name: string) => `{signal_name: ${name}}`;
const to = (name: string) => `out_ports: {output: ${signal(name)}}`;
const variable = (name: string, value = 1) =>
  `variable: {constant_output: {value: ${value}}, ${to(name)}}`;
const inverter = (from: string, name: string) =>
  `inverter: {in_ports: {input: ${signal(from)}}, ${to(name)}}`;
const alerter = (from: string, name = "a") =>
  `alerter: {in_ports: {signal: ${signal(from)}}, parameters: {alert_name: ${name}}}`;
const query = (text: string, name = "Q") => `query: {promql: {query_string: ${text}, ${to(name)}}}`;
const nested = (parts: string) => `nested_circuit: {${parts}}`;
const ingress = (port: string, name: string) =>
  `{nested_signal_ingress: {port_name: ${port}, out_ports: {signal: ${signal(name)}}}}`;

/** The only finding of a circuit. */
function fault(...components: readonly string[]): string {
  const [only = "none", ...more] = lines(circuit(...components));
  assert.deepEqual(more, []);
  return only;
}

function planOf(text: string) {
  const { circuit: plan } = compiled(text);
  assert.ok(plan);
  return plan;
}

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

describe("identity", () => {
  const parts = [
    variable("A"),
    query("'up'", "B"),
    inverter("A", "C"),
    rateLimiter(`bucket_capacity: ${signal("A")}, fill_amount: ${signal("B")}`),
    `flow_control: {load_scheduler: {in_ports: {load_multiplier: ${signal("C")}}, parameters: {${SELECTORS}}}}`,
    nested(
      `in_ports_map: {p: ${signal("A")}}, components: [${ingress("p", "X")}, {${alerter("X")}}]`,
    ),
    alerter("A"),
    alerter("A"),
  ];
  const identities = (...components: readonly string[]) =>
    planOf(circuit(...components)).leaves.map(({ identity }) => identity);

  test("is unique, even for equal components", () => {
    const all = identities(...parts);
    assert.equal(new Set(all).size, all.length);
  });

  test("does not depend on the position of a component or on other components", () => {
    const before = identities(...parts);
    const after = new Set(identities(variable("Z", 9), alerter("Z", "other"), ...parts));
    for (const identity of before) assert.ok(after.has(identity), identity);
    assert.deepEqual([...identities(...parts.toReversed())].sort(), [...before].sort());
  });

  test("changes with the configuration, a wire, or the circuit around it", () => {
    const [only] = identities(variable("A"));
    const others = [
      identities(variable("A", 2))[0],
      identities(variable("B"))[0],
      identities(nested(`components: [{${variable("A")}}]`))[0],
    ];
    assert.equal(new Set([only, ...others]).size, 4);
  });

  test("a number of a composite changes the leaf that it configures; a selector changes all of its leaves", () => {
    const scheduler = (increment: number, point: string) =>
      identities(
        `flow_control: {aiad_load_scheduler: {in_ports: {signal: ${constant(1)}, setpoint: ${constant(2)}}, parameters: {load_scheduler: {selectors: [{control_point: ${point}}]}, load_multiplier_linear_increment: ${increment}, alerter: {alert_name: a}}}}`,
      );
    const before = new Set(scheduler(0.1, "x"));
    assert.equal(scheduler(0.2, "x").filter((each) => !before.has(each)).length, 1);
    assert.equal(scheduler(0.1, "y").filter((each) => before.has(each)).length, 0);
  });
});

describe("identity within circuits that look alike inside", () => {
  interface Parts {
    readonly asks?: string;
    readonly acts?: string;
    readonly key?: string;
    readonly window?: number;
    readonly capacity?: number;
    readonly more?: string;
  }
  const limiter = (point: string, capacity: number, key = "''", fill = signal("MEAN")) =>
    `flow_control: {rate_limiter: {in_ports: {bucket_capacity: ${constant(capacity)}, fill_amount: ${fill}}, parameters: {interval: 1s, limit_by_label_key: ${key}}, selectors: [{control_point: ${point}}]}}`;
  const mean = (window: number) =>
    `ema: {parameters: {ema_window: ${window}s, warmup_window: 1s}, in_ports: {input: ${signal("LOAD")}}, ${to("MEAN")}}`;
  /** A nested circuit for one service, with a query, an average and a limiter; no ports, always the same names. */
  const service = (name: string, parts: Parts = {}) => {
    const { asks = name, acts = name, key, window = 60, capacity = 5, more = "" } = parts;
    const inside = [query(`'up{service="${asks}"}'`, "LOAD"), mean(window)];
    const all = [...inside, limiter(acts, capacity, key)].map((each) => `{${each}}`);
    return nested(`components: [${more}${all.join()}]`);
  };

  /** Identities by id. */
  function known(...components: readonly string[]): ReadonlyMap<string, string> {
    const { leaves } = planOf(circuit(...components));
    const all = new Map(leaves.map(({ id, identity }) => [id, identity]));
    assert.equal(new Set(all.values()).size, leaves.length);
    return all;
  }
  /** Identities of the component with this id and of all components inside it. */
  const at = (place: string, all: ReadonlyMap<string, string>) =>
    [...all].flatMap(([id, identity]) => (`${id}.`.startsWith(`${place}.`) ? [identity] : []));
  /** Kinds of the leaves whose identities differ; positions are the same in both. */
  function changed(before: readonly string[], after: readonly string[]): readonly string[] {
    const leaves = planOf(circuit(...after)).leaves;
    const was = known(...before);
    return leaves.filter(({ id, identity }) => was.get(id) !== identity).map(({ kind }) => kind);
  }

  const both = known(service("gold"), service("bronze"));

  test("a circuit keeps its identities when another is removed, inserted before it, or moved", () => {
    assert.deepEqual(at("root.0", known(service("bronze"))), at("root.1", both));
    const swapped = known(service("bronze"), service("gold"));
    assert.deepEqual(at("root.0", swapped), at("root.1", both));
    assert.deepEqual(at("root.1", swapped), at("root.0", both));
    const three = known(service("silver"), service("gold"), service("bronze"));
    assert.deepEqual(at("root.1", three), at("root.0", both));
    assert.deepEqual(at("root.2", three), at("root.1", both));
  });

  test("queries, selectors and label keys each distinguish circuits", () => {
    const one = new Set(known(service("a")).values());
    for (const parts of [{ asks: "b" }, { acts: "b" }, { key: "user" }]) {
      const other = [...known(service("a", parts)).values()];
      assert.deepEqual(
        other.filter((identity) => one.has(identity)),
        [],
        JSON.stringify(parts),
      );
    }
  });

  test("a number inside, or another component beside it, resets nothing else", () => {
    const before = [service("gold"), service("bronze")];
    assert.deepEqual(changed(before, [service("gold", { window: 9 }), service("bronze")]), ["ema"]);
    assert.deepEqual(changed(before, [service("gold", { capacity: 9 }), service("bronze")]), []);
    const more = `{${variable("NEW")}}, {${limiter("gold", 1, "''", constant(2))}}, `;
    const grown = [...known(service("gold", { more }), service("bronze")).values()];
    assert.deepEqual(
      [...both.values()].filter((identity) => !grown.includes(identity)),
      [],
    );
  });

  test("a query deep inside is part of the identity of all circuits around it", () => {
    const sum = `arithmetic_combinator: {operator: add, in_ports: {lhs: ${signal("X")}, rhs: ${constant(1)}}, ${to("Y")}}`;
    const outer = (name: string) => {
      const helper = nested(
        `in_ports_map: {p: ${signal("S")}}, components: [${ingress("p", "X")}, {${sum}}]`,
      );
      return nested(`components: [{${variable("S")}}, {${helper}}, {${service(name)}}]`);
    };
    const all = known(outer("gold"), outer("bronze"));
    assert.deepEqual(at("root.0", known(outer("bronze"))), at("root.1", all));
    assert.equal(at("root.1", all).length, 11);
  });

  test("all queries deep inside count, in any order", () => {
    const first = (...asked: readonly [string, string][]) => {
      const queries = asked.map(([text, name]) => `{${query(text, name)}}`).join();
      const inner = nested(`components: [${queries}]`);
      return at("root.0.0", known(nested(`components: [{${variable("S")}}, {${inner}}]`)))[0];
    };
    const ab = first(["a", "P"], ["b", "Q"]);
    assert.equal(
      new Set([ab, first(["a", "P"], ["c", "Q"]), first(["c", "P"], ["b", "Q"])]).size,
      3,
    );
    assert.equal(ab, first(["b", "Q"], ["a", "P"]));
  });

  test("a composite of another kind with the same selectors is another circuit", () => {
    const sampler = `parameters: {selectors: [{control_point: x}]}`;
    const ramp = `parameters: {sampler: {selectors: [{control_point: x}]}, steps: [{duration: 1s}]}`;
    const beside = (member: string) =>
      at(
        "root.0.0",
        known(nested(`components: [{${variable("S")}}, {flow_control: {${member}}}]`)),
      );
    assert.deepEqual(beside(`sampler: {${sampler}}`), beside(`load_ramp: {${ramp}}`));
    const ports = `in_ports: {${CONSTANT_PORTS}}, ${SELECTORS}`;
    const limiting = known(`flow_control: {rate_limiter: {${ports}, parameters: {interval: 1s}}}`);
    const quota = known(
      `flow_control: {quota_scheduler: {${ports}, rate_limiter: {interval: 1s}}}`,
    );
    const shared = [...limiting.values()].filter((each) => [...quota.values()].includes(each));
    assert.deepEqual(shared, []);
  });

  test("composites of other selectors or objects, with the same ports or none, are swapped as they are", () => {
    const scaler = (name: string) =>
      `auto_scale: {auto_scaler: {scaling_backend: {kubernetes_replicas: {kubernetes_object_selector: {namespace: n, api_version: v, kind: k, name: ${name}}}}, scaling_parameters: {scale_out_alerter: {alert_name: o}, scale_in_alerter: {alert_name: i}}}}`;
    const ramp = (point: string) =>
      `flow_control: {load_ramp: {parameters: {sampler: {selectors: [{control_point: ${point}}]}, steps: [{duration: 1s}]}}}`;
    const scheduler = (point: string) =>
      `flow_control: {load_scheduler: {in_ports: {load_multiplier: ${constant(1)}}, parameters: {selectors: [{control_point: ${point}}]}}}`;
    const limiting = (point: string) => limiter(point, 1, "''", constant(1));
    for (const draw of [limiting, ramp, scheduler, scaler]) {
      const before = known(draw("x"), draw("y"));
      const swapped = known(draw("y"), draw("x"));
      assert.deepEqual(at("root.0", swapped), at("root.1", before));
      assert.deepEqual(at("root.1", swapped), at("root.0", before));
      assert.deepEqual(at("root.0", known(draw("y"))), at("root.1", before));
    }
  });

  test("signals at the ports count, in and out; numbers at them do not", () => {
    const limiting = (from: string, out: string) =>
      rateLimiter(
        `bucket_capacity: ${constant(1)}, fill_amount: ${signal(from)}`,
        `parameters: {interval: 1s}, out_ports: {accept_percentage: ${signal(out)}}`,
      );
    const inside = (from: string, out: string) =>
      nested(
        `in_ports_map: {p: ${signal(from)}}, out_ports_map: {q: ${signal(out)}}, components: [${ingress("p", "X")}, {${inverter("X", "Y")}}, {nested_signal_egress: {port_name: q, in_ports: {signal: ${signal("Y")}}}}]`,
      );
    const writers = [variable("A"), variable("B")];
    for (const draw of [limiting, inside]) {
      for (const [one, other] of [
        [draw("A", "P"), draw("B", "Q")],
        [draw("A", "P"), draw("A", "Q")],
      ] as const) {
        const before = known(...writers, one, other);
        assert.deepEqual(
          at("root.2", known(...writers, other, one)).toSorted(),
          at("root.3", before).toSorted(),
        );
        assert.deepEqual(at("root.2", known(...writers, other)), at("root.3", before));
      }
      const [first] = at("root.2", known(...writers, draw("A", "P")));
      assert.notEqual(at("root.2", known(...writers, draw("B", "P")))[0], first);
    }
    const told = (value: number) =>
      nested(
        `in_ports_map: {p: ${constant(value)}}, components: [${ingress("p", "X")}, {${inverter("X", "Y")}}]`,
      );
    assert.deepEqual(changed([told(1)], [told(2)]), []);
  });

  test("the policy's hash is not part of an identity", () => {
    const scheduler = `flow_control: {load_scheduler: {in_ports: {load_multiplier: ${constant(1)}}, parameters: {workload_latency_based_tokens: true, ${SELECTORS}}}}`;
    assert.deepEqual(
      changed(
        [nested(`components: [{${scheduler}}]`), variable("A", 1)],
        [nested(`components: [{${scheduler}}]`), variable("A", 2)],
      ),
      ["variable"],
    );
  });

  test("equal circuits keep their order: a number in one changes nothing in the other", () => {
    const twins = known(service("a"), service("a"));
    assert.deepEqual(at("root.0", known(service("a"))), at("root.0", twins));
    const apart = known(service("b"), service("a"), variable("Z"), service("a"));
    assert.deepEqual(at("root.1", apart), at("root.0", twins));
    assert.deepEqual(at("root.3", apart), at("root.1", twins));
    const first = known(service("a", { window: 9 }), service("a"));
    assert.deepEqual(at("root.1", first), at("root.1", twins));
    const grown = known(service("a", { more: `{${variable("NEW")}}, ` }), service("a"));
    assert.deepEqual(at("root.1", grown), at("root.1", twins));
  });

  test("a circuit continues with its own state, not with that of its neighbour", () => {
    const decided = new Map<string, number | undefined>();
    const outside = {
      ask() {},
      decide(decision: CircuitDecision) {
        if (decision.kind !== "rate_limiter") return;
        decided.set(decision.componentId, decision.fillAmount);
      },
      alert() {},
      ignoredOverride() {},
      fault: (id: string) => assert.fail(id),
    };
    const first = new Circuit(
      planOf(circuit(service("gold"), service("bronze"))),
      outside,
      undefined,
    );
    for (let tick = 1; tick <= 5; tick++) {
      first.tick(tick * 1_000);
      first.answer("root.0.0", { kind: "value", value: 1000 });
      first.answer("root.1.0", { kind: "value", value: 10 });
    }
    decided.clear();
    new Circuit(planOf(circuit(service("bronze"))), outside, undefined, first.memory()).tick(6_000);
    assert.deepEqual([...decided], [["root.0.2", 10]]);
  });
});

/** Wires of a circuit of `leaves` leaves. */
const graphs = fc.integer({ min: 1, max: 9 }).chain((leaves) =>
  fc.record({
    leaves: fc.constant(leaves),
    edges: fc.array(fc.record({ from: fc.nat(leaves - 1), to: fc.nat(leaves - 1) }), {
      maxLength: 22,
    }),
  }),
);

/** The leaves reachable from each leaf; a leaf reaches itself only through a cycle. */
function reaches(leaves: number, edges: readonly Edge[]): readonly ReadonlySet<number>[] {
  return Array.from({ length: leaves }, (_, start) => {
    const seen = new Set<number>();
    const open = [start];
    for (const at of open) {
      for (const { from, to } of edges) {
        if (from !== at || seen.has(to)) continue;
        seen.add(to);
        open.push(to);
      }
    }
    return seen;
  });
}

/** The rule in its simplest form: loop all wires into the lowest leaf of a strongly connected component, and repeat. */
function naive(leaves: number, edges: readonly Edge[]): readonly boolean[] {
  const looped = edges.map(() => false);
  for (;;) {
    const kept = edges.filter((_, at) => !looped[at]);
    const reached = reaches(leaves, kept);
    const lowest = reached.findIndex((seen, at) => seen.has(at));
    if (lowest === -1) return looped;
    for (const [at, { from, to }] of edges.entries()) {
      if (to === lowest && reached[lowest]?.has(from)) looped[at] = true;
    }
  }
}

describe("loops and order", () => {
  test("loops are broken by the rule", () => {
    fc.assert(
      fc.property(graphs, ({ leaves, edges }) => {
        assert.deepEqual(loopedEdges(leaves, edges), naive(leaves, edges));
      }),
      { numRuns: 2_000 },
    );
  });

  test("leaves run in the order of repeated scans", () => {
    fc.assert(
      fc.property(graphs, ({ leaves, edges }) => {
        const looped = loopedEdges(leaves, edges);
        const kept = edges.filter((_, at) => !looped[at]);
        const scanned: number[] = [];
        while (scanned.length < leaves) {
          for (let at = 0; at < leaves; at++) {
            const ready = kept.every(({ from, to }) => to !== at || scanned.includes(from));
            if (ready && !scanned.includes(at)) scanned.push(at);
          }
        }
        assert.deepEqual(orderOf(leaves, kept), scanned);
      }),
      { numRuns: 1_000 },
    );
  });

  test("there is no order while a cycle is left", () => {
    assert.throws(
      () =>
        orderOf(2, [
          { from: 0, to: 1 },
          { from: 1, to: 0 },
        ]),
      /cycle that is not looped/,
    );
  });

  test("long chains, nested cycles and one large cycle need no deep stack and no quadratic time", () => {
    const leaves = 20_000;
    const up = Array.from({ length: leaves - 1 }, (_, at) => ({ from: at, to: at + 1 }));
    const down = up.map(({ from, to }) => ({ from: to, to: from }));
    const count = (edges: readonly Edge[]) => {
      const looped = loopedEdges(leaves, edges);
      orderOf(
        leaves,
        edges.filter((_, at) => !looped[at]),
      );
      return looped.filter(Boolean).length;
    };
    const before = process.cpuUsage();
    assert.equal(count(up), 0);
    assert.equal(count(down), 0);
    assert.equal(count([...up, ...down]), leaves - 1);
    assert.equal(count([...up, { from: leaves - 1, to: 0 }]), 1);
    const { user } = process.cpuUsage(before);
    // Quadratic time would be tens of seconds.
    assert.ok(user < 5_000_000, `${user / 1_000} ms`);
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
      policies.map(({ of }) => of.name),
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

test("a loop in a nested circuit continues when a component is inserted before the circuit", () => {
  const counter = `nested_circuit: {components: [
    {first_valid: {in_ports: {inputs: [{signal_name: SUM}, {constant_signal: {value: 0}}]}, out_ports: {output: {signal_name: SAFE}}}},
    {arithmetic_combinator: {operator: add, in_ports: {lhs: {signal_name: SAFE}, rhs: {constant_signal: {value: 1}}}, out_ports: {output: {signal_name: SUM}}}}]}`;
  const planOf = (text: string) =>
    compiled(`circuit: {components: [${text}]}`).circuit ?? assert.fail();
  const outside = {
    ask() {},
    decide() {},
    alert() {},
    ignoredOverride() {},
    fault: (id: string) => assert.fail(id),
  };
  const first = new Circuit(planOf(`{${counter}}`), outside, undefined);
  for (let tick = 1; tick <= 5; tick++) first.tick(tick * 1_000);
  const plan = planOf(`{variable: {constant_output: {value: 1}}}, {${counter}}`);
  const second = new Circuit(plan, outside, undefined, first.memory());
  second.tick(6_000);
  const sum = plan.signals.findIndex(({ name }) => name === "SUM");
  assert.equal(second.reading(sum), 6);
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
    ).findings.map(({ of }) => of.got);
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
    {flow_control: {concurrency_limiter: {in_ports: {max_concurrency: {constant_signal: {value: 999999999999}}}, parameters: {max_inflight_duration: 1s}, selectors: [{control_point: c}]}}}]}`;
  const { warnings, findings } = compileSet([{ source: "p", defaultName: "p", text }], {
    digest,
    queries: "prometheus",
  });
  assert.deepEqual(findings, []);
  assert.deepEqual(
    warnings.map(({ of }) => `${of.path}: ${of.text}`),
    [
      "circuit.components[2].nested_circuit.components[1]: max_concurrency is never a valid number, so all flows pass",
      "circuit.components[3]: bucket_capacity is -3, which counts as 0",
      "circuit.components[4]: accept_percentage is 500, which counts as 100",
      "circuit.components[5]: accept_percentage is never a valid number, so no flow passes",
      "circuit.components[6]: bucket_capacity is Infinity, which no traffic reaches: it limits nothing",
      "circuit.components[6]: fill_amount is 1e+300, which no traffic reaches: it limits nothing",
      "circuit.components[7]: max_concurrency is 1000000000000, which no traffic reaches: it limits nothing",
    ],
  );
});
