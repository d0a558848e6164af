// The identity of components, by which they keep their state across versions of a policy.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Circuit } from "#circuit/circuit.ts";
import type { CircuitDecision } from "#circuit/decision.ts";
import { CONSTANT_PORTS, circuit, rateLimiter, SELECTORS } from "../kit.ts";
import {
  alerter,
  constant,
  ingress,
  inverter,
  nested,
  planOf,
  query,
  signal,
  to,
  variable,
} from "./setup.ts";

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
