// A whole agent: its ports and what they expose, forwarding to another server, and rules of another controller that
// it cannot use.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { startAgent } from "#agent/agent.ts";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import { openPorts } from "#process/ports.ts";
import { startProcess } from "#process/process.ts";
import { memoryStore } from "#store/memory.ts";
import type { Store } from "#store/store.ts";
import { decisionEntries } from "#sync/publish/decision.ts";
import { configEntries } from "#sync/publish/policy.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { folderOf } from "../kit/folder.ts";
import { freePort } from "../kit/free-port.ts";
import { processContext } from "../kit/process-context.ts";
import { authority } from "../kit/servers/tls.ts";
import { call, passes } from "../kit/sluice/check.ts";
import { configOf } from "../kit/sluice/config.ts";
import { type LogLine, memoryLog } from "../kit/sluice/log.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { storeWith } from "../kit/sluice/stored.ts";
import { until } from "../kit/until.ts";

/** Origins of a tree in which nothing was set. */
const ALL_DEFAULT = new Map([["otel.ports.debug_port", { source: "default", where: "" }] as const]);

async function agentOn(
  test: { after(work: () => Promise<void>): void },
  env: Readonly<Record<string, string>> = {},
  {
    store = memoryStore(),
    debugPortByDefault = false,
  }: { store?: Store; debugPortByDefault?: boolean } = {},
) {
  const config = configOf("agent", {
    SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
    SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
    SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
    SVC_AGENT_OTEL_PORTS_PPROF_PORT: "0",
    SVC_AGENT_OTEL_PORTS_ZPAGES_PORT: "0",
    SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "0s",
    ...env,
  });
  const log = memoryLog();
  const scope = new Scope();
  test.after(() => scope.close("cut"));
  const failures: string[] = [];
  const fail = (message: string) => void failures.push(message);
  const process = startProcess({
    configs: [{ ...config, notes: [], ...(debugPortByDefault && { origins: ALL_DEFAULT }) }],
    store,
    context: processContext(scope, { fail }),
    chance: seededChance(1),
    log: { ...log, close: async () => undefined },
  });
  const agent = await startAgent(process, config.config);
  const ports = await openPorts(process, [agent]);
  const { health } = process;
  return { ports, address: ports.main.address, lines: log.lines, health, failures, store, scope };
}

/** A policy that refuses every request at `shop`. */
function closed(): Map<string, Uint8Array> {
  const policy = { name: "p", hash: "h" };
  const agentGroups = ["default"];
  const message = {
    selectors: [{ control_point: "shop", agent_group: "default", service: "any" }],
    parameters: { max_inflight_duration: "1s" },
  };
  const kind = "concurrency_limiter";
  const component = { componentId: "root.0", agentGroups };
  const none = { ...component, kind, maxConcurrency: 0, passThrough: false } as const;
  const entries = new Map(
    configEntries({ ...policy, configs: [{ kind, name: "root.0", agentGroups, message }] }),
  );
  for (const [key, value] of decisionEntries(policy, none))
    entries.set(key, value ?? assert.fail());
  return entries;
}

async function publish(store: Store, stored: ReadonlyMap<string, Uint8Array>): Promise<void> {
  await store.commit([...stored].map(([key, value]) => ({ kind: "put", key, value })));
}

const warnings = ({ lines }: { readonly lines: readonly LogLine[] }) =>
  lines.filter(({ level }) => level === "warn");

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

test("an unusable value of another controller is reported, and the other rules work", async (t) => {
  const { address, lines, store, health } = await agentOn(t);
  const stored = closed();
  stored.set(
    "/config/sampler/agent_group-default-policy-q-component_id-root.0",
    new Uint8Array([255]),
  );
  await publish(store, stored);
  await until("the good rule is in force", async () => !(await passes(address, "shop")));
  assert.ok(lines.some(({ level, message }) => level === "error" && /policy-q/.test(message)));
  const ready = await call(address, "GET", "/v1/status/system/readiness");
  assert.equal(ready.status, 200, "the rules that work go on being used");
  assert.match(ready.body, /degraded: rules refused: [^"]*policy-q/);
  assert.equal(health.degraded.get("rules"), true);
});

const GARBAGE = new Uint8Array([255]);
const refusedRules = (address: string) => counted(address, "sluice_rules_refused", "in_force");
const readiness = (address: string) => call(address, "GET", "/v1/status/system/readiness");

/** The store's content under the keys of `closed`, with other values for those of one tree. */
const damaged = (tree: "config" | "decisions") =>
  new Map(
    [...closed()].map(([key, value]) => [key, key.startsWith(`/${tree}/`) ? GARBAGE : value]),
  );

for (const tree of ["config", "decisions"] as const) {
  test(`an agent that starts beside ${tree} that it cannot read is not ready until they are written again`, async (t) => {
    const store = memoryStore();
    await publish(store, damaged(tree));
    const { address, lines, health } = await agentOn(t, {}, { store });
    const refused = lines.filter(({ level }) => level === "error");
    assert.equal(refused.length, 1);
    assert.match(
      refused[0]?.message ?? "",
      /^rule refused, nothing is in force in its place, and the agent is not ready: .*policy-p/,
    );
    const before = await readiness(address);
    assert.equal(before.status, 503);
    assert.match(
      before.body,
      /not ready yet: rules refused: [^"]*policy-p[^"]*nothing in its place/,
    );
    assert.equal(health.degraded.get("rules"), true);
    assert.deepEqual(await refusedRules(address), { predecessor: 0, none: 1 });

    await publish(store, closed());
    await until("the agent is ready", async () => (await readiness(address)).status === 200);
    assert.equal(await passes(address, "shop"), false);
    assert.deepEqual(await refusedRules(address), { predecessor: 0, none: 0 });

    await publish(store, damaged(tree));
    await until(
      "the damage is seen",
      async () => (await refusedRules(address))["predecessor"] === 1,
    );
    assert.match(lines.at(-1)?.message ?? "", /^rule refused, its predecessor stays: /);
    assert.equal((await readiness(address)).status, 200, "the rule that it knew goes on");
    assert.equal(await passes(address, "shop"), false);
  });
}

test("an agent that is ready stays ready beside a new rule that it cannot read, and says that nothing is in its place", async (t) => {
  const store = memoryStore();
  const { address, lines } = await agentOn(t, {}, { store });
  await publish(store, damaged("config"));
  await until("the damage is seen", async () => (await refusedRules(address))["none"] === 1);
  assert.equal((await readiness(address)).status, 200);
  assert.ok(
    lines.some(({ message }) => /^rule refused, nothing is in force in its place: /.test(message)),
  );
});

test("a damaged rule of another group, whose name begins alike, does not concern an agent", async (t) => {
  const store = memoryStore();
  const key = "/config/sampler/agent_group-default-x-policy-q-component_id-root.0";
  await publish(store, new Map([[key, GARBAGE]]));
  const { address, lines } = await agentOn(t, {}, { store });
  assert.equal((await readiness(address)).status, 200);
  assert.deepEqual(
    lines.filter(({ level }) => level === "error"),
    [],
  );
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
