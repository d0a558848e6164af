// Policies in virtual time: the real circuit, limiters and query evaluator in one loop;
// scripted and recorded answers; expectations that fail when they should; the scenarios that ship.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join, parse } from "node:path";
import { describe, it } from "node:test";
import { holds } from "#simulate/report.ts";
import { concurrencyPolicy } from "../kit/messages/policy.ts";
import { clashesOf, run, scenarioOf } from "./scenarios.ts";

const SCENARIOS = join(import.meta.dirname, "../../deploy/scenarios");

function shipped(policy: string, scenario: string, edit = (text: string) => text) {
  const file = join(SCENARIOS, "policies", `${policy}.yaml`);
  const text = edit(readFileSync(join(SCENARIOS, `${scenario}.yaml`), "utf8"));
  return run(text, { policies: { [parse(file).name]: readFileSync(file, "utf8") } });
}

/** A rate limiter whose numbers come from a query. */
const STEERED = `circuit:
  evaluation_interval: 1s
  components:
    - query:
        promql:
          query_string: sum(  wanted_rate{job="x"} )
          evaluation_interval: 1s
          out_ports: { output: { signal_name: RATE } }
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: p }]
          in_ports:
            bucket_capacity: { signal_name: RATE }
            fill_amount: { signal_name: RATE }
          parameters: { interval: 1s }
`;

const SERVICE =
  "services:\n  - { name: s, control_point: p, arrivals: uniform, rate: 50, servers: 10, service_time: { constant: 1ms } }\n";

