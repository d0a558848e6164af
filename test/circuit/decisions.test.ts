// Components that emit decisions, alerts and queries, or receive reports.

import assert from "node:assert/strict";
import { test } from "node:test";
import { INVALID, one } from "./one.ts";

const ABOUT = { component_id: "root.7", agent_groups: ["a", "b"] } as const;
const SENT = { componentId: "root.7", agentGroups: ["a", "b"] } as const;

for (const kind of ["rate_limiter", "quota_scheduler"] as const) {
  test(`${kind}: the first numbers always, then when they change`, () => {
    const limiter = one(kind, ABOUT);
    const bucket = (bucketCapacity: number, fillAmount: number, passThrough = false) => ({
      ...SENT,
      kind,
      bucketCapacity,
      fillAmount,
      passThrough,
    });
    const open = { ...bucket(0, 0, true), failure: "open" };
    const zero = { bucket_capacity: 0, fill_amount: 0 };
    limiter.tick({ ...zero, pass_through: 0 });
    limiter.tick({ ...zero, pass_through: INVALID });
    limiter.tick({ bucket_capacity: -0, fill_amount: 0 });
    limiter.tick({ bucket_capacity: 5, fill_amount: 2 });
    limiter.tick({ bucket_capacity: 5, fill_amount: 2, pass_through: 3 });
    limiter.tick({ bucket_capacity: 5 });
    limiter.tick({ fill_amount: 5, pass_through: 0 });
    limiter.tick({ bucket_capacity: 5, fill_amount: 2 });
    assert.deepEqual(limiter.decisions, [
      bucket(0, 0),
      bucket(5, 2),
      bucket(5, 2, true),
      open,
      bucket(5, 2),
    ]);
  });
}

for (const kind of ["concurrency_limiter", "concurrency_scheduler"] as const) {
  test(`${kind}: the first number always, then when it changes`, () => {
    const limiter = one(kind, ABOUT);
    for (const max_concurrency of [0, 0, 7, INVALID, INVALID, 0]) limiter.tick({ max_concurrency });
    limiter.tick({ max_concurrency: 0, pass_through: 1 });
    const sent = [
      [0, false],
      [7, false],
      [0, true],
      [0, false],
      [0, true],
    ].map(([maxConcurrency, passThrough]) => ({ ...SENT, kind, maxConcurrency, passThrough }));
    const failing = sent.map((each, at) => (at === 2 ? { ...each, failure: "open" } : each));
    assert.deepEqual(limiter.decisions, failing);
  });
}

const INVALID_BY_MODE = {
  open: [[0, true, "open"]],
  closed: [[0, false, "closed"]],
  local: [[0, true, "open"]],
  last_known: [[7, false, "last_known"]],
} as const;

for (const mode of ["open", "closed", "local", "last_known"] as const) {
  test(`on_failure ${mode}: what limiters decide while a signal is invalid`, () => {
    const [wanted] = INVALID_BY_MODE[mode];
    const [before] = mode === "last_known" ? INVALID_BY_MODE.local : INVALID_BY_MODE[mode];
    const limiter = one("concurrency_limiter", { ...ABOUT, on_failure: mode });
    for (const max_concurrency of [INVALID, 7, INVALID, INVALID, 7]) {
      limiter.tick({ max_concurrency });
    }
    limiter.tick({ max_concurrency: INVALID, pass_through: 1 });
    const sent = limiter.decisions.map((each) => {
      assert.ok(each.kind === "concurrency_limiter");
      return [each.maxConcurrency, each.passThrough, each.failure];
    });
    const valid = [7, false, undefined];
    assert.deepEqual(sent, [before, valid, wanted, valid, [0, true, undefined]]);

    const bucket = one("rate_limiter", { ...ABOUT, on_failure: mode });
    for (const fill_amount of [INVALID, 3, INVALID, 3]) {
      bucket.tick({ bucket_capacity: 7, fill_amount });
    }
    bucket.tick({ bucket_capacity: 7, fill_amount: INVALID, pass_through: 1 });
    const numbers = bucket.decisions.map((each) => {
      assert.ok(each.kind === "rate_limiter");
      return [each.bucketCapacity, each.fillAmount, each.passThrough, each.failure];
    });
    const filled = (of: readonly (number | boolean | string)[]) => [
      of[0],
      mode === "last_known" && of[0] === 7 ? 3 : 0,
      ...of.slice(1),
    ];
    const known = [7, 3, false, undefined];
    assert.deepEqual(numbers, [
      filled(before),
      known,
      filled(wanted),
      known,
      [0, 0, true, undefined],
    ]);
  });
}

