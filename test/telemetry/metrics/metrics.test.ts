import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import { FlowMetrics } from "#telemetry/flows/flow-metrics.ts";
import { Metrics, metricsRoute } from "#telemetry/metrics/metrics.ts";
import { METRICS, type MetricSource } from "#telemetry/metrics/table.ts";
import { callRoute } from "../../kit/clients/route.ts";
import { metricsPage } from "../../tools/reference/metrics-page.ts";
import { everyEvent, PLAIN } from "./every-event.ts";

function namesIn(body: string): string[] {
  return [...body.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => `${name} ${type}`);
}

test("a histogram is cumulative and ends with +Inf, sum and count", async () => {
  const { body } = await everyEvent().scrape();
  const shown = body.split("\n").filter((line) => line.startsWith("grpc_server_handling_seconds"));
  assert.deepEqual(
    shown.map((line) => line.replace(/grpc_(type|service|method)="[^"]*",?/g, "")),
    [
      'grpc_server_handling_seconds_bucket{le="0.01"} 0',
      'grpc_server_handling_seconds_bucket{le="0.025"} 1',
      'grpc_server_handling_seconds_bucket{le="+Inf"} 1',
      "grpc_server_handling_seconds_sum{} 0.012",
      "grpc_server_handling_seconds_count{} 1",
    ],
  );
});

test("OpenMetrics for clients that prefer it; the text page is still right afterwards", async () => {
  const metrics = everyEvent();
  const before = await metrics.scrape("text/plain");
  const open = await metrics.scrape("application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1");
  assert.match(open.contentType, /^application\/openmetrics-text; version=1\.0\.0/);
  assert.match(open.body, /^# TYPE flowcontrol_requests counter$/m);
  assert.match(open.body, /^flowcontrol_requests_total\{/m);
  assert.doesNotMatch(open.body, /total_total/);
  assert.match(open.body, /# EOF\n$/);
  assert.deepEqual(await metrics.scrape("text/plain"), before);
  assert.match(before.contentType, /^text\/plain; version=0\.0\.4/);
  for (const accept of ["", "*/*", "text/plain;q=1,application/openmetrics-text;q=0.5"])
    assert.equal((await metrics.scrape(accept)).contentType, before.contentType);
});

const LIAR: MetricSource = {
  collect(to) {
    to.number("service_lookups_total", ["OK"], 1);
    to.number("service_lookups_total", ["OK"], 2);
    to.number("flowcontrol_ends_total", ["only one"], 1);
    to.number("sluice_anomalies_total", ["late"], Number.NaN);
    to.buckets("grpc_server_handling_seconds", ["a", "b", "c"], {
      bounds: [1],
      counts: [1],
      sum: 1,
    });
  },
};

test("pedantic: a sample that contradicts the table fails the scrape", async () => {
  const metrics = new Metrics({ ...PLAIN, pedantic: true });
  const remove = metrics.add(LIAR);
  await assert.rejects(metrics.scrape(), (thrown) => {
    return thrown instanceof Fault && /service_lookups_total: duplicate/.test(thrown.message);
  });
  remove();
  await metrics.scrape();
});

test("not pedantic: the sample is left out and counted", async () => {
  const metrics = new Metrics({ ...PLAIN, pedantic: false });
  metrics.add(LIAR);
  const { body } = await metrics.scrape();
  assert.deepEqual(
    body.split("\n").filter((line) => /^[a-z]/.test(line)),
    ['service_lookups_total{status="OK"} 1', "sluice_metrics_inconsistent_total 4"],
  );
});

test("metrics are read in process by name and labels", () => {
  const metrics = everyEvent();
  assert.equal(metrics.read("flowcontrol_requests_total", { control_point: "ingress" }), 1);
  assert.equal(metrics.read("flowcontrol_requests_total", { control_point: "egress" }), undefined);
  assert.equal(metrics.read("grpc_server_handling_seconds"), 1);
  assert.equal(metrics.read("sluice_policies"), 3);
  assert.equal(metrics.read("sluice_policies", { colour: "red" }), undefined);
});

test("runtime and process collectors are separate, and their counters keep their names", async () => {
  const names = async (choice: { go: boolean; process: boolean }) => {
    const { go, process } = choice;
    const settings = { enable_go_metrics: go, enable_process_collector: process, pedantic: true };
    const metrics = new Metrics(settings);
    await metrics.scrape("application/openmetrics-text");
    return namesIn((await metrics.scrape()).body);
  };
  const go = await names({ go: true, process: false });
  const own = await names({ go: false, process: true });
  assert.ok(go.includes("nodejs_heap_size_used_bytes gauge"));
  assert.ok(go.every((name) => name.startsWith("nodejs_")));
  assert.ok(own.includes("process_cpu_seconds_total counter"));
  assert.ok(own.every((name) => name.startsWith("process_")));
});

test("the route replies in the requested format", async () => {
  const route = metricsRoute(everyEvent());
  const reply = await callRoute(route, { headers: { accept: "application/openmetrics-text" } });
  assert.equal(reply.status, 200);
  assert.match(reply.headers["content-type"] ?? "", /^application\/openmetrics-text/);
  assert.match(String(reply.body), /# EOF/);
});

test("label values are escaped, so that no caller can inject lines", async () => {
  const metrics = new Metrics(PLAIN);
  const flows = new FlowMetrics({ agent_group: "default" });
  metrics.add(flows);
  flows.ended('a"} 1\nforged_total 7\\');
  const { body } = await metrics.scrape();
  assert.match(body, /control_point="a\\"\} 1\\nforged_total 7\\\\"/);
  assert.doesNotMatch(body, /^forged/m);
});

test("the reference page is up to date", () => {
  assert.equal(readFileSync("docs/metrics.md", "utf8"), metricsPage());
});

test("every counter ends with _total", () => {
  for (const [name, { type }] of Object.entries(METRICS))
    if (type === "counter") assert.match(name, /_total$/);
});