describe("a policy in virtual time", () => {
  it("decides by scripted answers, and our own limiters cut the load to that", async () => {
    const { rows, seriesOf: line } = await run(
      `duration: 40s\nphases: [{ name: a, until: 20s }, { name: b, until: 40s }]\n${SERVICE}series:\n  - query: sum(wanted_rate{job="x"})\n    follows: { steps: [{ at: 0s, value: 10 }, { at: 20s, value: 30 }] }\n`,
      { policies: { steered: STEERED } },
    );
    const [a, b] = rows;
    assert.ok(Math.abs((a?.accepted ?? 0) - 10) < 6, `first second open: ${a?.accepted}`);
    assert.ok(Math.abs((b?.accepted ?? 0) - 30) < 1.5, `${b?.accepted}`);
    assert.equal(b?.refusals["rate_limited"], (b?.refused ?? 0) * 20);
    const { values = [] } = line("RATE") ?? {};
    // An answer is seen from the tick after the one that asked.
    assert.deepEqual([values[0], values[1], values[20], values[21]].map(String), [
      "NaN",
      "10",
      "10",
      "30",
    ]);
    assert.deepEqual(line("root/RATE")?.values, values);
    assert.deepEqual(line("steered/RATE")?.values, values);
  });

  it("decides by recordings, by component", async () => {
    const scenario = `duration: 10s\n${SERVICE}series:\n  - component: root.0\n    recording: { file: rate.csv }\n`;
    const { seriesOf: line } = await run(scenario, {
      policies: { steered: STEERED },
      files: { "rate.csv": "time,value\n100,5\n105,7\n" },
    });
    const { values = [] } = line("RATE") ?? {};
    assert.deepEqual([values[1], values[5], values[6], values[9]], [5, 5, 7, 7]);
  });

  it("decides by the metrics of its own agent, through the local evaluator", async () => {
    const policy = STEERED.replace(
      'sum(  wanted_rate{job="x"} )',
      'sum(increase(flowcontrol_requests_total{control_point="p"}[10s])) / 10',
    );
    const { seriesOf: line, notes } = await run(`duration: 60s\n${SERVICE}`, {
      policies: { own: policy },
    });
    const { values = [] } = line("RATE") ?? {};
    const last = values.at(-1) ?? 0;
    assert.ok(Math.abs(last - 50) < 2, `${last}`);
    assert.deepEqual(
      notes.map(({ text }) => text),
      ["own: query of root.0: wanted one number, got a vector of 0"],
    );
  });

  it("decides by what the model shows", async () => {
    const policy = STEERED.replace('sum(  wanted_rate{job="x"} )', 'model_offered{service="s"}');
    const { seriesOf: line } = await run(`duration: 30s\n${SERVICE}`, {
      policies: { own: policy },
    });
    assert.equal(line("RATE")?.values.at(-1), 50);
  });

  it("gives concurrency slots back when requests end", async () => {
    const policy = concurrencyPolicy(3);
    const service = SERVICE.replace("rate: 50", "rate: 100").replace("1ms", "100ms");
    const { rows, seriesOf: line } = await run(`duration: 60s\n${service}`, {
      policies: { slots: policy },
    });
    // Three at a time, a tenth of a second each.
    assert.ok(Math.abs((rows[0]?.accepted ?? 0) - 30) < 3, `${rows[0]?.accepted}`);
    assert.ok((line("s.in_service")?.values ?? []).slice(2).every((busy) => busy <= 3));
  });

  it("takes changes of dynamic configuration at their time", async () => {
    const policy = `circuit:
  evaluation_interval: 1s
  components:
    - variable: { constant_output: { value: 1 }, config_key: level, out_ports: { output: { signal_name: LEVEL } } }
`;
    const { seriesOf: line } = await run(
      "duration: 10s\ndynamic_config: [{ at: 4s, values: { level: { value: 9 } } }, { at: 7s, values: {} }]",
      { policies: { level: policy } },
    );
    assert.deepEqual(line("LEVEL")?.values, [1, 1, 1, 1, 9, 9, 9, 1, 1, 1]);
  });

  it("notes which change of configuration was ignored, with its time", async () => {
    const policy = `circuit:
  evaluation_interval: 1s
  components:
    - variable: { constant_output: { value: 1 }, config_key: level, out_ports: { output: { signal_name: LEVEL } } }
`;
    const { notes } = await run(
      "duration: 20s\ndynamic_config: [{ at: 10s, values: { level: 9 } }]",
      { policies: { level: policy } },
    );
    assert.deepEqual(
      notes.map(({ text, first }) => [/level/.test(text), first]),
      [[true, 10_000]],
    );
  });

  it("runs several policies together, and tells their signals apart", async () => {
    const policy = (value: number) =>
      `circuit:\n  evaluation_interval: 1s\n  components:\n    - variable: { constant_output: { value: ${value} }, out_ports: { output: { signal_name: X } } }\n`;
    const policies = { one: policy(1), two: policy(2) };
    const { seriesOf: line } = await run("duration: 3s", { policies });
    assert.deepEqual(line("one/X")?.values, [1, 1, 1]);
    assert.deepEqual(line("two/X")?.values, [2, 2, 2]);
    const expect = "duration: 3s\nexpect: [{ range: { signal: X, at_least: 1 } }]";
    assert.match(
      (await clashesOf(expect, { policies }))[0] ?? "",
      /one signal: one\/root\/X or two/,
    );
  });

  it("counts an alert once until it resolves", async () => {
    const policy = `circuit:
  evaluation_interval: 1s
  components:
    - query: { promql: { query_string: ill, evaluation_interval: 1s, out_ports: { output: { signal_name: ILL } } } }
    - alerter:
        in_ports: { signal: { signal_name: ILL } }
        parameters: { alert_name: ill, severity: warn, resolve_timeout: 5s }
`;
    const text = `duration: 60s\nseries:\n  - query: ill\n    follows: { steps: [{ at: 0s, value: 0 }, { at: 9s, value: 1 }, { at: 19s, value: 0 }, { at: 39s, value: 1 }, { at: 40s, value: 0 }] }\nexpect: [{ alerts: { name: ill, at_most: 2 } }, { from: 30s, alerts: { at_most: 0 } }]`;
    const { alerts, outcomes } = await run(text, { policies: { ill: policy } });
    assert.deepEqual(alerts, [
      { name: "ill", severity: "warn", from: 10_000, until: 19_000 },
      { name: "ill", severity: "warn", from: 40_000, until: 40_000 },
    ]);
    assert.deepEqual(
      outcomes.map((outcome) => [outcome.holds, outcome.measured]),
      [
        [true, "2"],
        [false, "1"],
      ],
    );
  });

  it("notes when no rule applies at the control point of a service", async () => {
    const { notes } = await run(
      `duration: 2s\n${SERVICE.replace("control_point: p", "control_point: q")}series: [{ component: root.0, follows: 1 }]`,
      {
        policies: { steered: STEERED },
      },
    );
    assert.match(notes[0]?.text ?? "", /no rule of the policies applies at control point q/);
  });
});

