import assert from "node:assert/strict";
import { test } from "node:test";
import { CODES, type Code } from "#base/fault.ts";
import { HTTP2_FAULTS, REFUSED_CONNECTIONS, type ServerMeter } from "#base/server-meter.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { ServerMetrics } from "#telemetry/metrics/server.ts";
import { METRICS } from "#telemetry/metrics/table.ts";

function meter() {
  const metrics = new Metrics({
    enable_go_metrics: false,
    enable_process_collector: false,
    pedantic: true,
  });
  const buckets = { latency_buckets_ms: [100, 10, 25] };
  const server = new ServerMetrics({ grpc: buckets, http: buckets });
  metrics.add(server);
  const fits: ServerMeter = server;
  return { server: fits, read: metrics.read.bind(metrics), scrape: metrics.scrape.bind(metrics) };
}

type Type = "unary" | "client_stream" | "server_stream" | "bidi_stream";

function method(name: string, type: Type = "unary") {
  return { path: `/pkg.S/${name}`, service: "pkg.S", method: name, type };
}

test("HTTP requests by method, status and route; errors from 400 on", () => {
  const { server, read } = meter();
  server.httpRequest("GET", 200, "/v1/info/version", 1);
  server.httpRequest("GET", 399, "/v1/info/version", 1);
  server.httpRequest("GET", 400, "/v1/info/version", 1);
  server.httpRequest("GET", 404, "", 1);
  server.httpRequest("POST", 0, "/v1/flowcontrol/check", 1);
  const at = { http_method: "GET", handler_name: "/v1/info/version" };
  assert.equal(read("http_requests_total", { ...at, http_status_code: "200" }), 1);
  assert.equal(read("http_requests_total", at), 3);
  assert.equal(read("http_errors_total", at), 1);
  assert.equal(read("http_errors_total", { handler_name: "_other" }), 1);
  assert.equal(read("http_errors_total", { http_method: "POST", http_status_code: "499" }), 1);
  assert.equal(read("http_requests_latency_ms", at), 3);
});

test("invented HTTP methods share one series", () => {
  const { server, read } = meter();
  for (let turn = 0; turn < 1_000; turn++) server.httpRequest(`M${turn}`, 405, "", 1);
  assert.equal(read("http_requests_total", { http_method: "_other" }), 1_000);
});

test("gRPC seconds come from millisecond buckets, bounds inclusive and in order", async () => {
  const { server, scrape } = meter();
  for (const ms of [10, 10.5, 25, 99, 1_000]) server.grpcHandled(method("M"), "OK", ms);
  const { body } = await scrape();
  const buckets = [...body.matchAll(/le="([^"]+)"[^}]*\} (\d+)/g)].map(([, le, n]) => `${le}:${n}`);
  assert.deepEqual(buckets, ["0.01:1", "0.025:3", "0.1:4", "+Inf:5"]);
  assert.match(body, /grpc_server_handling_seconds_sum\{[^}]*\} 1\.1445/);
});

test("every code has its own name", () => {
  const { server, read } = meter();
  const codes = Object.keys(CODES) as Code[];
  const named = (code: Code) =>
    code === "OK" ? code : code.toLowerCase().replaceAll(/(?:^|_)(.)/g, (_, c) => c.toUpperCase());
  for (const [at, code] of codes.entries())
    for (let turn = 0; turn <= at; turn++) server.grpcHandled(method("M"), code, 1);
  for (const [at, code] of codes.entries()) {
    // The one name that the two spell differently.
    const grpc_code = code === "CANCELLED" ? "Canceled" : named(code);
    assert.equal(read("grpc_server_handled_total", { grpc_code }), at + 1, code);
  }
});

test("calls and messages by method and type", () => {
  const { server, read } = meter();
  const types: Type[] = ["unary", "client_stream", "server_stream", "bidi_stream"];
  for (const grpc_type of types) {
    const called = method(grpc_type, grpc_type);
    server.grpcStarted(called);
    for (let turn = 0; turn < 2; turn++) server.grpcReceived(called);
    for (let turn = 0; turn < 3; turn++) server.grpcSent(called);
    const at = { grpc_type, grpc_service: "pkg.S", grpc_method: grpc_type };
    assert.equal(read("grpc_server_started_total", at), 1);
    assert.equal(read("grpc_server_msg_received_total", at), 2);
    assert.equal(read("grpc_server_msg_sent_total", at), 3);
    assert.equal(read("grpc_server_handled_total", at), undefined);
  }
});

test("every HTTP/2 fault is exported from the start as 0 and counted under its own name", () => {
  const { server, read } = meter();
  for (const fault of HTTP2_FAULTS) assert.equal(read("http2_server_faults_total", { fault }), 0);
  for (const [at, fault] of HTTP2_FAULTS.entries())
    for (let turn = 0; turn <= at; turn++) server.http2Fault(fault);
  for (const [at, fault] of HTTP2_FAULTS.entries())
    assert.equal(read("http2_server_faults_total", { fault }), at + 1, fault);
});

test("every reason to refuse a connection is exported from the start as 0 and counted under its own name", () => {
  const { server, read } = meter();
  const refused = (reason: string) => read("server_refused_connections_total", { reason });
  for (const reason of REFUSED_CONNECTIONS) assert.equal(refused(reason), 0);
  for (const [at, reason] of REFUSED_CONNECTIONS.entries())
    for (let turn = 0; turn <= at; turn++) server.connectionRefused(reason);
  for (const [at, reason] of REFUSED_CONNECTIONS.entries())
    assert.equal(refused(reason), at + 1, reason);
});

test("the description of refused connections lists every reason, and nothing else", () => {
  const { about } = METRICS.server_refused_connections_total;
  const listed = [...about.matchAll(/`([a-z0-9_]+)`/g)].map(([, reason]) => reason);
  assert.deepEqual(listed.toSorted(), REFUSED_CONNECTIONS.toSorted());
});
