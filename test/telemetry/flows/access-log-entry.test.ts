// Envoy's gRPC access log and its log records of OpenTelemetry say the same about a request.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Pending, type SlotRef, type SlotReturn } from "#flow/flow.ts";
import { type EndOfFlow, FinishedFlows } from "#telemetry/flows/finished-flows.ts";
import { FluxMeters } from "#telemetry/flows/flux-meter.ts";
import { UnreportedFlows } from "#telemetry/flows/unreported-flows.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { encode } from "#wire/protobuf/messages.ts";
import {
  duration,
  type Entry,
  entryOf,
  httpMessage,
  readWhole,
} from "../../kit/messages/access-log.ts";
import { aFluxMeter } from "../kit.ts";

const CHECK_RESPONSE = "aperture.flowcontrol.check.v1.CheckResponse";
type Decision = Parameters<typeof encode<typeof CHECK_RESPONSE>>[1];
const decision = (message: Decision) =>
  Buffer.from(encode(CHECK_RESPONSE, message)).toString("base64");

const fluxMeterInfos = [{ fluxMeterName: "m" }];
const NAMES = { policyName: "p", policyHash: "h", componentId: "root.0" };
const slot = (requestId: string) => ({
  ...NAMES,
  dropped: false,
  concurrencyLimiterInfo: { label: "default", tokensInfo: { consumed: 2 }, requestId },
});
const MATCHED = decision({ fluxMeterInfos });

function setup(attributeKey = "workload_duration_ms", end: EndOfFlow = () => []) {
  const meters = new FluxMeters();
  meters.keep([aFluxMeter({ attributeKey })]);
  const flows = new FinishedFlows(meters, end, new UnreportedFlows());
  const metrics = new Metrics({
    enable_go_metrics: false,
    enable_process_collector: false,
    pedantic: true,
  });
  metrics.add(meters);
  metrics.add(flows);
  return {
    metrics,
    flows,
    log: (...entries: Entry[]) => readWhole(httpMessage(entries), flows),
    sum: () => [...metrics.samples((name) => name === "flux_meter_sum")][0],
    results: () =>
      Object.fromEntries(
        [...metrics.samples((name) => name === "sluice_access_log_records_total")].map(
          ({ labels, value }) => [labels["result"], value],
        ),
      ),
  };
}

/** Values of Envoy's format strings for the request of `entryOf`. */
const RECORD = {
  "aperture.source": "envoy",
  "aperture.check_response": MATCHED,
  "http.status_code": "200",
  RESPONSE_DURATION: "30",
  authz_duration: "2",
  DURATION: "33",
  REQUEST_DURATION: "1",
  REQUEST_TX_DURATION: "4",
  RESPONSE_TX_DURATION: "2.25",
  BYTES_RECEIVED: "40",
  BYTES_SENT: "1000",
  own: "1.5",
};

test("every number and label is the same in both protocols", () => {
  for (const attribute of [
    "workload_duration_ms",
    "flow_duration_ms",
    "http.request_content_length",
    "http.response_content_length",
    ...Object.keys(RECORD).filter((name) => !name.startsWith("aperture.")),
  ]) {
    const [one, other] = [setup(attribute), setup(attribute)];
    one.log(entryOf(MATCHED));
    other.flows.consume(new Map(Object.entries(RECORD)));
    assert.ok(one.sum() !== undefined, attribute);
    assert.deepEqual(one.sum(), other.sum(), attribute);
  }
});

test("a request without a response has the status 0, and no duration", () => {
  const { log, metrics, sum } = setup();
  log({ ...entryOf(MATCHED), response: {} });
  const { http_status_code, flow_status } = sum()?.labels ?? {};
  assert.deepEqual([http_status_code, flow_status], ["0", "Error"]);
  log(entryOf(MATCHED, { timeToFirstUpstreamRxByte: undefined }));
  assert.equal(metrics.read("invalid_flux_meter_total", { http_status_code: "200" }), 1);
});

test("negative durations are not used, and counted", () => {
  const { log, metrics } = setup("RESPONSE_DURATION");
  log(entryOf(MATCHED, { timeToFirstUpstreamRxByte: duration(-5) }));
  assert.equal(metrics.read("sluice_bad_measurements_total"), 1);
  assert.equal(metrics.read("invalid_flux_meter_total"), 1);
});

test("what cannot be used is counted by reason, and the rest of the message is used", () => {
  const { log, flows, results, sum } = setup();
  log(
    entryOf(MATCHED),
    entryOf(""),
    entryOf("???"),
    entryOf(MATCHED, { accessLogType: 5 }),
    entryOf(MATCHED),
  );
  flows.unread("tcp");
  flows.unread("malformed");
  assert.deepEqual(results(), {
    taken: 2,
    no_decision: 1,
    bad_decision: 1,
    unfinished: 1,
    tcp: 1,
    malformed: 1,
  });
  assert.equal(sum()?.value, 2 * 28);
});

test("a cost that is no number is counted, and a missing one is not", () => {
  const { log, metrics } = setup();
  const reserved = decision({ reservationId: "id" });
  const costing = (cost: string) => entryOf(reserved, { customTags: { "sluice.cost": cost } });
  log(entryOf(reserved), costing("-"), costing("12.5"));
  assert.equal(metrics.read("sluice_bad_measurements_total"), undefined);
  const unusable = ["abc", "", "NaN", "0x10", "-1"];
  log(...unusable.map(costing));
  assert.equal(metrics.read("sluice_bad_measurements_total"), unusable.length);
});

test("slots of a flow that nobody else ends return once it has ended", () => {
  const ended: (readonly SlotRef[])[] = [];
  const held = new Set(["one", "late"]);
  const later = new Pending<readonly SlotReturn[]>();
  const { log, metrics } = setup("own", (slots) => {
    ended.push(slots);
    const returns = slots.map(({ requestId }) => ({ returned: held.delete(requestId), error: "" }));
    if (slots[0]?.requestId !== "late") return returns;
    later.settle(returns);
    return later;
  });
  const holding = (requestId: string, more: Decision = {}) =>
    entryOf(decision({ limiterDecisions: [slot(requestId)], ...more }));
  log(entryOf(decision({ limiterDecisions: [slot("one")] }), { accessLogType: 4 }));
  assert.deepEqual(ended, [], "the request has only begun");
  const ref = (requestId: string) => ({ ...NAMES, label: "default", requestId, tokens: 2 });
  log(holding("one"), holding("one"), holding("late"), holding("own", { expectEnd: true }));
  assert.deepEqual(ended, [[ref("one")], [ref("one")], [ref("late")]]);
  const slots = (result: string) => metrics.read("sluice_reported_slots_total", { result });
  assert.deepEqual([slots("returned"), slots("unknown")], [2, 1]);
  log(holding("refused", { decisionType: 1 }));
  assert.equal(ended.length, 3, "a refused flow holds none");
});

test("a slot whose owner cannot be asked counts as unknown", () => {
  const pending = new Pending<readonly SlotReturn[]>();
  const { log, metrics } = setup("own", () => pending);
  log(entryOf(decision({ limiterDecisions: [slot("one")] })));
  pending.fail(new Error("away"));
  assert.equal(metrics.read("sluice_reported_slots_total", { result: "unknown" }), 1);
});
