import assert from "node:assert/strict";
import { test } from "node:test";
import { RejectReason } from "#flow/flow.ts";
import { FlowMetrics } from "#telemetry/flows/flow-metrics.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { aClassifier, aComponent, aDecision, aFlow, aVerdict } from "../kit.ts";

function meter(most?: number) {
  const metrics = new Metrics({
    enable_go_metrics: false,
    enable_process_collector: false,
    pedantic: true,
  });
  const settings = {
    agent_group: "g",
    ...(most === undefined ? {} : { most_control_points: most }),
  };
  const flows = new FlowMetrics(settings);
  metrics.add(flows);
  return { flows, read: metrics.read.bind(metrics), scrape: metrics.scrape.bind(metrics) };
}

test("a decision counts once, in requests, decisions and reasons", () => {
  const { flows, read } = meter();
  flows.decided(aFlow(), aVerdict());
  flows.decided(aFlow(), aVerdict());
  for (const reason of [1, 2, 3, 4] as const)
    flows.decided(aFlow(), aVerdict({ accepted: false, reason }));
  const at = { control_point: "ingress", agent_group: "g" };
  assert.equal(read("flowcontrol_requests_total", at), 6);
  const types = "flowcontrol_decisions_total";
  assert.equal(read(types, { ...at, decision_type: "DECISION_TYPE_ACCEPTED" }), 2);
  assert.equal(read(types, { ...at, decision_type: "DECISION_TYPE_REJECTED" }), 4);
  const reasons = ["RATE_LIMITED", "NO_TOKENS", "NOT_SAMPLED", "NO_MATCHING_RAMP"];
  assert.equal(Object.keys(RejectReason).length, reasons.length + 1);
  for (const reason of reasons) {
    const reject_reason = `REJECT_REASON_${reason}`;
    assert.equal(read("flowcontrol_reject_reasons_total", { ...at, reject_reason }), 1, reason);
  }
});

test("a limiter is counted by the check's answer and by its own", () => {
  const { flows, read } = meter();
  const limiter = aComponent();
  const ramp = aComponent({ kind: "ramp_sampler", componentId: "root.1" });
  const asked = (dropped: boolean) => [
    aDecision({ component: limiter, dropped }),
    aDecision({ component: ramp }),
  ];
  flows.decided(aFlow(), aVerdict({ decisions: asked(false) }));
  for (let turn = 0; turn < 2; turn++)
    flows.decided(aFlow(), aVerdict({ accepted: false, reason: 1, decisions: asked(true) }));
  const name = "rate_limiter_counter_total";
  const accepted = { decision_type: "DECISION_TYPE_ACCEPTED" };
  const rejected = { decision_type: "DECISION_TYPE_REJECTED" };
  const p = { policy_name: "p", policy_hash: "h", component_id: "root.0" };
  assert.equal(read(name, { ...p, ...accepted, limiter_dropped: "false" }), 1);
  assert.equal(read(name, { ...p, ...rejected, limiter_dropped: "true" }), 2);
  assert.equal(read(name), 3);
  assert.equal(read("sampler_counter_total", { ...rejected, sampler_dropped: "false" }), 2);
  assert.equal(read("sampler_counter_total", { component_id: "root.1" }), 3);
});

test("classifiers count their runs, failed ones too", () => {
  const { flows, read } = meter();
  const runs = [aClassifier(), aClassifier({ error: 2 }), aClassifier({ classifierIndex: 1 })];
  flows.decided(aFlow(), aVerdict({ classifiers: runs }));
  assert.equal(read("classifier_counter_total", { classifier_index: "0" }), 2);
  assert.equal(read("classifier_counter_total", { classifier_index: "1" }), 1);
});

test("look-ups, ends and anomalies", () => {
  const { flows, read } = meter();
  for (const found of [true, false, false]) flows.lookedUp(found);
  flows.ended("ingress");
  flows.anomaly("baggage_dropped");
  flows.anomaly("baggage_dropped");
  assert.equal(read("service_lookups_total", { status: "OK" }), 1);
  assert.equal(read("service_lookups_total", { status: "Error" }), 2);
  assert.equal(read("flowcontrol_ends_total", { control_point: "ingress" }), 1);
  assert.equal(read("flowcontrol_requests_total"), undefined);
  assert.equal(read("sluice_anomalies_total", { kind: "baggage_dropped" }), 2);
});

test("missing labels by component, until the component is removed", () => {
  const { flows, read } = meter();
  const other = aComponent({ componentId: "root.1", kind: "sampler" });
  for (const what of ["key", "key", "tokens"] as const) flows.missingLabel(aComponent(), what);
  flows.missingLabel(other, "key");
  const count = (component_id: string, label: string) =>
    read("sluice_limiter_missing_labels_total", { component_id, label });
  assert.deepEqual([count("root.0", "key"), count("root.0", "tokens")], [2, 1]);
  assert.deepEqual([count("root.1", "key"), count("root.1", "tokens")], [1, undefined]);
  flows.keep({ components: [other], classifiers: [] });
  flows.missingLabel(aComponent(), "key");
  assert.deepEqual([count("root.0", "key"), count("root.1", "key")], [undefined, 1]);
});