describe("expectations", () => {
  const scripted = (expectation: string) =>
    run(
      `duration: 20s\nseries:\n  - component: root.0\n    follows: { steps: [{ at: 0s, value: 10 }, { at: 5s, value: 30 }, { at: 10s, value: invalid }, { at: 15s, value: 20 }] }\nexpect:\n  - ${expectation}\n${SERVICE}`,
      { policies: { steered: STEERED } },
    );

  // RATE: invalid at 0, 10 until 5, 30 until 10, invalid until 15, then 20.
  for (const [expectation, kept, measured] of [
    ["range: { signal: RATE, at_least: 10, at_most: 30 }", true, "10 to 30"],
    ["range: { signal: RATE, at_least: 11 }", false, "10 to 30"],
    ["{ from: 6s, range: { signal: RATE, above: 19 } }", true, "20 to 30"],
    ["{ from: 6s, until: 11s, range: { signal: RATE, below: 30 } }", false, "30"],
    ["{ from: 11s, until: 15s, range: { signal: RATE, below: 99 } }", false, "no valid reading"],
    ["spread: { signal: RATE, at_most: 20 }", true, "20"],
    ["spread: { signal: RATE, below: 20 }", false, "20"],
    ["reversals: { signal: RATE, amplitude: 9, at_most: 1 }", true, "1"],
    ["reversals: { signal: RATE, amplitude: 9, at_most: 0 }", false, "1"],
    ["valid_share: { signal: RATE, at_least: 0.7 }", true, "0.7"],
    ["valid_share: { signal: RATE, above: 0.7 }", false, "0.7"],
    ["offered: { at_least: 49, at_most: 50 }", true, "50"],
    ["{ from: 17s, until: 20s, goodput: { below: 20 } }", false, "20"],
    ["{ from: 17s, until: 20s, accept_share: { at_least: 0.4 } }", true, "0.4"],
    ["{ from: 17s, until: 20s, refused_share: { reason: rate_limited, above: 0.5 } }", true, "0.6"],
    ["{ from: 17s, until: 20s, refused_share: { reason: no_tokens, above: 0.5 } }", false, "0"],
    ["latency: { percentile: 99, at_most: 1ms }", true, "1 ms"],
    ["latency: { below: 1ms }", false, "1 ms"],
    ["failed_share: { at_most: 0 }", true, "0"],
  ] as const) {
    it(`${expectation} ${kept ? "holds" : "fails"}`, async () => {
      const { outcomes } = await scripted(expectation);
      const [outcome] = outcomes;
      assert.deepEqual([outcome?.holds, outcome?.measured], [kept, measured]);
    });
  }

  it("have the name given by the author, or a description", async () => {
    const { outcomes } = await run(
      `duration: 2s\n${SERVICE}expect:\n  - { name: quick, latency: { service: s, below: 5ms } }\n  - accept_share: { at_least: 1 }\n`,
    );
    assert.deepEqual(
      outcomes.map(({ name, wanted }) => [name, wanted]),
      [
        ["quick", "latency p95 of s below 5 ms"],
        ["share accepted at least 1", "share accepted at least 1"],
      ],
    );
  });
});

