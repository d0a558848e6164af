import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotRef } from "#flow/flow.ts";
import { FinishedFlows } from "#telemetry/flows/finished-flows.ts";
import { FluxMeters } from "#telemetry/flows/flux-meter.ts";
import { UnreportedFlows } from "#telemetry/flows/unreported-flows.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { encode } from "#wire/protobuf/messages.ts";
import { aFluxMeter } from "../kit.ts";

const PLAIN = { enable_go_metrics: false, enable_process_collector: false, pedantic: true };
const CHECK_RESPONSE = "aperture.flowcontrol.check.v1.CheckResponse";

type Decision = Parameters<typeof encode<typeof CHECK_RESPONSE>>[1];
const decision = (message: Decision) =>
  Buffer.from(encode(CHECK_RESPONSE, message)).toString("base64");
const MATCHED = decision({ fluxMeterInfos: [{ fluxMeterName: "m" }] });

/** The record that the documented Envoy configuration sends. */
function record(changed: Readonly<Record<string, string | number>> = {}) {
  return new Map<string, string | number>(
    Object.entries({
      "aperture.source": "envoy",
      "aperture.check_response": MATCHED,
      "http.status_code": "200",
      RESPONSE_DURATION: "30",
      authz_duration: "2",
      DURATION: "31",
      BYTES_SENT: "1000",
      BYTES_RECEIVED: "40",
      ...changed,
    }),
  );
}

function setup(attributeKey = "workload_duration_ms") {
  const meters = new FluxMeters();
  const ended: SlotRef[] = [];
  const unreported = new UnreportedFlows();
  const end = (slots: readonly SlotRef[]) => {
    ended.push(...slots);
    return [];
  };
  const log = new FinishedFlows(meters, end, unreported);
  const metrics = new Metrics(PLAIN);
  metrics.add(meters);
  metrics.add(log);
  meters.keep([aFluxMeter({ attributeKey })]);
  const sums = () => [...metrics.samples((name) => name === "flux_meter_sum")];
  return {
    log,
    unreported,
    metrics,
    ended,
    sum: () => sums()[0]?.value,
    labels: () => sums()[0]?.labels,
  };
}

test("attributes that meters may ask for, as they are and derived", () => {
  const wanted = {
    workload_duration_ms: 28,
    flow_duration_ms: 30,
    RESPONSE_DURATION: 30,
    DURATION: 31,
    authz_duration: 2,
    // The proxy receives the request and sends the response.
    "http.request_content_length": 40,
    "http.response_content_length": 1000,
    own: 0.5,
    number: 12,
  };
  for (const [key, value] of Object.entries(wanted)) {
    const { log, sum } = setup(key);
    assert.equal(log.consume(record({ own: "5e-1", number: 12 })), true);
    assert.equal(sum(), value, key);
  }
});

test("without a number the flow is taken and counted as invalid", () => {
  const cases: [string, Readonly<Record<string, string | number>>][] = [
    ["workload_duration_ms", { RESPONSE_DURATION: "-" }],
    ["workload_duration_ms", { authz_duration: "-" }],
    ["workload_duration_ms", { RESPONSE_DURATION: "2" }],
    ["workload_duration_ms", { RESPONSE_DURATION: "1" }],
    ["flow_duration_ms", { RESPONSE_DURATION: "-" }],
    ["missing", {}],
    ...["", "x", "0x10", "1e999", "NaN", " 1", Number.NaN].map(
      (own): [string, Readonly<Record<string, string | number>>] => ["own", { own }],
    ),
  ];
  for (const [key, changed] of cases) {
    const { log, metrics, sum } = setup(key);
    assert.equal(log.consume(record(changed)), true);
    const what = `${key} of ${JSON.stringify(changed)}`;
    assert.equal(sum(), undefined, what);
    assert.equal(metrics.read("invalid_flux_meter_total"), 1, what);
  }
});

