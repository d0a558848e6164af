import assert from "node:assert/strict";
import { test } from "node:test";
import { CODES, type Code } from "#base/fault.ts";
import { Metrics } from "#telemetry/metrics.ts";
import { ServerMetrics } from "#telemetry/server-metrics.ts";

function meter() {
  const metrics = new Metrics({
    ...{ enable_go_metrics: false, enable_process_collector: false, pedantic: true },
  });
  const buckets = { latency_buckets_ms: [100, 10, 25] };
  const server = new ServerMetrics({ grpc: buckets, http: buckets });
  metrics.add(server);
  return { server, read: metrics.read.bind(metrics), scrape: metrics.scrape.bind(metrics) };
}

test("HTTP requests by method, status and route; errors from 400 on", () => {
  const { server, read } = meter();
  server.http("GET", 200, "/v1/info/version", 1);
  server.http("GET", 399, "/v1/info/version", 1);
  server.http("GET", 400, "/v1/info/version", 1);
  server.http("GET", 404, "", 1);
  const at = { http_method: "GET", handler_name: "/v1/info/version" };
  assert.equal(read("http_requests_total", { ...at, http_status_code: "200" }), 1);
  assert.equal(read("http_requests_total", at), 3);
  assert.equal(read("http_errors_total", at), 1);
  assert.equal(read("http_errors_total", { handler_name: "_other" }), 1);
});

test("invented methods and routes cannot make series without end", () => {
  const { server, read } = meter();
  for (let turn = 0; turn < 5_000; turn++) {
    server.http(`M${turn}`, 405, "", 1);
    server.http("GET", 200, `/${turn}`, 1);
    server.grpcStarted("pkg.S", `M${turn}`);
  }
  assert.equal(read("http_requests_total", { http_method: "_other" }), 5_000);
  assert.equal(read("http_requests_total"), 10_000);
  assert.equal(read("grpc_server_started_total"), 5_000);
  assert.ok((read("grpc_server_started_total", { grpc_method: "_other" }) ?? 0) > 2_000);
});

test("gRPC seconds come from millisecond buckets, bounds inclusive and in order", async () => {
  const { server, scrape } = meter();
  for (const ms of [10, 10.5, 25, 99, 1_000]) server.grpcHandled("pkg.S", "M", "OK", ms);
  const { body } = await scrape();
  const buckets = [...body.matchAll(/le="([^"]+)"[^}]*\} (\d+)/g)].map(([, le, n]) => `${le}:${n}`);
  assert.deepEqual(buckets, ["0.01:1", "0.025:3", "0.1:4", "+Inf:5"]);
  assert.match(body, /grpc_server_handling_seconds_sum\{[^}]*\} 1\.1445/);
});

test("every code has its name, as a word or as a number", () => {
  const { server, read } = meter();
  for (const [code, { number }] of Object.entries(CODES)) {
    server.grpcHandled("pkg.S", "M", code as Code, 1);
    server.grpcHandled("pkg.S", "M", number, 1);
    const squashed = code.replaceAll("_", "").toLowerCase().replace("cancelled", "canceled");
    const found = ["OK", "Canceled", "DeadlineExceeded", "Unauthenticated"].find(
      (name) => name.toLowerCase() === squashed,
    );
    if (found !== undefined)
      assert.equal(read("grpc_server_handled_total", { grpc_code: found }), 2);
  }
  server.grpcHandled("pkg.S", "M", 77, 1);
  assert.equal(read("grpc_server_handled_total", { grpc_code: "Unknown" }), 3);
  assert.equal(read("grpc_server_handled_total"), 35);
});

test("described services tell the type of their calls", () => {
  const { server, read } = meter();
  const stream = (client: boolean, server: boolean) =>
    ({ kind: "stream", client, server }) as const;
  const methods = {
    Ask: { kind: "unary" } as const,
    Up: stream(true, false),
    Down: stream(false, true),
    Both: stream(true, true),
  };
  server.describe([{ name: "pkg.S", methods }]);
  for (const method of [...Object.keys(methods), "Unknown"]) {
    server.grpcStarted("pkg.S", method);
    server.received("pkg.S", method);
    server.sent("pkg.S", method);
  }
  for (const name of [
    ...(["grpc_server_started_total", "grpc_server_msg_received_total"] as const),
    "grpc_server_msg_sent_total" as const,
  ]) {
    assert.equal(read(name, { grpc_type: "unary" }), 2);
    assert.equal(read(name, { grpc_type: "client_stream", grpc_method: "Up" }), 1);
    assert.equal(read(name, { grpc_type: "server_stream", grpc_method: "Down" }), 1);
    assert.equal(read(name, { grpc_type: "bidi_stream", grpc_method: "Both" }), 1);
  }
});
