import assert from "node:assert/strict";
import { test } from "node:test";
import type { BucketsRule } from "#flow/rules.ts";
import { FluxMeters, type MeasuredFlow } from "#telemetry/flows/flux-meter.ts";
import { boundsOf } from "#telemetry/flows/flux-meter-buckets.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { aFluxMeter } from "../kit.ts";

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

test("invented codes and statuses make no series of their own, and no flow is lost", () => {
  const { meters, metrics, count } = setup();
  meters.keep([aFluxMeter()]);
  for (let at = 0; at < 2_000; at++) {
    meters.observe(["m"], flow(1, { status: `s${at}`, statusCode: "503" }));
    meters.observe(["m"], flow(1, { statusCode: String(at) }));
  }
  meters.observe(["m"], flow(1, { status: "late", statusCode: "x", accepted: false }));
  assert.equal(count(), 4_001);
  assert.equal(count({ flow_status: "other", http_status_code: "503" }), 2_000);
  const other = { flow_status: "other", http_status_code: "other" };
  assert.equal(count({ ...other, decision_type: "DECISION_TYPE_REJECTED" }), 1);
  const codes = new Set<string | undefined>();
  for (const { labels } of metrics.samples((name) => name === "flux_meter_count"))
    codes.add(labels["http_status_code"]);
  assert.ok(codes.size < 70, `${codes.size} codes`);
});

test("the room for samples is divided among the meters, and statuses stay apart where it is used up", () => {
  for (const [buckets, number, most] of [
    [1_000, 1, 10],
    [96, 1, 100],
    [12, 1, 420],
    [12, 4, 156],
    [12, 300, 10],
  ] as const) {
    const { meters, metrics, count } = setup();
    const names = Array.from({ length: number }, (_, at) => `m${at}`);
    const each = { kind: "linear", start: 1, width: 1, count: buckets } as const;
    meters.keep(names.map((name) => aFluxMeter({ name, buckets: each })));
    let flows = 0;
    for (let code = 100; code < 600; code++)
      for (const status of ["OK", "Error", "Late"])
        for (const accepted of [true, false]) {
          meters.observe(["m0"], flow(5, { statusCode: String(code), status, accepted }));
          flows++;
        }
    assert.equal(count(), flows, "no flow is lost");
    assert.equal(count({ flow_status: "OK" }), flows / 3, "statuses stay apart");
    assert.equal(count({ decision_type: "DECISION_TYPE_ACCEPTED" }), flows / 2);
    const series = [...metrics.samples((name) => name === "flux_meter_count")].length;
    assert.ok(
      series <= most,
      `${series} of ${most} series with ${buckets} buckets, ${number} meters`,
    );
  }
});

test("a status code is none, 0 or a known one; every other one is other", () => {
  for (const [statusCode, wanted] of [
    ...["", "0", "100", "404", "499", "511"].map((code) => [code, code] as const),
    ...["599", "00", "1", "20", "2000", "099", "2xx", "200\n", " 200", "-", "7".repeat(65)].map(
      (code) => [code, "other"] as const,
    ),
  ]) {
    const { meters, count } = setup();
    meters.keep([aFluxMeter()]);
    meters.observe(["m"], flow(1, { statusCode }));
    assert.equal(count({ http_status_code: wanted, flow_status: "OK" }), 1, statusCode);
  }
});

test("a sweep removes series without flows, but not the last one of a decision and status", () => {
  const { meters, count } = setup();
  meters.keep([aFluxMeter()]);
  const codes = (...used: readonly string[]) => {
    for (const statusCode of used) meters.observe(["m"], flow(1, { statusCode }));
  };
  const shownCodes = () =>
    ["200", "201", "204"].filter((http_status_code) => count({ http_status_code }) !== undefined);
  codes("200", "201", "204");
  meters.observe(["m"], flow(1, { status: "Error", statusCode: "503" }));
  meters.sweep();
  assert.deepEqual(shownCodes(), ["200", "201", "204"], "all were used");
  codes("201");
  meters.sweep();
  assert.deepEqual(shownCodes(), ["201"]);
  assert.equal(count({ http_status_code: "503" }), 1, "the last with this status");
  meters.sweep();
  meters.sweep();
  assert.deepEqual(shownCodes(), ["201"]);
});

test("values beyond 1e15 are none, so that sums stay finite", () => {
  const { meters, metrics } = setup();
  meters.keep([aFluxMeter()]);
  for (const value of [1e308, 1e308, -1e308, 1.01e15, Number.NaN, 1e15, -1e15, 3])
    meters.observe(["m"], flow(value));
  assert.equal(metrics.read("invalid_flux_meter_total"), 5);
  const { flux_meter_sum, flux_meter_count } = shown(metrics);
  assert.deepEqual([flux_meter_sum, flux_meter_count], [3, 3]);
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
