// Counts of workloads: by decision, by tokens, and bounded in number (D-37).

import assert from "node:assert/strict";
import { test } from "node:test";
import { WorkloadCounts } from "#telemetry/flows/counts/workload-counts.ts";
import type { MetricSink } from "#telemetry/metrics/table.ts";
import { aComponent, aDecision } from "../kit.ts";

const COMPONENT = ["p", "h", "root.0"];

/** The samples of the counts, as `name{labels} value`; summaries as sum/count. */
function samplesOf(counts: WorkloadCounts): readonly string[] {
  const samples: string[] = [];
  const sink: MetricSink = {
    wants: () => true,
    number: (name, labels, value) => samples.push(`${name}{${labels.slice(3)}} ${value}`),
    buckets: () => undefined,
    summary: (name, labels, { sum, count }) =>
      samples.push(`${name}{${labels.slice(3)}} ${sum}/${count}`),
  };
  counts.collect(sink, COMPONENT);
  return samples;
}

function decision(workload: string, dropped = false) {
  const counts = { label: "", value: undefined, remaining: 0, current: 0, consumed: 1 };
  const component = aComponent({ kind: "quota_scheduler" });
  return aDecision({ component, dropped, detail: { ...counts, workload, priority: 1 } });
}

test("counts decisions, tokens, waits and what was overtaken", () => {
  const counts = new WorkloadCounts();
  counts.decided(decision("w"), true);
  counts.decided(decision("w", true), false);
  const flow = { workload: "w", tokens: 2, queued: true, waitedMs: 30 };
  for (let at = 0; at < 4; at++) counts.queued();
  counts.scheduled({ ...flow, passed: true, preempted: 5, preemptedInWorkload: 0 });
  counts.scheduled({ ...flow, passed: true, preempted: -3, preemptedInWorkload: undefined });
  counts.scheduled({
    ...flow,
    passed: false,
    preempted: undefined,
    preemptedInWorkload: undefined,
  });
  counts.completed("w", 12);
  assert.deepEqual(samplesOf(counts), [
    "incoming_tokens_total{} 6",
    "accepted_tokens_total{} 4",
    "rejected_tokens_total{} 2",
    "sluice_scheduler_waiting_flows{} 1",
    "workload_requests_total{w,DECISION_TYPE_ACCEPTED,false} 1",
    "workload_requests_total{w,DECISION_TYPE_REJECTED,true} 1",
    "workload_latency_ms{w} 12/1",
    "request_in_queue_duration_ms{w} 90/3",
    "workload_preempted_tokens{w} 5/1",
    "workload_delayed_tokens{w} 3/1",
    "fairness_on_time_total{w} 1",
  ]);
});

test("counts further workloads together: labels choose their names (D-37)", () => {
  const counts = new WorkloadCounts();
  for (let at = 0; at < 150; at++) counts.decided(decision(`w${at}`), true);
  for (const odd of ["x".repeat(200), "\ud800"]) counts.decided(decision(odd), true);
  const samples = samplesOf(counts);
  assert.equal(samples.length, 101);
  assert.equal(samples.at(-1), "workload_requests_total{_other,DECISION_TYPE_ACCEPTED,false} 52");
});
