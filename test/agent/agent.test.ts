// A whole agent: its ports and what they expose, and when it is ready.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { memoryStore } from "#store/memory.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { folderOf } from "../kit/folder.ts";
import { freePort } from "../kit/free-port.ts";
import { call, passes } from "../kit/sluice/check.ts";
import type { LogLine } from "../kit/sluice/log.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { storeWith } from "../kit/sluice/stored.ts";
import { until } from "../kit/until.ts";
import { agentOn, closed, publish, warnings } from "./setup.ts";

test("what other machines can use without TLS is named in one warning at start; on loopback there is none", async (t) => {
  const open = await agentOn(t, { SVC_AGENT_SERVER_LISTENER_ADDR: "0.0.0.0:0" });
  const [warning, ...rest] = warnings(open);
  assert.deepEqual(rest, []);
  assert.match(warning?.message ?? "", /without TLS.*; bind server\.listener\.addr to loopback/);
  const { routes, ...fields } = warning?.fields ?? {};
  assert.deepEqual(routes, [
    "/v1/flowcontrol/checkhttp",
    "/v1/flowcontrol/check",
    "/v1/flowcontrol/flowend",
    "/v1/logs",
    "/v1/traces",
    "/healthz",
    "/v1/status/system/liveness",
    "/v1/status/system/readiness",
    "/metrics",
  ]);
  assert.deepEqual(fields, {
    address: open.ports.main.address,
    grpc: [
      "envoy.service.auth.v3.Authorization",
      "aperture.flowcontrol.checkhttp.v1.FlowControlServiceHTTP",
      "aperture.flowcontrol.check.v1.FlowControlService",
      "opentelemetry.proto.collector.logs.v1.LogsService",
      "opentelemetry.proto.collector.trace.v1.TraceService",
      "envoy.service.accesslog.v3.AccessLogService",
    ],
  });
  const local = await agentOn(t);
  assert.deepEqual(warnings(local), []);
});

test("the log says what administration requires of other machines", async (t) => {
  const about = (lines: readonly LogLine[]) =>
    lines.find(({ message }) => message.includes("administration")) ?? assert.fail();
  const addr = { SVC_AGENT_SERVER_LISTENER_ADDR: "0.0.0.0:0" };
  const refused = about((await agentOn(t, addr)).lines);
  assert.equal(refused.level, "info");
  assert.match(
    refused.message,
    /is refused .* server\.administration\.token or client certificates/,
  );

  const insecure = { ...addr, SVC_AGENT_SERVER_ADMINISTRATION_INSECURE: "true" };
  const open = about((await agentOn(t, insecure)).lines);
  assert.equal(open.level, "warn");
  assert.match(
    open.message,
    /without a credential, because server\.administration\.insecure is true/,
  );
  assert.deepEqual(open.fields["routes"], [
    "/v1/peers",
    "/v1/flowcontrol",
    "/v1/discovery",
    "/v1/status",
    "/v1/info",
    "/debug/pprof",
  ]);

  const token = "correct-horse-battery-staple";
  const guarded = await agentOn(t, { ...addr, SVC_AGENT_SERVER_ADMINISTRATION_TOKEN: token });
  assert.match(about(guarded.lines).message, /the token .* unencrypted; turn server\.tls on/);
  assert.equal(JSON.stringify(guarded.lines).includes(token), false);
});

/** The status of a route of administration, one of the data plane, and two that are open. */
async function statusesAt(address: string): Promise<readonly number[]> {
  const status = async (method: string, path: string, body?: object) =>
    (await call(address, method, path, body)).status;
  return [
    await status("GET", "/v1/status"),
    await status("POST", "/v1/flowcontrol/checkhttp", { control_point: "shop" }),
    await status("GET", "/v1/status/system/readiness"),
    await status("GET", "/metrics"),
  ];
}

test("administration can be switched off", async (t) => {
  const { address } = await agentOn(t, {
    SVC_AGENT_SERVER_ADMINISTRATION_ENABLED: "false",
    SVC_AGENT_SERVER_GRPC_ENABLE_REFLECTION: "true",
  });
  assert.deepEqual(await statusesAt(address), [404, 200, 200, 200]);
  const unimplemented = await grpcClient(t, address).unary(
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    Buffer.of(),
  );
  assert.equal(unimplemented.code, 12);
});