test("texts are numbers in every form of one, up to 64 characters", () => {
  const long = "1".repeat(15).padStart(64, "0");
  for (const [own, wanted] of [
    ["7", 7] as const,
    ["7.", 7] as const,
    [".5", 0.5] as const,
    ["-1.25", -1.25] as const,
    ["+3e2", 300] as const,
    ["1.5E-1", 0.15] as const,
    [long, 111_111_111_111_111] as const,
    ...["1..2", ".", "e5", "1e", "--1", "1_0", `0${long}`].map((own) => [own, undefined] as const),
  ]) {
    const { log, sum } = setup("own");
    log.consume(record({ own }));
    assert.equal(sum(), wanted, own);
  }
});

test("long texts cost no more than their length, whatever they are read as", () => {
  const long = (of: string) => of.repeat(1_000_000 / of.length);
  const { log, metrics } = setup("own");
  const before = process.cpuUsage();
  for (const text of [
    `${long("1")}x`,
    `${long("1")}e`,
    long("."),
    long("1."),
    long(" "),
    long("="),
  ])
    for (const name of [
      "own",
      "http.status_code",
      "aperture.flow.status",
      "aperture.check_response",
    ])
      log.consume(record({ [name]: text }));
  // A quadratic look at one of them takes minutes.
  const { user, system } = process.cpuUsage(before);
  assert.ok(user + system < 5_000_000, `${user + system} µs of processor time`);
  assert.equal(metrics.read("invalid_flux_meter_total", { http_status_code: "other" }), 6);
});

test("status and decision become labels", () => {
  const rejected = decision({ decisionType: 1, fluxMeterInfos: [{ fluxMeterName: "m" }] });
  const cases: [Readonly<Record<string, string | number>>, readonly string[]][] = [
    [{}, ["200", "OK", "DECISION_TYPE_ACCEPTED"]],
    [{ "http.status_code": "302" }, ["302", "OK", "DECISION_TYPE_ACCEPTED"]],
    [{ "http.status_code": 404 }, ["404", "Error", "DECISION_TYPE_ACCEPTED"]],
    [{ "http.status_code": 200 }, ["200", "OK", "DECISION_TYPE_ACCEPTED"]],
    [
      { "http.status_code": "503", "aperture.flow.status": "Late" },
      ["503", "other", "DECISION_TYPE_ACCEPTED"],
    ],
    [
      { "http.status_code": "200", "aperture.flow.status": "Late" },
      ["200", "OK", "DECISION_TYPE_ACCEPTED"],
    ],
    [{ "http.status_code": "0" }, ["0", "Error", "DECISION_TYPE_ACCEPTED"]],
    [{ "aperture.check_response": rejected }, ["200", "OK", "DECISION_TYPE_REJECTED"]],
  ];
  for (const [changed, wanted] of cases) {
    const { log, labels } = setup();
    log.consume(record(changed));
    const { http_status_code, flow_status, decision_type } = labels() ?? {};
    assert.deepEqual([http_status_code, flow_status, decision_type], wanted);
  }
  const { log, labels } = setup();
  log.consume(record({ "http.status_code": "-" }));
  const found = labels() ?? {};
  assert.ok(!("http_status_code" in found));
  assert.equal(found["flow_status"], "Error");
});

test("records of no use are set aside, each counted by why", () => {
  const { log, metrics, sum } = setup();
  const cut = MATCHED.slice(0, -4);
  const cases: [Readonly<Record<string, string>>, string][] = [
    [{ "aperture.source": "elsewhere" }, "unknown_source"],
    [{ "aperture.check_response": "-" }, "no_decision"],
    [{ "aperture.check_response": "" }, "no_decision"],
    [{ "aperture.check_response": "{}" }, "bad_decision"],
    [{ "aperture.check_response": cut }, "bad_decision"],
    [{ "aperture.check_response": `${MATCHED.slice(0, 4)}\n${MATCHED.slice(4)}` }, "bad_decision"],
  ];
  const counts = new Map<string, number>();
  for (const [changed, result] of cases) {
    assert.equal(log.consume(record(changed)), false);
    counts.set(result, (counts.get(result) ?? 0) + 1);
    const read = metrics.read("sluice_access_log_records_total", { result });
    assert.equal(read, counts.get(result), `${JSON.stringify(changed)} is ${result}`);
  }
  assert.equal(log.consume(new Map()), false);
  assert.equal(sum(), undefined);
  log.consume(record());
  assert.equal(metrics.read("sluice_access_log_records_total", { result: "taken" }), 1);
});