describe("a scenario checked against its policies", () => {
  const tried = { policies: { steered: STEERED } };
  const bad = (name: string, text: string, wanted: RegExp) => {
    it(`is refused for ${name}`, async () => {
      const faults = await clashesOf(`duration: 10s\n${text}`, tried);
      assert.equal(faults.length, 1, faults.join("\n"));
      assert.match(faults[0] ?? "", wanted);
    });
  };
  const ANSWER = "series: [{ component: root.0, follows: 1 }]\n";

  bad(
    "a signal that nothing has",
    `${ANSWER}expect: [{ range: { signal: RAET, at_least: 1 } }]`,
    /3:10: expect\[0\]: wanted a signal or model series; did you mean RATE\?, got "RAET"/,
  );
  bad(
    "a panel of what nothing has",
    `${ANSWER}plot: [{ series: [RATE, ALT] }]`,
    /plot\[0\].series\[1\]: wanted a signal or model series/,
  );
  bad(
    "an unknown phase",
    `${ANSWER}expect: [{ phase: x, alerts: { at_most: 0 } }]`,
    /a phase: all/,
  );
  bad(
    "a window after the end",
    `${ANSWER}expect: [{ until: 11s, alerts: { at_most: 0 } }]`,
    /until within the duration/,
  );
  bad(
    "an unknown service",
    `${ANSWER}${SERVICE}expect: [{ goodput: { service: z, above: 1 } }]`,
    /a service/,
  );
  bad(
    "labels that no request carries",
    `${ANSWER}${SERVICE}expect: [{ goodput: { labels: { tier: gold }, above: 1 } }]`,
    /labels of a request class, got tier=gold/,
  );
  bad(
    "a query that no policy asks",
    `series: [{ component: root.0, follows: 1 }, { query: up, follows: 1 }]`,
    /series\[1\]: wanted one out of "sum\( {2}wanted_rate.*, got "up"/,
  );
  bad(
    "a component that asks nothing",
    `series: [{ component: root.1, follows: 1 }]`,
    /out of root.0/,
  );
  bad(
    "two answers to one query",
    `series: [{ component: root.0, follows: 1 }, { query: 'sum(wanted_rate{job="x"})', follows: 1 }]`,
    /one series for each query, got another for steered root.0/,
  );
  bad(
    "a recording that cannot be read",
    `series: [{ component: root.0, recording: { file: gone.csv } }]`,
    /series\[0\].recording: wanted gone.csv: the file's text, got nothing/,
  );
  bad(
    "an unknown policy",
    `${ANSWER}dynamic_config: [{ at: 0s, policy: stered, values: {} }]`,
    /mean steered/,
  );
  bad(
    "a change after the end",
    `${ANSWER}dynamic_config: [{ at: 10s, values: {} }]`,
    /at before the end/,
  );

  const KNOBS = `circuit:
  evaluation_interval: 1s
  components:
    - variable: { constant_output: { value: 1 }, config_key: cap, out_ports: { output: { signal_name: CAP } } }
    - variable: { constant_output: { value: 1 }, config_key: ramp.floor, out_ports: { output: { signal_name: FLOOR } } }
`;
  const changed = (values: string, more = {}) =>
    clashesOf(`duration: 10s\ndynamic_config: [{ at: 1s, values: ${values} }]`, {
      policies: { knobs: KNOBS, ...more },
    });

  it("is refused for dynamic configuration that no component reads", async () => {
    assert.deepEqual(await changed("{ cap: { value: 2 }, capp: { value: 2 } }"), [
      '2:57: dynamic_config[0].values.capp: wanted a key that a component reads; did you mean cap?, got "capp"',
    ]);
    assert.match((await changed("{ zzzzzz: 1 }"))[0] ?? "", /reads: cap, ramp.floor, got "zzzzzz"/);
    assert.match((await changed("{ ramp: { flor: 1 } }"))[0] ?? "", /mean ramp.floor\?/);
    assert.deepEqual(await changed("{ ramp.floor: { value: 1 } }"), []);
    assert.deepEqual(await changed("{ ramp: { floor: { value: 1 } }, cap: { value: 1 } }"), []);
    const other = KNOBS.replace("cap", "capp").replace("CAP", "OTHER");
    assert.deepEqual(await changed("{ cap: { value: 1 }, capp: { value: 1 } }", { other }), []);
  });

  it("is refused before it runs when it has too many ticks", async () => {
    const fast = STEERED.replace("evaluation_interval: 1s", "evaluation_interval: 0.001s");
    const policies = { fast, slow: STEERED.replace("x", "y") };
    assert.deepEqual(
      await clashesOf("duration: 24h\nseries: [{ component: root.0, follows: 1 }]", { policies }),
      [
        "1:1: duration: wanted at most 20000000 ticks × components and signals of all policies: a shorter duration, or a longer evaluation_interval, got 1037836800: fast has 86400000 ticks × 12",
      ],
    );
  });

  it("is refused for a signal when there is no policy that could have one", async () => {
    const [fault = ""] = await clashesOf(
      "duration: 1s\nexpect: [{ range: { signal: RATE, at_least: 1 } }]",
      {},
    );
    assert.match(fault, /or a policy that has such a signal: this run has none, got "RATE"/);
  });

  it("is refused for a query that only a metrics server could answer, unless it is scripted", async () => {
    const policy = STEERED.replace('sum(  wanted_rate{job="x"} )', "predict_linear(x[5m], 60)");
    const faults = await clashesOf("duration: 10s", { policies: { far: policy } });
    assert.equal(faults.length, 1);
    assert.match(
      faults[0] ?? "",
      /a series for the query of far root.0.*predict_linear is not supported/,
    );
    assert.deepEqual(
      await clashesOf(`duration: 10s\n${ANSWER}`, { policies: { far: policy } }),
      [],
    );
  });
});

