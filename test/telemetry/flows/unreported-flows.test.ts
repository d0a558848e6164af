// Flows whose record carries no decision: found by the id of their request, within bounds.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Flow, SlotRef, Verdict } from "#flow/flow.ts";
import { FinishedFlows } from "#telemetry/flows/finished-flows.ts";
import { FluxMeters } from "#telemetry/flows/flux-meter.ts";
import { UnreportedFlows } from "#telemetry/flows/unreported-flows.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { aComponent, aDecision, aFluxMeter, aVerdict } from "../kit.ts";

function flow(id: string | undefined, changed: Partial<Flow> = {}): Flow {
  const http = { header: (name: string) => (name === "x-request-id" ? id : undefined) };
  // The cast: only these parts of a flow are read.
  return { controlPoint: "ingress", expectEnd: false, http, ...changed } as unknown as Flow;
}

/** The verdict about a flow that holds the slot of this id. */
function holding(requestId: string): Verdict {
  const detail = { label: "default", value: undefined, remaining: 0, current: 1, consumed: 2 };
  const component = aComponent({ kind: "concurrency_limiter" });
  const decision = aDecision({ component, grantId: requestId, detail: { ...detail, requestId } });
  return aVerdict({
    decisions: [aDecision(), decision],
    held: { size: 1, release: () => undefined },
  });
}

function setup(most?: number) {
  const unreported = new UnreportedFlows(most);
  const meters = new FluxMeters();
  meters.keep([aFluxMeter()]);
  const ended: string[] = [];
  const end = (slots: readonly SlotRef[]) => {
    ended.push(...slots.map(({ requestId, tokens }) => `${requestId}*${tokens}`));
    return [];
  };
  const records = new FinishedFlows(meters, end, unreported);
  const metrics = new Metrics({
    enable_go_metrics: false,
    enable_process_collector: false,
    pedantic: true,
  });
  for (const source of [meters, records, unreported]) metrics.add(source);
  const report = (attributes: Readonly<Record<string, string>>) =>
    records.consume(new Map(Object.entries({ "aperture.source": "envoy", ...attributes })));
  return { unreported, metrics, ended, report };
}

/** The verdict about an SDK's flow that was checked at these times and holds the slots of this key. */
function checked(requestId: string, start: number, end: number, label = "default"): Verdict {
  const { decisions, ...verdict } = holding(requestId);
  const keyed = decisions.map((each) => ({ ...each, detail: { ...each.detail, label } }));
  return { ...verdict, decisions: keyed as Verdict["decisions"], start, end };
}

const FEATURE = { http: undefined, controlPoint: "feature" };

/** The span of an SDK, whose messages have no place for slots. */
function span(start: number, end: number, labels = {}, controlPoint = "feature") {
  const [from, to] = [start, end].map((ms) => new Date(ms).toISOString());
  const decision = { controlPoint, start: from, end: to, telemetryFlowLabels: labels };
  return { "aperture.source": "sdk", "aperture.check_response": JSON.stringify(decision) };
}

test("the span of an SDK that knows no slots frees those of the check at its control point and times, once", () => {
  const { unreported, ended, report } = setup();
  unreported.decided(flow(undefined, FEATURE), checked("one", 1000.2, 1001.9));
  unreported.decided(flow(undefined, FEATURE), checked("two", 1000.4, 1002.1));
  for (const other of [span(1000, 1003), span(999, 1001), span(1000, 1001, {}, "elsewhere")])
    assert.equal(report(other), true, "a decision without slots");
  assert.deepEqual(ended, []);
  for (let twice = 0; twice < 2; twice++) report(span(1000, 1001));
  assert.deepEqual(ended, ["one*2"]);
  report(span(1000, 1002));
  assert.deepEqual(ended, ["one*2", "two*2"]);
});

test("of checks of one millisecond, the span frees the one whose slots are of its own labels", () => {
  const { unreported, ended, report } = setup();
  for (const user of ["ann", "bob", "cy"]) {
    const verdict = checked(user, 1000, 1001, `user:${user}`);
    unreported.decided(flow(undefined, FEATURE), verdict);
  }
  report(span(1000, 1001, { user: "ann" }));
  assert.deepEqual(ended, ["ann*2"]);
  report(span(1000, 1001));
  assert.deepEqual(ended, ["ann*2", "cy*2"], "no label tells, so the latest");
});

test("a caller that says that it ends its flows, or names its slots, ends these and no others", () => {
  const { unreported, ended, report } = setup();
  unreported.decided(flow(undefined, { ...FEATURE, expectEnd: true }), checked("one", 1000, 1001));
  report(span(1000, 1001));
  assert.deepEqual(ended, []);
  unreported.decided(flow(undefined, FEATURE), checked("two", 1000, 1001));
  const named = JSON.parse(span(1000, 1001)["aperture.check_response"]);
  const slot = { requestId: "own", tokensInfo: { consumed: 1 } };
  named.limiterDecisions = [{ policyName: "p", concurrencyLimiterInfo: slot }];
  report({ "aperture.source": "sdk", "aperture.check_response": JSON.stringify(named) });
  assert.deepEqual(ended, ["own*1"]);
});

const FULL = { "aperture.check_response": "WgMKAW0=" };

test("a record without a decision finds the reservation of its request", () => {
  const settled: object[] = [];
  const unreported = new UnreportedFlows();
  const records = new FinishedFlows(
    new FluxMeters(),
    () => [],
    unreported,
    undefined,
    (end) => {
      settled.push(end);
      return "settled";
    },
  );
  unreported.decided(flow("a"), aVerdict({ reservationId: "id" }));
  const attributes = { "aperture.source": "envoy", "x-request-id": "a", "http.status_code": "200" };
  records.consume(new Map(Object.entries(attributes)));
  assert.deepEqual(settled, [{ reservationId: "id", cost: undefined, status: 200 }]);
});