test("slots of a flow that nobody else ends are given back", () => {
  const limited = (requestId: string) => ({
    policyName: "p",
    policyHash: "h",
    componentId: "root.0",
    dropped: false,
    concurrencyLimiterInfo: { label: "default", tokensInfo: { consumed: 2 }, requestId },
  });
  const rate = { policyName: "p", rateLimiterInfo: { label: "default" } };
  const limiterDecisions = [limited("one"), limited(""), rate];
  const { log, ended } = setup();
  log.consume(record({ "aperture.check_response": decision({ limiterDecisions }) }));
  const names = { policyName: "p", policyHash: "h", componentId: "root.0" };
  assert.deepEqual(ended, [{ ...names, label: "default", requestId: "one", tokens: 2 }]);
  const expecting = decision({ limiterDecisions, expectEnd: true });
  log.consume(record({ "aperture.check_response": expecting }));
  assert.equal(ended.length, 1, "the caller will end this one itself");
  const crowd = decision({ limiterDecisions: Array.from({ length: 1_001 }, () => limited("x")) });
  assert.equal(log.consume(record({ "aperture.check_response": crowd })), false);
  assert.equal(ended.length, 1);
});

test("estimates of a flow that nobody else ends are settled, at its cost and by its status", () => {
  const settled: object[] = [];
  const unreported = new UnreportedFlows();
  const settle = (end: object) => {
    settled.push(end);
    return "settled" as const;
  };
  const log = new FinishedFlows(new FluxMeters(), () => [], unreported, undefined, settle);
  const metrics = new Metrics(PLAIN);
  metrics.add(log);
  const reserved = decision({ reservationId: "id" });
  const report = (changed: Readonly<Record<string, string | number>>) =>
    log.consume(record({ "aperture.check_response": reserved, ...changed }));
  assert.equal(report({ "sluice.cost": "12.5" }), true);
  report({ "sluice.cost": 0, "http.status_code": "503" });
  report({ "http.status_code": "-" });
  const reservationId = "id";
  assert.deepEqual(settled, [
    { reservationId, cost: 12.5, status: 200 },
    { reservationId, cost: 0, status: 503 },
    { reservationId, cost: undefined, status: 0 },
  ]);
  settled.length = 0;
  report({ "sluice.cost": "-" });
  assert.equal(metrics.read("sluice_bad_measurements_total"), undefined);
  settled.length = 0;
  const unusable = ["-1", "1e13", "abc", "", "NaN", "0x10", Number.NaN];
  for (const cost of unusable) report({ "sluice.cost": cost });
  assert.deepEqual(
    settled,
    unusable.map(() => ({ reservationId, cost: undefined, status: 200 })),
  );
  assert.equal(metrics.read("sluice_bad_measurements_total"), unusable.length);
  settled.length = 0;
  log.consume(record({ "aperture.check_response": decision({}) }));
  const expecting = decision({ reservationId: "id", expectEnd: true });
  log.consume(record({ "aperture.check_response": expecting }));
  assert.deepEqual(settled, []);
});

/** The span of an SDK: times in ms with their unit in the name. */
function span(changed: Readonly<Record<string, string | number>> = {}) {
  return new Map<string, string | number>(
    Object.entries({
      "aperture.source": "sdk",
      "aperture.check_response": '{"fluxMeterInfos":[{"fluxMeterName":"m"}]}',
      "aperture.flow.status": "OK",
      "aperture.flow_start_timestamp_ms": 1_767_225_600_000,
      "aperture.workload_start_timestamp_ms": 1_767_225_600_005,
      "aperture.flow_end_timestamp_ms": 1_767_225_600_030,
      ...changed,
    }),
  );
}

