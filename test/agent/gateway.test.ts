// An agent that forwards the JSON routes to another server.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { memoryStore } from "#store/memory.ts";
import { folderOf } from "../kit/folder.ts";
import { authority } from "../kit/servers/tls.ts";
import { call, passes } from "../kit/sluice/check.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { agentOn, closed, publish } from "./setup.ts";

test("with a gateway address, the other server answers the JSON routes", async (t) => {
  const store = memoryStore();
  await publish(store, closed());
  const judging = await agentOn(t, {}, { store });
  const gateway = await agentOn(t, {
    SVC_AGENT_SERVER_GRPC_GATEWAY_GRPC_SERVER_ADDRESS: judging.address,
  });
  assert.equal(await passes(gateway.address, "shop"), false);
  assert.equal(await passes(gateway.address, "elsewhere"), true);
  const direct = await call(judging.address, "POST", "/v1/flowcontrol/checkhttp", {
    control_point: "shop",
  });
  const forwarded = await call(gateway.address, "POST", "/v1/flowcontrol/checkhttp", {
    control_point: "shop",
  });
  const shape = (value: unknown): unknown =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, shape(inner)]))
      : typeof value;
  assert.deepEqual(shape(JSON.parse(forwarded.body)), shape(JSON.parse(direct.body)));
  const bad = await call(gateway.address, "POST", "/v1/flowcontrol/checkhttp", {});
  assert.deepEqual([bad.status, JSON.parse(bad.body).message], [400, "missing control-point"]);

  const name = "sluice_access_log_records_total";
  const spans = readFileSync("test/cases/otlp/opentelemetry-js-2.12.1.traces.json", "utf8");
  const taken = await call(gateway.address, "POST", "/v1/traces", JSON.parse(spans));
  assert.deepEqual([taken.status, taken.body], [200, "{}"]);
  const none = { resourceLogs: [{ scopeLogs: [{ logRecords: [{}, {}] }] }] };
  const rejected = await call(gateway.address, "POST", "/v1/logs", none);
  assert.equal(JSON.parse(rejected.body).partialSuccess.rejectedLogRecords, "2");
  assert.deepEqual(await counted(judging.address, name, "result"), { taken: 1, unknown_source: 2 });
  assert.deepEqual(await counted(gateway.address, name, "result"), {});
});

test("the gateway has TLS files of its own: the other server may insist on a client name", async (t) => {
  const folder = folderOf(t);
  const ca = authority(folder, "ca");
  const [server, client] = [ca.issue("server"), ca.issue("gateway.example")];
  const store = memoryStore();
  await publish(store, closed());
  const judging = await agentOn(
    t,
    {
      SVC_AGENT_SERVER_TLS_ENABLED: "true",
      SVC_AGENT_SERVER_TLS_CERT_FILE: server.certFile,
      SVC_AGENT_SERVER_TLS_KEY_FILE: server.keyFile,
      SVC_AGENT_SERVER_TLS_CLIENT_CA_FILE: ca.certFile,
      SVC_AGENT_SERVER_TLS_ALLOWED_CN: "gateway.example",
    },
    { store },
  );
  // By name, as the gRPC library cannot check the certificate of an IP address.
  const address = judging.address.replace("127.0.0.1", "localhost");
  const forwarding = (files: Readonly<Record<string, string>>) =>
    agentOn(t, {
      SVC_AGENT_SERVER_GRPC_GATEWAY_GRPC_SERVER_ADDRESS: address,
      SVC_AGENT_SERVER_GRPC_GATEWAY_TLS_ENABLED: "true",
      SVC_AGENT_SERVER_GRPC_GATEWAY_TLS_CA_FILE: ca.certFile,
      ...files,
    });
  const gateway = await forwarding({
    SVC_AGENT_SERVER_GRPC_GATEWAY_TLS_CERT_FILE: client.certFile,
    SVC_AGENT_SERVER_GRPC_GATEWAY_TLS_KEY_FILE: client.keyFile,
  });
  assert.equal(await passes(gateway.address, "shop"), false);
  assert.equal(await passes(gateway.address, "elsewhere"), true);
  const nameless = await forwarding({});
  const body = { control_point: "shop" };
  const { status } = await call(nameless.address, "POST", "/v1/flowcontrol/checkhttp", body);
  assert.equal(status, 503);
});

test("a gateway forwards every JSON route of flow control", async (t) => {
  const local = await agentOn(t);
  // Nothing listens at this address, so forwarding fails.
  const gateway = await agentOn(t, {
    SVC_AGENT_SERVER_GRPC_GATEWAY_GRPC_SERVER_ADDRESS: "127.0.0.1:1",
  });
  const page = await call(local.address, "GET", "/");
  const all = new Set(page.body.match(/\/v1\/flowcontrol\/[a-z/]+/g));
  // The control points that this agent has seen are its own.
  const paths = [...all].filter((path) => path !== "/v1/flowcontrol/controlpoints");
  assert.ok(paths.length >= 3, page.body);
  for (const path of paths) {
    const body = { control_point: "shop" };
    const { status } = await call(gateway.address, "POST", path, body);
    assert.equal(status, 503, path);
  }
});