test("administration can have an address of its own, which the main port then does not serve", async (t) => {
  const path = join(folderOf(t), "administration.sock");
  for (const addr of ["127.0.0.1:0", `unix:${path}`]) {
    const { address, ports, lines } = await agentOn(t, {
      SVC_AGENT_SERVER_LISTENER_ADDR: "0.0.0.0:0",
      SVC_AGENT_SERVER_ADMINISTRATION_ADDR: addr,
    });
    assert.deepEqual(
      await statusesAt(address.replace("0.0.0.0", "127.0.0.1")),
      [404, 200, 200, 200],
    );
    const own = ports.administration?.address ?? "";
    assert.ok(lines.some(({ message }) => message === `administration listens on ${own}`));
    assert.equal(
      lines.some(({ message }) => /administration is refused/.test(message)),
      false,
    );
    if (addr.startsWith("unix:")) assert.equal(await unixStatus(path, "/v1/status"), 200);
    else assert.deepEqual(await statusesAt(own), [200, 404, 200, 404]);
  }
});

function unixStatus(socketPath: string, path: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    // A browser cannot reach the socket, so any host will do.
    const headers = { host: "any.example" };
    const outgoing = request({ socketPath, path, headers, agent: false }, (reply) => {
      reply.resume();
      resolve(reply.statusCode);
    });
    outgoing.on("error", reject);
    outgoing.end();
  });
}

test("an address of administration that cannot be used is named by its key", async (t) => {
  const { address } = await agentOn(t);
  await assert.rejects(
    agentOn(t, { SVC_AGENT_SERVER_ADMINISTRATION_ADDR: address }),
    /cannot listen on server\.administration\.addr: the address is in use/,
  );
});

test("the debug port is named too when other machines reach it", async (t) => {
  const free = await freePort();
  const open = await agentOn(t, {
    SVC_AGENT_SERVER_LISTENER_ADDR: "0.0.0.0:0",
    SVC_AGENT_OTEL_PORTS_DEBUG_PORT: String(free),
  });
  const [warning, , ...rest] = warnings(open);
  assert.deepEqual(rest, []);
  assert.deepEqual(warning?.fields, { address: `0.0.0.0:${free}`, routes: ["/metrics"] });
  assert.match(warning?.message ?? "", /without TLS/);
});

test("the debug port carries /metrics and nothing else", async (t) => {
  const free = await freePort();
  const { ports } = await agentOn(t, { SVC_AGENT_OTEL_PORTS_DEBUG_PORT: String(free) });
  const debug = ports.telemetry.get("debug_port") ?? "";
  assert.equal(debug, `127.0.0.1:${free}`);
  assert.equal((await call(debug, "GET", "/metrics")).status, 200);
  assert.equal((await call(debug, "GET", "/v1/status")).status, 404);
});

test("an agent runs without a debug port that is taken, unless it was configured explicitly", async (t) => {
  const rival = createServer();
  await new Promise<void>((resolve) => rival.listen(0, "127.0.0.1", resolve));
  t.after(() => new Promise<void>((resolve) => void rival.close(() => resolve())));
  const address = rival.address();
  assert.ok(address !== null && typeof address === "object");
  const env = { SVC_AGENT_OTEL_PORTS_DEBUG_PORT: String(address.port) };
  const without = await agentOn(t, env, { debugPortByDefault: true });
  assert.equal(without.ports.telemetry.get("debug_port"), undefined);
  assert.ok(
    without.lines.some(
      ({ level, message }) => level === "warn" && /debug_port is not opened/.test(message),
    ),
  );
  await assert.rejects(agentOn(t, env), /otel\.ports\.debug_port/);
});

test("spans and access logs arrive over HTTP as exporters send them: protobuf or JSON, gzip or not", async (t) => {
  const { address } = await agentOn(t);
  const files = readdirSync("test/cases/otlp").filter((name) => name.startsWith("opentelemetry"));
  assert.equal(files.length, 8);
  for (const name of files) {
    const signal = name.includes(".logs.") ? "logs" : "traces";
    const type = name.includes(".json") ? "application/json" : "application/x-protobuf";
    const reply = await fetch(`http://${address}/v1/${signal}`, {
      method: "POST",
      headers: {
        "content-type": type,
        ...(name.endsWith(".gz") && { "content-encoding": "gzip" }),
        connection: "close",
      },
      body: readFileSync(`test/cases/otlp/${name}`),
    });
    const { status, headers } = reply;
    assert.deepEqual([status, headers.get("content-type")], [200, type], name);
    assert.ok(["", "{}"].includes(await reply.text()), name);
  }
  const found = await counted(address, "sluice_access_log_records_total", "result");
  assert.deepEqual(found, { taken: 8 });
});