test("spans of SDKs and of the plugin: durations from their times", () => {
  const points = ["flow_start", "workload_start", "flow_end"] as const;
  const times = (suffix: string, scale: number) =>
    Object.fromEntries(
      points.map((point, at) => [
        `aperture.${point}_timestamp${suffix}`,
        (1_767_225_600_000 + (at === 2 ? 30 : at * 5)) * scale,
      ]),
    );
  const older = (source: string, scale: number) =>
    new Map(
      Object.entries({
        "aperture.source": source,
        "aperture.check_response": MATCHED,
        "http.status_code": "200",
        ...times("", scale),
      }),
    );
  for (const sent of [span(), older("sdk", 1e6), older("lua", 1)]) {
    for (const [attribute, wanted] of [
      ["flow_duration_ms", 30],
      ["workload_duration_ms", 25],
    ] as const) {
      const { log, sum, labels } = setup(attribute);
      assert.equal(log.consume(sent), true);
      assert.ok(Math.abs((sum() ?? 0) - wanted) < 0.001, `${attribute} is ${sum()}`);
      assert.equal(labels()?.["flow_status"], "OK");
    }
  }
  const { log, sum, metrics } = setup("workload_duration_ms");
  const started = span();
  started.delete("aperture.flow_end_timestamp_ms");
  assert.equal(log.consume(started), true);
  assert.equal(sum(), undefined);
  assert.equal(metrics.read("invalid_flux_meter_total"), 1, "a flow that has not ended");
});

test("the span of a flow without a decision is counted, but no mistake of its sender", () => {
  const { log, metrics } = setup();
  assert.equal(log.consume(span({ "aperture.check_response": "" })), true);
  assert.equal(metrics.read("sluice_access_log_records_total", { result: "no_decision" }), 1);
  assert.equal(log.consume(span({ "aperture.check_response": "{" })), false);
  assert.equal(metrics.read("sluice_access_log_records_total", { result: "bad_decision" }), 1);
});

test("negative durations and lengths are counted and not used; other negative numbers are", () => {
  for (const [attribute, sent] of [
    ["workload_duration_ms", record({ RESPONSE_DURATION: "-30" })],
    ["workload_duration_ms", record({ authz_duration: "-2" })],
    ["flow_duration_ms", record({ RESPONSE_DURATION: -1 })],
    ["BYTES_SENT", record({ BYTES_SENT: "-1" })],
    ["http.request_content_length", record({ BYTES_RECEIVED: "-1" })],
    ["workload_duration_ms", span({ "aperture.flow_end_timestamp_ms": 1_767_225_600_004 })],
    ["flow_duration_ms", span({ "aperture.flow_end_timestamp_ms": 1 })],
  ] as const) {
    const { log, metrics, sum } = setup(attribute);
    log.consume(sent);
    assert.equal(sum(), undefined, attribute);
    assert.equal(metrics.read("invalid_flux_meter_total"), 1);
    assert.equal(metrics.read("sluice_bad_measurements_total"), 1);
  }
  const { log, metrics, sum } = setup("temperature");
  log.consume(record({ temperature: "-7" }));
  assert.equal(sum(), -7);
  assert.equal(metrics.read("sluice_bad_measurements_total"), undefined);
});

test("only a proxy's record that carries its decision says that proxies report decisions", () => {
  let reports = 0;
  const none = () => undefined;
  const unreported = { reported: () => void reports++, take: none, takeCheck: none };
  const log = new FinishedFlows(new FluxMeters(), () => [], unreported);
  log.consume(span());
  log.consume(record({ "aperture.source": "lua" }));
  log.consume(record({ "aperture.check_response": "", "x-request-id": "one" }));
  assert.equal(reports, 0);
  log.consume(record());
  assert.equal(reports, 1);
});