test("on_failure of samplers: it comes before what ramp mode does", () => {
  const labels = { pass_through_label_values: [], pass_through_label_values_config_key: "" };
  for (const [ramp_mode, on_failure, wanted] of [
    [false, "closed", [0, "closed"]],
    [false, "local", [100, "open"]],
    [false, "last_known", [30, "last_known"]],
    [true, "open", [100, "open"]],
    [true, "local", [0, "closed"]],
    [true, "last_known", [30, "last_known"]],
  ] as const) {
    const sampler = one("sampler", { ...ABOUT, ...labels, ramp_mode, on_failure });
    for (const accept_percentage of [30, INVALID, INVALID]) sampler.tick({ accept_percentage });
    const sent = sampler.decisions.map((each) => {
      assert.ok(each.kind === "sampler");
      return [each.acceptPercentage, each.failure];
    });
    assert.deepEqual(sent, [[30, undefined], wanted], `${on_failure}, ramp mode ${ramp_mode}`);
  }
});

test("a sampler without in-ports decides about label values that always pass, and about nothing else", () => {
  for (const [ramp_mode, wanted] of [
    [true, 0],
    [false, 100],
  ] as const) {
    const config = { ...ABOUT, ramp_mode, pass_through_label_values_config_key: "pass" };
    const plain = one("sampler", { ...config, pass_through_label_values: [] }, { portless: true });
    plain.tick();
    assert.deepEqual(plain.decisions, []);
    plain.configure({ pass: ["vip"] });
    plain.tick();
    plain.tick();
    plain.configure({});
    plain.tick();
    const listed = one(
      "sampler",
      { ...config, pass_through_label_values: ["x"] },
      { portless: true },
    );
    for (let tick = 0; tick < 3; tick++) listed.tick();
    const sent = [...plain.decisions, ...listed.decisions].map((each) =>
      each.kind === "sampler" ? [each.acceptPercentage, ...each.passThroughLabelValues] : [],
    );
    assert.deepEqual(sent, [[wanted, "vip"], [wanted], [wanted, "x"]]);
  }
});

test("sampler: decides on change; an invalid input accepts all, or none in ramp mode", () => {
  for (const [ramp_mode, fallback] of [
    [true, 0],
    [false, 100],
  ] as const) {
    const sampler = one("sampler", {
      ...ABOUT,
      ramp_mode,
      pass_through_label_values: ["x"],
      pass_through_label_values_config_key: "pass",
    });
    const column = [INVALID, INVALID, 30, 30, 140, -3];
    for (const accept_percentage of column) sampler.tick({ accept_percentage });
    sampler.configure({ pass: ["x"] });
    sampler.tick({ accept_percentage: -3 });
    sampler.configure({ pass: [] });
    sampler.tick({ accept_percentage: -3 });
    sampler.configure({ pass: "y" });
    sampler.tick({ accept_percentage: -3 });
    const sent = sampler.decisions.map((each) =>
      each.kind === "sampler" ? [each.acceptPercentage, ...each.passThroughLabelValues] : [],
    );
    assert.deepEqual(sent, [[fallback, "x"], [30, "x"], [140, "x"], [-3, "x"], [-3], [-3, "x"]]);
  }
});

test("pod scaler: whole numbers of at least 0, withdrawn while invalid", () => {
  const scaler = one("pod_scale_actuator", ABOUT);
  const column = [INVALID, INVALID, 3, 3.9, -2, 0, 1e12, Infinity, INVALID];
  for (const replicas of column) scaler.tick({ replicas });
  const sent = scaler.decisions.map((each) => each.kind === "pod_scaler" && each.desiredReplicas);
  assert.deepEqual(sent, [undefined, 3, 0, 2_147_483_647, undefined]);
});

test("pod scaler: a report is valid until the next one", () => {
  const reporter = one("pod_scale_reporter", ABOUT);
  assert.equal(reporter.tick({}, "actual_replicas"), INVALID);
  reporter.report({ actual: 2, configured: 3 });
  assert.equal(reporter.tick({}, "actual_replicas"), 2);
  assert.equal(reporter.tick({}, "configured_replicas"), 3);
  reporter.report(undefined);
  assert.equal(reporter.tick({}, "configured_replicas"), INVALID);
});