test("a new plan with the same component goes on counting; a stopped one leaves no series", () => {
  const { flows, read } = meter();
  const [stays, goes] = [aComponent(), aComponent({ componentId: "gone" })];
  const both = [aDecision({ component: stays }), aDecision({ component: goes })];
  flows.decided(aFlow(), aVerdict({ decisions: both, classifiers: [aClassifier()] }));
  flows.keep({ components: [aComponent()], classifiers: [] });
  const name = "rate_limiter_counter_total";
  assert.equal(read(name, { component_id: "gone" }), undefined);
  assert.equal(read("classifier_counter_total"), undefined);
  // A check that was judged by the old plan ends after the swap.
  flows.decided(aFlow(), aVerdict({ decisions: both, classifiers: [aClassifier()] }));
  flows.decided(aFlow(), aVerdict({ decisions: [aDecision({ component: aComponent() })] }));
  assert.equal(read(name, { component_id: "gone" }), undefined);
  assert.equal(read("classifier_counter_total"), undefined);
  assert.equal(read(name, { component_id: "root.0" }), 3);
  flows.keep({ components: [stays, goes], classifiers: [] });
  flows.decided(aFlow(), aVerdict({ decisions: both }));
  assert.equal(read(name, { component_id: "gone" }), 1);
  assert.equal(read("flowcontrol_requests_total"), 4);
});

test("a component that is added shows the gauges that it reported before its series are kept", () => {
  const { flows, read } = meter();
  const scheduler = aComponent({ kind: "concurrency_scheduler", componentId: "root.1" });
  const gone = aComponent({ kind: "concurrency_scheduler", componentId: "root.2" });
  flows.keep({ components: [aComponent()], classifiers: [] });
  const found = { keys: 1, lowest: 20, highest: 30, lowestLatency: 5, highestLatency: 5 };
  for (const each of [scheduler, gone]) {
    flows.adapted(each, { summary: () => found });
    flows.loaded(each, { condition: "limiting", multiplier: 0.5, fillRate: 10, available: 3 });
  }
  flows.keep({ components: [aComponent(), scheduler], classifiers: [] });
  const limit = (component_id: string) =>
    read("sluice_adaptive_limit", { component_id, which: "highest" });
  assert.equal(limit("root.1"), 30);
  assert.equal(read("token_bucket_fill_rate", { component_id: "root.1" }), 10);
  assert.equal(limit("root.2"), undefined);
  flows.keep({ components: [aComponent(), scheduler, gone], classifiers: [] });
  assert.equal(limit("root.2"), undefined, "what was not kept is forgotten");
});

test("invented control points share one series; those of policies keep their own", async () => {
  const { flows, read, scrape } = meter(3);
  flows.keep({ components: [], classifiers: [], controlPoints: ["late-but-named"] });
  for (let turn = 0; turn < 50; turn++) flows.decided(aFlow(`invented-${turn}`), aVerdict());
  flows.decided(aFlow("late-but-named"), aVerdict());
  flows.decided(aFlow("_other"), aVerdict());
  const name = "flowcontrol_requests_total";
  assert.equal(read(name, { control_point: "invented-0" }), 1);
  assert.equal(read(name, { control_point: "_other" }), 48);
  assert.equal(read(name, { control_point: "late-but-named" }), 1);
  assert.equal(read(name), 52);
  await scrape();
});

test("a sweep removes control points that nobody uses and no policy names, and makes room for others", () => {
  const { flows, read } = meter(2);
  const name = "flowcontrol_requests_total";
  const shown = (...points: readonly string[]) =>
    points.filter((control_point) => read(name, { control_point }) !== undefined);
  const decided = (...points: readonly string[]) => {
    for (const point of points) flows.decided(aFlow(point), aVerdict());
  };
  flows.keep({ components: [], classifiers: [], controlPoints: ["named"] });
  decided("named", "used", "idle", "too-many");
  assert.deepEqual(shown("named", "used", "idle", "too-many"), ["named", "used", "idle"]);
  flows.sweep();
  decided("used");
  flows.sweep();
  assert.deepEqual(shown("named", "used", "idle"), ["named", "used"]);
  decided("too-many");
  assert.deepEqual(shown("too-many"), ["too-many"], "there is room again");
  flows.keep({ components: [], classifiers: [], controlPoints: [] });
  flows.ended("named");
  flows.sweep();
  assert.deepEqual(shown("named"), ["named"], "it was used");
  flows.sweep();
  assert.deepEqual(shown("named", "used", "too-many"), []);
});

test("ends that name no control point count for those without a row of their own", () => {
  const { flows, read } = meter();
  flows.ended("");
  assert.equal(read("flowcontrol_ends_total", { control_point: "_other" }), 1);
});

test("over-long control points and those that are no text never become labels", async () => {
  const { flows, read, scrape } = meter();
  for (const odd of ["x".repeat(257), "\ud800", "\udfff"]) flows.decided(aFlow(odd), aVerdict());
  assert.equal(read("flowcontrol_requests_total", { control_point: "_other" }), 3);
  await scrape();
});

test("the control points that were seen are listed with the types and services of their flows", () => {
  const { flows } = meter();
  flows.decided(aFlow("b"), aVerdict());
  flows.decided({ ...aFlow("a"), services: ["y", "x"] }, aVerdict());
  flows.decided({ ...aFlow("a"), type: "feature", services: ["x"] }, aVerdict());
  assert.deepEqual(
    flows.seen.map(({ controlPoint, type, service }) => `${controlPoint} ${type} ${service}`),
    ["a feature x", "a feature y", "a http x", "a http y", "b http "],
  );
});
