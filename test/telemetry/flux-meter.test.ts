import assert from "node:assert/strict";
import { test } from "node:test";
import type { BucketsRule } from "#flow/rules.ts";
import { FluxMeters, type MeasuredFlow } from "#telemetry/flux-meter.ts";
import { boundsOf } from "#telemetry/flux-meter-buckets.ts";
import { Metrics } from "#telemetry/metrics.ts";
import { aFluxMeter } from "./metrics-kit.ts";

const PLAIN = { enable_go_metrics: false, enable_process_collector: false, pedantic: true };

function setup() {
  const meters = new FluxMeters();
  const metrics = new Metrics(PLAIN);
  metrics.add(meters);
  const count = (labels: Readonly<Record<string, string>> = {}) =>
    metrics.read("flux_meter", labels);
  return { meters, metrics, count };
}

function flow(value: number | undefined, changed: Partial<MeasuredFlow> = {}): MeasuredFlow {
  const number = (attribute: string) => (attribute === "workload_duration_ms" ? value : undefined);
  return { accepted: true, statusCode: "200", status: "OK", number, ...changed };
}

/** `le` to the cumulative count, and sum and count. */
function shown(metrics: Metrics): Record<string, number> {
  const found: Record<string, number> = {};
  for (const { labels, value } of metrics.samples((name) => name.startsWith("flux_meter"))) {
    found[labels["le"] ?? labels["__name__"] ?? ""] = value;
  }
  return found;
}

test("a flow falls into the first bucket whose bound is not below it", () => {
  const { meters, metrics } = setup();
  meters.keep([aFluxMeter()]);
  for (const value of [0, 5, 5.001, 10, 10.5, -1]) meters.observe(["m"], flow(value));
  assert.deepEqual(shown(metrics), {
    "5": 3,
    "10": 5,
    "+Inf": 6,
    flux_meter_sum: 29.501,
    flux_meter_count: 6,
  });
});

test("labels say which meter, whose, and how the flow went", () => {
  const { meters, metrics } = setup();
  meters.keep([aFluxMeter({ name: "latency", policyName: "checkout" })]);
  meters.observe(["latency"], flow(1, { accepted: false, statusCode: "503", status: "Error" }));
  const [sample] = metrics.samples((name) => name === "flux_meter_count");
  assert.deepEqual(sample?.labels, {
    __name__: "flux_meter_count",
    flux_meter_name: "latency",
    policy_name: "checkout",
    decision_type: "DECISION_TYPE_REJECTED",
    http_status_code: "503",
    flow_status: "Error",
  });
});

test("a flow without the number is counted as that, with the same labels, and nowhere else", () => {
  const { meters, metrics, count } = setup();
  meters.keep([aFluxMeter({ attributeKey: "BYTES_SENT" })]);
  meters.observe(["m"], flow(1));
  assert.equal(count(), undefined);
  assert.equal(metrics.read("invalid_flux_meter_total", { http_status_code: "200" }), 1);
});

test("each of the meters that matched reads its own attribute; others count nothing", () => {
  const { meters, count } = setup();
  const sent = aFluxMeter({ name: "sent", attributeKey: "BYTES_SENT" });
  meters.keep([aFluxMeter(), sent, aFluxMeter({ name: "idle" })]);
  meters.observe(["m", "sent", "gone"], flow(1, { number: () => 2 }));
  assert.deepEqual(
    ["m", "sent", "idle", "gone"].map((name) => count({ flux_meter_name: name })),
    [1, 1, undefined, undefined],
  );
});

test("counts stay while the meter counts the same; other buckets, numbers and owners start anew", () => {
  const changes = {
    attributeKey: { attributeKey: "DURATION" },
    buckets: { buckets: { kind: "static", bounds: [7] } },
    policy: { policyName: "q" },
  } as const;
  const selectors = [{ controlPoint: "elsewhere" }] as never;
  for (const [what, changed] of Object.entries(changes)) {
    const { meters, count } = setup();
    meters.keep([aFluxMeter()]);
    meters.observe(["m"], flow(1));
    meters.keep([aFluxMeter({ selectors })]);
    assert.equal(count(), 1, "selectors only choose flows");
    meters.keep([aFluxMeter(changed)]);
    assert.equal(count(), undefined, what);
  }
});

test("a removed meter leaves no series, and returns empty", () => {
  const { meters, count } = setup();
  meters.keep([aFluxMeter()]);
  meters.observe(["m"], flow(1));
  meters.keep([]);
  assert.equal(count(), undefined);
  meters.observe(["m"], flow(1));
  assert.equal(count(), undefined);
  meters.keep([aFluxMeter()]);
  assert.equal(count(), undefined);
});

test("of two policies with one meter name the first counts", () => {
  const { meters, count } = setup();
  meters.keep([aFluxMeter({ policyName: "first" }), aFluxMeter({ policyName: "second" })]);
  meters.observe(["m"], flow(1));
  assert.equal(count({ policy_name: "first" }), 1);
  assert.equal(count({ policy_name: "second" }), undefined);
});

test("invented statuses fill 500 series at most, and no flow is lost", () => {
  const { meters, metrics, count } = setup();
  meters.keep([aFluxMeter()]);
  for (let at = 0; at < 2_000; at++) meters.observe(["m"], flow(1, { status: `s${at}` }));
  meters.observe(["m"], flow(1, { status: "x".repeat(100_000) }));
  const series = [...metrics.samples((name) => name === "flux_meter_count")];
  assert.ok(series.length <= 501, `${series.length}`);
  assert.equal(count(), 2_001);
  assert.equal(count({ flow_status: "_other", http_status_code: "_other" }), 1_501);
});

test("bounds of every kind", () => {
  const of = (rule: BucketsRule) => boundsOf(rule);
  assert.deepEqual(of({ kind: "static", bounds: [10, 5, 10, Number.POSITIVE_INFINITY] }), [5, 10]);
  assert.deepEqual(of({ kind: "linear", start: 10, width: 5, count: 3 }), [10, 15, 20]);
  assert.deepEqual(of({ kind: "exponential", start: 1, factor: 10, count: 4 }), [1, 10, 100, 1000]);
  const range = of({ kind: "exponential_range", min: 1, max: 100, count: 3 });
  assert.deepEqual(
    range.map((bound) => Math.round(bound * 1e9) / 1e9),
    [1, 10, 100],
  );
  assert.deepEqual(of({ kind: "exponential_range", min: 2, max: 100, count: 1 }), [2]);
  assert.equal(of({ kind: "linear", start: 0, width: 1, count: 2 ** 31 - 1 }).length, 1_000);
});