test("load scheduler: decides every ten seconds whatever the interval, valid for five periods", () => {
  for (const [intervalMs, turns] of [
    [1_000, [11, 21, 31]],
    [500, [21]],
    [4_000, [4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 34]],
    [30_000, Array.from({ length: 34 }, (_, at) => at + 2)],
  ] as const) {
    const actuator = one("load_actuator", { ...ABOUT, tokens_query: "" }, { intervalMs });
    for (let tick = 1; tick <= 35; tick++) actuator.tick({ load_multiplier: tick - 12 });
    const sent = actuator.decisions.flatMap((each) => (each.kind === "load_scheduler" ? each : []));
    assert.deepEqual(
      sent.map(({ tick }) => tick.number),
      turns,
    );
    for (const { tick, validUntil, loadMultiplier, passThrough } of sent) {
      assert.equal(validUntil - tick.timestamp, 5 * Math.ceil(10_000 / intervalMs) * intervalMs);
      assert.equal(loadMultiplier, Math.max(0, tick.number - 12));
      assert.equal(passThrough, false);
    }
    assert.deepEqual(actuator.asks, []);
  }
});

test("load scheduler: lets everything through without a valid multiplier", () => {
  const actuator = one("load_actuator", { ...ABOUT, tokens_query: "" }, { intervalMs: 10_000 });
  actuator.tick();
  actuator.tick();
  const [sent] = actuator.decisions;
  assert.ok(sent?.kind === "load_scheduler");
  assert.deepEqual([sent.loadMultiplier, sent.passThrough], [0, true]);
  assert.deepEqual([sent.componentId, sent.agentGroups], ["root.7", ["a", "b"]]);
});

test("load scheduler: asks for tokens every five ticks and sends the last answer", () => {
  const actuator = one("load_actuator", { ...ABOUT, tokens_query: "q" }, { intervalMs: 5_000 });
  const sent = () => {
    const last = actuator.decisions.at(-1);
    return last?.kind === "load_scheduler" ? last.tokensByWorkload : undefined;
  };
  for (let tick = 1; tick <= 5; tick++) actuator.tick();
  assert.deepEqual(actuator.asks, [
    { query: "q", at: 1_700_000_025_000, periodMs: 25_000, byLabel: "workload_index" },
  ]);
  assert.deepEqual(sent(), new Map());
  actuator.answer({ kind: "by_label", values: new Map([["0", 3]]) });
  for (let tick = 6; tick <= 9; tick++) actuator.tick();
  assert.deepEqual(sent(), new Map([["0", 3]]));
  actuator.answer({ kind: "failed", why: "gone" });
  for (let tick = 10; tick <= 11; tick++) actuator.tick();
  assert.deepEqual(sent(), new Map());
});

test("promql: queries once per interval at multiples of the tick interval, outputs the last answer", () => {
  const query = one("promql", { query_string: "q", evaluation_interval: 2_500 });
  const answers = [
    { kind: "value", value: 4 },
    { kind: "failed", why: "no" },
    { kind: "value", value: Infinity },
    { kind: "by_label", values: new Map() },
    { kind: "value", value: INVALID },
  ] as const;
  const column = Array.from({ length: 18 }, (_, at) => {
    const output = query.tick();
    const answer = answers[(at + 1) / 3 - 1];
    if (answer !== undefined) query.answer(answer);
    return output;
  });
  const [inf, __] = [Infinity, INVALID];
  assert.deepEqual(column, [
    __,
    __,
    __,
    4,
    4,
    4,
    __,
    __,
    __,
    inf,
    inf,
    inf,
    __,
    __,
    __,
    __,
    __,
    __,
  ]);
  assert.deepEqual(
    query.asks.map(({ at }) => at),
    [3, 6, 9, 12, 15, 18].map((tick) => 1_700_000_000_000 + tick * 1_000),
  );
  assert.deepEqual(
    { ...query.asks[0], at: 0 },
    { query: "q", at: 0, periodMs: 3_000, byLabel: undefined },
  );
});

test("alerter: once in every tick while its signal is true", () => {
  const labels = new Map([["team", "a"]]);
  const alerter = one("alerter", {
    parameters: {
      alert_name: "Slow",
      severity: "crit",
      resolve_timeout: 5_000,
      alert_channels: ["ops"],
      labels,
    },
  });
  for (const signal of [0, 1, -2, INVALID, -0, Infinity]) alerter.tick({ signal });
  const alert = { componentId: "root.0", name: "Slow", severity: "crit", resolveMs: 5_000 };
  const sent = { ...alert, channels: ["ops"], labels };
  assert.deepEqual(alerter.alerts, [sent, sent, sent]);
});
