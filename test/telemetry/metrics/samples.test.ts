import assert from "node:assert/strict";
import { test } from "node:test";
import { FlowMetrics } from "#telemetry/flows/flow-metrics.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { ServerMetrics } from "#telemetry/metrics/server.ts";
import type { MetricSource } from "#telemetry/metrics/table.ts";
import { aComponent, aDecision, aFlow, aVerdict } from "../kit.ts";

const PLAIN = { enable_go_metrics: false, enable_process_collector: false, pedantic: true };
const BUCKETS = { latency_buckets_ms: [10, 25] };

function traffic() {
  const metrics = new Metrics(PLAIN);
  const flows = new FlowMetrics({ agent_group: "default" });
  const server = new ServerMetrics({ grpc: BUCKETS, http: BUCKETS });
  metrics.add(flows);
  metrics.add(server);
  const dropped = aDecision({ component: aComponent(), dropped: true });
  flows.decided(aFlow(), aVerdict());
  flows.decided(aFlow(), aVerdict({ accepted: false, reason: 1, decisions: [dropped] }));
  for (const ms of [1, 20, 3_000]) server.httpRequest("GET", 200, "/a", ms);
  return { metrics, flows };
}

/** One line per sample, labels sorted, as a page writes them. */
function lines(metrics: Metrics, wanted: (name: string) => boolean): string[] {
  return [...metrics.samples(wanted)].map(({ labels: { __name__, ...labels }, value }) => {
    const pairs = Object.entries(labels).map(([key, text]) => `${key}="${text}"`);
    return `${__name__}{${pairs.sort().join(",")}} ${value}`;
  });
}

test("samples are those of the page, line by line", async () => {
  const { metrics } = traffic();
  const { body } = await metrics.scrape();
  const page = body
    .split("\n")
    .filter((line) => /^[a-z]/.test(line))
    .map((line) => {
      const [, name = "", labels = "", value = ""] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      const pairs = (labels.match(/\w+="[^"]*"/g) ?? []).filter((pair) => !pair.endsWith('=""'));
      return `${name}{${pairs.sort().join(",")}} ${value}`;
    });
  assert.ok(page.length > 10);
  assert.deepEqual(lines(metrics, () => true).sort(), page.sort());
});

test("only the wanted parts of a histogram are returned, cumulative", () => {
  const { metrics } = traffic();
  const of = (name: string) =>
    lines(metrics, (found) => found === name).map((line) => line.replace(/http_\w+="\w+",/g, ""));
  assert.deepEqual(
    of("http_requests_latency_ms_bucket"),
    [
      'http_requests_latency_ms_bucket{handler_name="/a",http_method="GET",http_status_code="200",le="10"} 1',
      'http_requests_latency_ms_bucket{handler_name="/a",http_method="GET",http_status_code="200",le="25"} 2',
      'http_requests_latency_ms_bucket{handler_name="/a",http_method="GET",http_status_code="200",le="+Inf"} 3',
    ].map((line) => line.replace(/http_\w+="\w+",/g, "")),
  );
  assert.equal(of("http_requests_latency_ms_sum")[0]?.split(" ")[1], "3021");
  assert.equal(of("http_requests_latency_ms_count")[0]?.split(" ")[1], "3");
  assert.deepEqual(of("http_requests_latency_ms"), [], "the family's name is no series");
});

test("unwanted metrics are not collected, and `wanted` is called once for each name", () => {
  const { metrics } = traffic();
  const contradictory: MetricSource = {
    collect: (to) => to.number("service_lookups_total", ["too", "many"], 1),
  };
  metrics.add(contradictory);
  const asked: string[] = [];
  const found = lines(metrics, (name) => {
    asked.push(name);
    return name === "flowcontrol_requests_total";
  });
  assert.deepEqual(found, [
    'flowcontrol_requests_total{agent_group="default",control_point="ingress"} 2',
  ]);
  assert.equal(new Set(asked).size, asked.length);
});

test("labels with an empty value are absent in every metric", () => {
  const metrics = new Metrics(PLAIN);
  metrics.add({
    collect(to) {
      to.number("http_requests_total", ["GET", "", "/a"], 1);
      to.buckets("http_requests_latency_ms", ["", "", ""], { bounds: [], counts: [1], sum: 2 });
      to.summary("signal_reading", ["S", "", "p"], { quantiles: [], values: [], sum: 3, count: 1 });
    },
  });
  assert.deepEqual(lines(metrics, () => true).sort(), [
    'http_requests_latency_ms_bucket{le="+Inf"} 1',
    "http_requests_latency_ms_count{} 1",
    "http_requests_latency_ms_sum{} 2",
    'http_requests_total{handler_name="/a",http_method="GET"} 1',
    'signal_reading_count{policy_name="p",signal_name="S"} 1',
    'signal_reading_sum{policy_name="p",signal_name="S"} 3',
  ]);
});

test("values are those at the time of the call, not of the iteration", () => {
  const { metrics, flows } = traffic();
  const then = metrics.samples((name) => name === "flowcontrol_requests_total");
  flows.decided(aFlow(), aVerdict());
  assert.deepEqual(
    [...then].map(({ value }) => value),
    [2],
  );
});
