import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import { FinishedFlows } from "#telemetry/flows/finished-flows.ts";
import { FlowMetrics } from "#telemetry/flows/flow-metrics.ts";
import { FluxMeters } from "#telemetry/flows/flux-meter.ts";
import { UnreportedFlows } from "#telemetry/flows/unreported-flows.ts";
import { CircuitMetrics } from "#telemetry/metrics/circuits.ts";
import { Metrics, metricsRoute } from "#telemetry/metrics/metrics.ts";
import { metricsPage } from "#telemetry/metrics/page.ts";
import { PolicyMetrics } from "#telemetry/metrics/policies.ts";
import { ServerMetrics } from "#telemetry/metrics/server.ts";
import { METRICS, type MetricSource } from "#telemetry/metrics/table.ts";
import { callRoute } from "../../kit/clients/route.ts";
import { aClassifier, aComponent, aDecision, aFlow, aFluxMeter, aVerdict } from "../kit.ts";

const PLAIN = { enable_go_metrics: false, enable_process_collector: false, pedantic: true };
const BUCKETS = { latency_buckets_ms: [10, 25] };

/** Every event once, so that every metric of the table has a series. */
function everything(): Metrics {
  const metrics = new Metrics(PLAIN);
  const flows = new FlowMetrics({ agent_group: "default" });
  const server = new ServerMetrics({ grpc: BUCKETS, http: BUCKETS });
  const policies = new PolicyMetrics();
  const meters = new FluxMeters();
  const unreported = new UnreportedFlows(1);
  const log = new FinishedFlows(meters, () => [{ returned: true, error: "" }], unreported);
  const circuits = new CircuitMetrics();
  // Counted by what sends them, which calls other servers.
  const alerts: MetricSource = {
    collect: (to) => to.number("sluice_alerts_total", ["p", "sent"], 1),
  };
  // The controller knows what policies cannot do.
  const warnings: MetricSource = {
    collect: (to) => to.number("sluice_policy_warnings", ["p", "not_run"], 1),
  };
  server.certificate("tls.crt", () => ({ left: 60, lifetime: 300 }));
  // Counted by the controller's samples of these metrics.
  const samples: MetricSource = {
    collect(to) {
      to.number("sluice_query_samples_series", [], 1);
      to.number("sluice_query_samples_lost_total", [], 0);
    },
  };
  // Counted by the injector, which needs a Kubernetes cluster.
  const injector: MetricSource = {
    collect(to) {
      to.number("sluice_injector_reviews_total", ["injected"], 1);
      const counts = [1, 0];
      to.buckets("sluice_injector_review_duration_ms", [], { bounds: [1], counts, sum: 1 });
      to.number("sluice_injector_missed_pods", [], 1);
    },
  };
  // Counted by the parts that need servers of their own: shared counters, remote write and the store.
  const servers: MetricSource = {
    collect(to) {
      to.number("sluice_counter_engine_up", ["redis"], 1);
      to.number("sluice_counter_engine_transitions_total", ["redis", "away"], 1);
      to.number("sluice_counter_requests_total", ["redis", "answered"], 1);
      to.number("sluice_counter_slot_ends_total", ["redis", "answered"], 1);
      to.number("sluice_policy_checkpoints_total", ["written"], 1);
      to.number("sluice_peers", [], 1);
      to.number("sluice_peer_records_refused_total", [], 0);
      to.number("sluice_remote_write_samples_total", ["sent"], 1);
      to.number("sluice_remote_write_waiting_bytes", [], 0);
      to.number("sluice_dependency_degraded", ["store"], 1);
      to.number("sluice_discovery_addresses", [], 1);
      to.number("sluice_discovery_addresses_left_out", [], 1);
      to.number("sluice_rules_kept", [], 1);
      to.number("sluice_rules_refused", ["none"], 1);
      to.number("sluice_rules_from_snapshot", [], 1);
      to.number("sluice_rule_snapshots_total", ["success"], 1);
      to.number("sluice_counter_takes_total", ["x", "x"], 1);
      to.number("sluice_counter_followed_keys", ["x"], 1);
      to.number("sluice_counter_lost_debts_total", ["x"], 1);
      to.number("sluice_discovery_published", [], 1);
      to.number("sluice_reservations", [], 1);
      to.number("sluice_check_wait_seconds", [], 0);
      to.number("sluice_shed_share", [], 0);
      to.number("sluice_checks_in_progress", [], 0);
      to.number("sluice_access_log_streams", [], 1);
      to.number("sluice_access_log_streams_refused_total", ["x"], 1);
      to.number("sluice_flow_end_settlements_total", ["x"], 1);
      to.number("sluice_injector_unread_namespaces_total", [], 1);
      to.number("sluice_discovery_lookups_total", ["x"], 1);
      to.number("sluice_scaled_objects", ["x"], 1);
      to.number("sluice_scale_attempts_total", ["x"], 1);
      to.number("sluice_counter_members", [], 1);
      to.number("sluice_counter_buckets_moved_total", ["x"], 1);
      to.number("sluice_counter_hand_overs_missed_total", [], 1);
      to.number("sluice_counter_copies_lost_total", [], 1);
      to.number("sluice_counter_probes_refused_total", [], 1);
      to.number("sluice_agent_requests_total", ["x"], 1);
      to.number("sluice_agent_calls_total", ["x"], 1);
      to.number("sluice_agents", ["x"], 1);
      to.number("sluice_leader", [], 1);
      to.number("sluice_leader_since_seconds", [], 1);
    },
  };
  const sent = [alerts, warnings, samples, servers];
  for (const source of [
    flows,
    server,
    policies,
    meters,
    log,
    circuits,
    unreported,
    injector,
    ...sent,
  ])
    metrics.add(source);
  const decisions = (["rate_limiter", "concurrency_limiter", "sampler"] as const).map((kind) =>
    aDecision({ component: aComponent({ kind, componentId: kind }), dropped: true }),
  );
  flows.decided(
    aFlow(),
    aVerdict({ accepted: false, reason: 1, decisions, classifiers: [aClassifier()] }),
  );
  const scheduler = aComponent({ kind: "load_scheduler", componentId: "root.9" });
  const counts = { label: "w", value: undefined, remaining: 0, current: 0, consumed: 1 };
  const detail = { ...counts, workload: "w", priority: 1 };
  flows.decided(
    aFlow("queue"),
    aVerdict({ decisions: [aDecision({ component: scheduler, detail })] }),
  );
  for (const tokens of [-1, 0, 1]) {
    const overtook = { preempted: tokens, preemptedInWorkload: tokens };
    const queued = { workload: "w", tokens: 1, passed: tokens > 0, queued: false, waitedMs: 5 };
    flows.scheduled(scheduler, { ...queued, ...overtook });
  }
  flows.queued(scheduler);
  flows.settled(scheduler, "committed", 2);
  const found = { keys: 1, lowest: 20, highest: 20, lowestLatency: 5, highestLatency: 5 };
  flows.adapted(scheduler, { summary: () => found });
  flows.loaded(scheduler, { condition: "limiting", multiplier: 0.5, fillRate: 10, available: 3 });
  flows.completed({ policyName: "p", policyHash: "h", componentId: "root.9", workload: "w" }, 7);
  flows.ended("ingress");
  flows.lookedUp(true);
  flows.anomaly("late");
  flows.shed("queue", true, "delay");
  flows.missingLabel(aComponent(), "tokens");
  meters.keep([aFluxMeter()]);
  for (const number of [() => 7, () => undefined])
    meters.observe(["m"], { accepted: true, statusCode: "200", status: "OK", number });
  for (let at = 0; at < 3; at++) {
    log.consume(new Map(Object.entries({ "aperture.source": "envoy", "x-request-id": `${at}` })));
    const http = { header: () => String(at) } as never;
    unreported.decided({ ...aFlow(), expectEnd: false, http }, aVerdict({ fluxMeters: ["m"] }));
  }
  log.consume(new Map());
  const record = { "aperture.source": "envoy", "aperture.check_response": "WgMKAW0=" };
  log.consume(new Map(Object.entries({ ...record, RESPONSE_DURATION: -1 })));
  // limiter_decisions { concurrency_limiter_info { request_id: "a" } }
  const slot = Buffer.from([0x62, 6, 0xc2, 1, 3, 0x1a, 1, 0x61]).toString("base64");
  log.consume(new Map(Object.entries({ ...record, "aperture.check_response": slot })));
  // reservation_id: "a"
  const reserved = Buffer.from([0x82, 0x7d, 1, 0x61]).toString("base64");
  log.consume(new Map(Object.entries({ ...record, "aperture.check_response": reserved })));
  const readings = [1, Number.NaN, Number.POSITIVE_INFINITY];
  const signals = readings.map((_, at) => ({ circuit: "root", name: `s${at}` }));
  const circuit = circuits.policy("p", signals);
  circuit.ticked(0, (at) => readings[at] ?? 0);
  circuit.skipped(1);
  circuit.fault("root.0", "decider");
  circuit.decided("sampler");
  circuits.ended("p", "late");
  circuits.retried("p");
  circuits.attempted(3);
  circuits.committed("success");
  policies.setDocuments({ loaded: 2, refused: 1 });
  const method = { path: "/pkg.S/M", service: "pkg.S", method: "M", type: "unary" } as const;
  server.grpcStarted(method);
  server.grpcReceived(method);
  server.grpcSent(method);
  server.grpcHandled(method, "NOT_FOUND", 12);
  server.httpRequest("GET", 404, "", 3);
  return metrics;
}