describe("the scenarios that ship", () => {
  it("overload: the adaptive rate keeps the service fast, and gold customers whole", async () => {
    const simulation = await shipped("adaptive-rate", "overload");
    assert.deepEqual(
      simulation.outcomes.filter((outcome) => !outcome.holds),
      [],
    );
    assert.deepEqual(simulation.alerts, []);
  });

  it("overload: without a policy the service is slow", async () => {
    const text = readFileSync(join(SCENARIOS, "overload.yaml"), "utf8");
    const { outcomes, rows } = await run(text);
    const failed = outcomes.filter((outcome) => !outcome.holds).map(({ name }) => name);
    assert.ok(failed.includes("fast under overload"));
    assert.ok(failed.includes("work gets done under overload"));
    assert.ok((rows.find(({ phase }) => phase === "overload")?.goodput ?? 99) < 10);
  });

  it("oscillation: a gain that is too high fails for that reason only; a good one passes", async () => {
    const hasty = await shipped("hasty-rate", "oscillation");
    assert.equal(holds(hasty), false);
    const failed = hasty.outcomes.filter((outcome) => !outcome.holds);
    assert.deepEqual(
      failed.map(({ name }) => name),
      ["the rate comes to rest"],
    );
    assert.ok((failed[0]?.greatest ?? 0) > 10, `${failed[0]?.measured}`);
    const good = await shipped("adaptive-rate", "oscillation");
    assert.equal(holds(good), true);
  });

  it("rollback: the ramp climbs, is rolled back with an alert, and reaches its end the second time", async () => {
    const simulation = await shipped("careful-ramp", "rollback");
    assert.deepEqual(
      simulation.outcomes.filter((outcome) => !outcome.holds),
      [],
    );
    const { values = [] } = simulation.seriesOf("ACCEPT") ?? {};
    assert.ok(Math.max(...values.slice(0, 160)) > 40, "it had climbed");
    assert.equal(simulation.alerts.length, 1);
  });

  for (const name of ["priorities", "quota", "adaptive-concurrency"]) {
    it(`${name}: the service is busy, the important requests get through, and nothing oscillates`, async () => {
      const { outcomes } = await shipped(name, name);
      assert.deepEqual(
        outcomes.filter((outcome) => !outcome.holds),
        [],
      );
    });
  }

  it("priorities: the share comes to rest whenever the overload begins between two decisions", async () => {
    for (const at of [36, 38, 41]) {
      const edit = (text: string) => text.replaceAll("35s", `${at}s`);
      const { outcomes } = await shipped("priorities", "priorities", edit);
      assert.deepEqual(
        outcomes.filter((outcome) => !outcome.holds),
        [],
      );
    }
  });

  it("learn of ends as often as Envoy's access log reports them", () => {
    const envoy = readFileSync(join(SCENARIOS, "../envoy/access-log-grpc.yaml"), "utf8");
    assert.match(envoy, /buffer_size_bytes: 0$/m);
    for (const name of ["priorities", "quota", "adaptive-concurrency"]) {
      const { services } = scenarioOf(readFileSync(join(SCENARIOS, `${name}.yaml`), "utf8"));
      assert.deepEqual(
        services.map(({ reportEvery }) => reportEvery),
        [0],
      );
    }
  });

  it("priorities: without a policy the important requests are lost with the others", async () => {
    const text = readFileSync(join(SCENARIOS, "priorities.yaml"), "utf8");
    // Without a policy there is no signal to expect anything of.
    const [facts = ""] = text.split("  - name: the share");
    const { outcomes } = await run(facts);
    const failed = outcomes.filter((outcome) => !outcome.holds).map(({ name }) => name);
    assert.deepEqual(failed, ["nothing that was let in is lost", "nobody waits for long"]);
  });

  it("hold for other seeds too", async () => {
    const edit = (text: string) => text.replace("seed: 1", "seed: 2");
    for (const [policy, scenario] of [
      ["adaptive-rate", "overload"],
      ["priorities", "priorities"],
      ["quota", "quota"],
      ["adaptive-concurrency", "adaptive-concurrency"],
    ] as const) {
      const good = await shipped(policy, scenario, edit);
      assert.deepEqual(
        good.outcomes.filter((outcome) => !outcome.holds),
        [],
      );
    }
  });

  it("give identical results for the same seed", async () => {
    const facts = async () => {
      const { rows, outcomes, seriesOf: line } = await shipped("adaptive-rate", "oscillation");
      return { rows, outcomes, rate: line("RATE")?.values };
    };
    assert.deepEqual(await facts(), await facts());
  });
});