test("a record without a decision frees the slot of its request, once", () => {
  const { unreported, ended, report, metrics } = setup();
  unreported.decided(flow("a"), holding("slot-a"));
  unreported.decided(flow("b"), holding("slot-b"));
  assert.equal(report({ "x-request-id": "b" }), true);
  assert.deepEqual(ended, ["slot-b*2"]);
  assert.equal(report({ "x-request-id": "b" }), false);
  assert.equal(report({ "x-request-id": "unknown" }), false);
  assert.equal(metrics.read("sluice_access_log_records_total", { result: "unknown_request" }), 2);
  assert.equal(report({}), false);
  assert.equal(metrics.read("sluice_access_log_records_total", { result: "no_decision" }), 1);
  assert.equal(report({ "x-request-id": "a" }), true);
  assert.deepEqual(ended, ["slot-b*2", "slot-a*2"]);
});

test("it feeds the flux meters that the check matched", () => {
  const { unreported, report, metrics } = setup();
  unreported.decided(flow("a"), aVerdict({ fluxMeters: ["m"] }));
  unreported.decided(flow("b"), aVerdict({ fluxMeters: ["m"], accepted: false }));
  for (const id of ["a", "b"])
    report({ "x-request-id": id, RESPONSE_DURATION: "7", authz_duration: "1" });
  const decision = (type: string) =>
    metrics.read("flux_meter", { decision_type: `DECISION_TYPE_${type}` });
  assert.deepEqual([decision("ACCEPTED"), decision("REJECTED")], [1, 1]);
});

test("flows that are not wanted are not remembered: ended by their caller, without an id, with nothing to report", () => {
  const { unreported, report } = setup();
  unreported.decided(flow("a", { expectEnd: true }), holding("slot"));
  unreported.decided(flow(undefined), holding("slot"));
  unreported.decided(flow("x".repeat(129)), holding("slot"));
  unreported.decided(flow("a", { http: undefined }), holding("slot"));
  unreported.decided(flow("a"), aVerdict());
  assert.equal(report({ "x-request-id": "a" }), false);
  assert.equal(report({ "x-request-id": "x".repeat(129) }), false);
});

test("requests of one id: the flow at the record's control point, else the latest", () => {
  const { unreported, ended, report } = setup();
  unreported.decided(flow("a"), holding("in"));
  unreported.decided(flow("a", { controlPoint: "egress" }), holding("out"));
  unreported.decided(flow("a"), holding("again"));
  const at = (point: string) => report({ "x-request-id": "a", "aperture.control_point": point });
  assert.equal(at("elsewhere"), false);
  assert.equal(at("egress"), true);
  assert.equal(at("egress"), false);
  assert.equal(report({ "x-request-id": "a" }), true);
  assert.equal(at("ingress"), true);
  assert.deepEqual(ended, ["out*2", "again*2", "in*2"]);
});

test("of one id the latest sixteen flows are looked at, because callers may choose ids", () => {
  const { unreported, report } = setup();
  const at = (point: string) => report({ "x-request-id": "a", "aperture.control_point": point });
  unreported.decided(flow("a", { controlPoint: "first" }), holding("first"));
  unreported.decided(flow("a", { controlPoint: "second" }), holding("second"));
  for (let more = 0; more < 15; more++) unreported.decided(flow("a"), holding(`s${more}`));
  assert.equal(at("first"), false);
  assert.equal(at("second"), true);
  assert.equal(at("first"), true, "sixteen are left");
});

test("two generations are kept, whose flows are bounded; what is forgotten is counted", () => {
  const { unreported, report, metrics } = setup(10);
  report({ "x-request-id": "x" });
  for (let at = 0; at < 25; at++) {
    unreported.decided(flow(`f${at}`), holding(`s${at}`));
    if (at % 10 === 0) report({ "x-request-id": "x" });
  }
  assert.equal(metrics.read("sluice_flows_forgotten_total"), 10);
  assert.equal(report({ "x-request-id": "f9" }), false);
  assert.equal(report({ "x-request-id": "f10" }), true);
  assert.equal(report({ "x-request-id": "f24" }), true);
  unreported.sweep();
  assert.equal(report({ "x-request-id": "f23" }), true, "the generation before");
  unreported.sweep();
  unreported.sweep();
  assert.equal(report({ "x-request-id": "f22" }), false);
});

test("nothing is remembered where records carry their decisions, or where there are none", () => {
  const known = (id: string, { unreported, report }: ReturnType<typeof setup>) => {
    unreported.decided(flow(id), holding("s"));
    return report({ "x-request-id": id });
  };
  const full = setup();
  full.report(FULL);
  assert.equal(known("a", full), false);
  assert.equal(known("b", full), true, "a record without a decision: from now on it is");
  full.report(FULL);
  full.unreported.sweep();
  full.report(FULL);
  assert.equal(known("c", full), true, "both kinds arrive");
  for (let sweep = 0; sweep < 3; sweep++) full.unreported.sweep();
  full.report(FULL);
  assert.equal(known("d", full), false);

  const none = setup(10);
  for (let at = 0; at < 11; at++) none.unreported.decided(flow(`f${at}`), holding("s"));
  assert.equal(known("a", none), false, "ten flows, and nobody has asked for one");
});