function namesIn(body: string): string[] {
  return [...body.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => `${name} ${type}`);
}

test("a scrape after every event has exactly the metrics of the table", async () => {
  const { body } = await everything().scrape();
  const listed = Object.entries(METRICS).map(([name, { type }]) => `${name} ${type}`);
  const silent = "sluice_metrics_inconsistent_total counter";
  assert.deepEqual(
    namesIn(body),
    listed.filter((line) => line !== silent),
  );
  for (const line of body.split("\n").filter((line) => /^[a-z]/.test(line))) {
    const [, series = "", labels = ""] = /^([a-z0-9_]+)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
    const name = series.replace(/_(bucket|sum|count)$/, "");
    assert.ok(name in METRICS || series in METRICS, line);
    const row = METRICS[(series in METRICS ? series : name) as keyof typeof METRICS];
    const keys = [...labels.matchAll(/([a-z_]+)="/g)].map(([, key]) => key);
    const wanted: string[] = [...row.labels];
    if (series.endsWith("_bucket")) wanted.push("le");
    if (series === name && row.type === "summary") wanted.push("quantile");
    assert.deepEqual(keys.sort(), wanted.sort(), line);
  }
});

test("a histogram is cumulative and ends with +Inf, sum and count", async () => {
  const { body } = await everything().scrape();
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
  const metrics = everything();
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
  const metrics = everything();
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
  const route = metricsRoute(everything());
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