test("a store that ends its watch fails the process; a stop does not", async (t) => {
  const store = memoryStore();
  const agent = await agentOn(t, {}, { store });
  await store.close();
  await until("the failure is reported", () => agent.failures.length === 1);
  const stopped = await agentOn(t);
  await stopped.scope.close("drain");
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(stopped.failures, []);
});

/** A store whose watches deliver nothing until they are released. */
function heldBack(t: TestContext) {
  const store = memoryStore();
  const gate = Promise.withResolvers<void>();
  // Also when the test fails: a watch that still waits would delay the stop.
  t.after(() => gate.resolve());
  const held = storeWith(store, {
    async *watch(prefixes, signal) {
      await gate.promise;
      yield* store.watch(prefixes, signal);
    },
  });
  return { store: held, release: gate.resolve };
}

test("nothing is accepted before the first rules are in force", async (t) => {
  const { store, release } = heldBack(t);
  await publish(store, closed());
  const port = await freePort();
  const debug = await freePort();
  const address = `127.0.0.1:${port}`;
  const starting = agentOn(
    t,
    {
      SVC_AGENT_SERVER_LISTENER_ADDR: address,
      SVC_AGENT_OTEL_PORTS_DEBUG_PORT: String(debug),
    },
    { store },
  );
  // Starts later and is ready: an agent that did not wait for its rules would be ready by now, too.
  for (let turn = 0; turn < 2; turn++) await agentOn(t);
  await assert.rejects(call(address, "GET", "/healthz"), /ECONNREFUSED/);
  await assert.rejects(call(`127.0.0.1:${debug}`, "GET", "/metrics"), /ECONNREFUSED/);
  release();
  await starting;
  assert.equal(await passes(address, "shop"), false, "the first answer knows the rules");
});

test("readiness and health fail from the moment the stop begins", async (t) => {
  const { health, address, scope } = await agentOn(t, {
    SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "60s",
  });
  const readiness = () => call(address, "GET", "/v1/status/system/readiness");
  assert.equal(health.phase, "running");
  assert.deepEqual([(await call(address, "GET", "/healthz")).status], [200]);
  assert.equal((await readiness()).status, 200);
  const stopped = scope.close("drain");
  assert.equal((await call(address, "GET", "/healthz")).status, 503);
  const { status, body } = await readiness();
  assert.equal(status, 503);
  assert.match(body, /stopping/);
  assert.equal(await passes(address, "shop"), true, "calls are still answered");
  await scope.close("cut");
  await stopped;
  await assert.rejects(readiness(), /ECONNREFUSED/);
});

const SERVING = 1;
const NOT_FOUND = 5;

test("health reports services under their real names and under those that clients ask for", async (t) => {
  const { address } = await agentOn(t);
  const client = grpcClient(t, address);
  const ask = async (service: string) => {
    const name = Buffer.from(service);
    const question = Buffer.concat([Buffer.from([0x0a, name.length]), name]);
    return client.unary("/grpc.health.v1.Health/Check", question);
  };
  for (const service of [
    "",
    "aperture.flowcontrol.v1.FlowControlService",
    "aperture.flowcontrol.v1.FlowControlServiceHTTP",
    "aperture.flowcontrol.check.v1.FlowControlService",
    "aperture.flowcontrol.checkhttp.v1.FlowControlServiceHTTP",
    "envoy.service.auth.v3.Authorization",
  ]) {
    const { code, message } = await ask(service);
    assert.deepEqual([code, [...(message ?? [])]], [0, [0x08, SERVING]], service);
  }
  for (const service of [
    "aperture.flowcontrol.v1.FlowPreviewService",
    "aperture.flowcontrol.preview.v1.FlowPreviewService",
  ]) {
    assert.equal((await ask(service)).code, NOT_FOUND, service);
  }
});
