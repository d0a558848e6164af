// The table of keys without effect lists exactly the keys that a process leaves unread: in standalone, and in an agent,
// a controller and an injector as processes of their own. Several runs of each, since some keys are read only where
// others ask for it (TLS, forwarding, profiles).
//
// Who reads a key matters: a part that reads it itself was handed these settings and no others, and tests of the part
// say what the key does there. Keys that only the assembly reads are listed here, and the test that
// test/config/observed.test.ts names for each of them starts a whole process.

import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { startAgentProcess } from "#agent/process.ts";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import type { TreeRole } from "#config/ineffective.ts";
import type { Loaded } from "#config/load.ts";
import { leaves, PROCESSES, type ProcessName } from "#config/tree.ts";
import { startControllerProcess } from "#controller/process.ts";
import type { Ports } from "#daemon/ports.ts";
import type { ProcessOptions } from "#daemon/process.ts";
import { loadInjector } from "#injector/config.ts";
import { startInjectorProcess } from "#injector/process.ts";
import type { Port } from "#serve/port.ts";
import { startStandalone } from "#standalone/standalone.ts";
import { sharedStore } from "../../src/cli/processes/serve.ts";
import { cluster, HOME } from "../injector/cluster.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { folderOf } from "../kit/folder.ts";
import { processContext } from "../kit/process-context.ts";
import { authority } from "../kit/servers/tls.ts";
import { call } from "../kit/sluice/check.ts";
import { configOf, ineffectiveKeys, type Reads, recordReads } from "../kit/sluice/config.ts";
import { realClock } from "../kit/sluice/port.ts";
import { until } from "../kit/until.ts";

/** Queries, and alerts, at every tick. */
const LOOP = `circuit:
  evaluation_interval: 0.05s
  components:
    - query: { promql: { query_string: up, evaluation_interval: 0.05s, out_ports: { output: { signal_name: UP } } } }
    - alerter:
        in_ports: { signal: { constant_signal: { value: 1 } } }
        parameters: { alert_name: a }
`;

type Env = Readonly<Record<string, string>>;

/** Starts standalone with these variables, stops it, and returns which keys of either tree were read. */
async function readBy(
  t: TestContext,
  policies: string,
  env: Env,
  controllerEnv: Env = {},
  variables: Env = {},
) {
  const agent = configOf("agent", {
    SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
    SVC_AGENT_LOG_LEVEL: "error",
    SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "0s",
    ...env,
  });
  const controller = configOf("controller", controllerEnv);
  const agentReads = recordReads("agent", agent.config);
  const controllerReads = recordReads("controller", controller.config);
  const scope = new Scope();
  const started = startStandalone({
    config: {
      agent: { ...agent, config: agentReads.config },
      controller: { ...controller, config: controllerReads.config },
    },
    policies: [policies],
    chance: seededChance(1),
    context: processContext(scope, { env: variables }),
  });
  const hasResources = "SVC_CONTROLLER_POLICIES_CR_WATCHER_ENABLED" in controllerEnv;
  // Without the API server of its policies it does not start, but it has read its keys.
  if (hasResources) await assert.rejects(started, /the policy resources cannot be read/);
  else {
    const { main: port } = await started;
    await exercise(t, port, { ...env, ...controllerEnv }, agentReads.read, controllerReads.read);
  }
  await scope.close("drain");
  return { agent: agentReads.read, controller: controllerReads.read };
}

/** The same for a process of its own over a store in etcd. */
async function readByProcess<P extends "agent" | "controller">(
  t: TestContext,
  name: P,
  env: Env,
  start: (options: Omit<ProcessOptions, "configs">, config: Loaded<P>) => Promise<Ports>,
  variables: Env = {},
): Promise<Reads> {
  const prefix = `SVC_${name.toUpperCase()}`;
  const loaded = configOf(name, {
    [`${prefix}_SERVER_LISTENER_ADDR`]: "127.0.0.1:0",
    [`${prefix}_LOG_LEVEL`]: "error",
    [`${prefix}_SERVER_DRAIN_ACCEPT_FOR`]: "0s",
    ...env,
  });
  const { config, read } = recordReads(name, loaded.config);
  const scope = new Scope();
  const context = processContext(scope, { env: variables });
  const store = await sharedStore({ ...loaded, config });
  const options = { store, context, chance: seededChance(1) };
  const { main } = await start(options, { ...loaded, config });
  await exercise(t, main, env, read, read);
  await scope.close("drain");
  return read;
}

/** The same for an injector. Where its API server answers, it opens the port of its webhook. */
async function readByInjector(t: TestContext, env: Env, variables: Env): Promise<Reads> {
  const all = {
    SVC_INJECTOR_SERVER_LISTENER_ADDR: "127.0.0.1:0",
    SVC_INJECTOR_SERVER_DRAIN_ACCEPT_FOR: "0s",
    SVC_INJECTOR_WEBHOOK_ADDR: "127.0.0.1:0",
    SVC_INJECTOR_LOG_LEVEL: "error",
    SVC_INJECTOR_SIDECAR_IMAGE: "sluice:1",
    ...env,
  };
  const folder = folderOf(t);
  const loaded = loadInjector({ env: all, configPath: folder, dotenvDir: folder });
  const { config, read } = recordReads("injector", loaded.injector.config);
  const scope = new Scope();
  const { main, webhook } = await startInjectorProcess({
    config: { ...loaded, injector: { ...loaded.injector, config } },
    context: processContext(scope, { clock: realClock, env: variables }),
    chance: seededChance(1),
  });
  await exercise(t, main, env, read, read);
  if (!("KUBERNETES_SERVICE_HOST" in variables)) await webhook;
  await scope.close("drain");
  return read;
}

/** Some keys are read when a request comes, others when a circuit queries or alerts. */
async function exercise(
  t: TestContext,
  port: Port,
  env: Env,
  agentRead: Reads,
  controllerRead: Reads,
): Promise<void> {
  if (!Object.keys(env).some((name) => name.endsWith("_SERVER_TLS_ENABLED")))
    await callOverBoth(t, port);
  if (env["SVC_AGENT_PROMETHEUS_ADDRESS"] !== undefined)
    await until("metrics were sent", () =>
      agentRead.has("prometheus.http_client.proxy_connect_header"),
    );
  if (env["SVC_AGENT_AGENT_FUNCTIONS_ENDPOINTS"] !== undefined)
    await until("a controller was called", () =>
      agentRead.has("agent_functions.client.grpc.tls.key_log_file"),
    );
  if (env["SVC_CONTROLLER_PROMETHEUS_ADDRESS"] === undefined) return;
  await until("a query and an alert were sent", () =>
    ["prometheus.http_client.proxy_connect_header", "otel.batch_alerts.send_batch_max_size"].every(
      (key) => controllerRead.has(key),
    ),
  );
}

async function callOverBoth(t: TestContext, { address }: Port): Promise<void> {
  await call(address, "GET", "/metrics");
  const client = grpcClient(t, address);
  await client.unary("/grpc.health.v1.Health/Check", new Uint8Array());
  client.close();
}

/** Turns on one policy for each kind of memory. */
function watchdog(prefix: string, policy: "ADAPTIVE" | "WATERMARKS"): Env {
  return Object.fromEntries(
    ["HEAP", "CGROUP", "SYSTEM"].map((kind) => [
      `${prefix}_WATCHDOG_MEMORY_${kind}_${policy}_POLICY_ENABLED`,
      "true",
    ]),
  );
}

const noOtherPorts = (prefix: string): Env =>
  Object.fromEntries(
    ["DEBUG", "HEALTH_CHECK", "PPROF", "ZPAGES"].map((name) => [
      `${prefix}_OTEL_PORTS_${name}_PORT`,
      "0",
    ]),
  );

/** Two sets of variables for the process itself, by which all keys of its ports, profiles and log are read. */
function ofTheProcess(t: TestContext, prefix: string): readonly [Env, Env] {
  const files = authority(folderOf(t), "own");
  return [
    { ...noOtherPorts(prefix), ...watchdog(prefix, "ADAPTIVE") },
    {
      [`${prefix}_SERVER_TLS_ENABLED`]: "true",
      [`${prefix}_SERVER_TLS_CERT_FILE`]: files.certFile,
      [`${prefix}_SERVER_TLS_KEY_FILE`]: files.keyFile,
      [`${prefix}_PROFILERS_CPU_PROFILER`]: "true",
      [`${prefix}_PROFILERS_PROFILES_PATH`]: folderOf(t),
      ...watchdog(prefix, "WATERMARKS"),
      [`${prefix}_LOG_WRITERS`]: '[{"file":"stderr"}]',
    },
  ];
}

/** Publishing metrics reads the keys of its client when it first sends. */
const PUBLISHING: Env = {
  SVC_AGENT_PROMETHEUS_ADDRESS: "https://metrics.invalid:1",
  SVC_AGENT_PROMETHEUS_HTTP_CLIENT_USE_PROXY: "true",
  SVC_AGENT_CLIENT_PROXY_HTTPS: "http://127.0.0.1:1",
  // The address of etcd.
  SVC_AGENT_CLIENT_PROXY_NO_PROXY: "[127.0.0.1]",
  SVC_AGENT_OTEL_BATCH_POSTROLLUP_TIMEOUT: "1ms",
};

/** Variables with which a process uses an etcd that wants client certificates, and all keys of `etcd` are read. */
async function overEtcd(t: TestContext, prefix: string): Promise<Env> {
  const folder = folderOf(t);
  const root = authority(folder, "root");
  const client = root.issue("client");
  const tls = { server: root.issue("server"), authorityFile: root.certFile, client };
  const { endpoints } = await startEtcd(t, { tls });
  return {
    [`${prefix}_ETCD_ENDPOINTS`]: JSON.stringify(endpoints),
    [`${prefix}_ETCD_USERNAME`]: "ann",
    [`${prefix}_ETCD_PASSWORD`]: "secret",
    [`${prefix}_ETCD_TLS_CA_FILE`]: root.certFile,
    [`${prefix}_ETCD_TLS_CERT_FILE`]: client.certFile,
    [`${prefix}_ETCD_TLS_KEY_FILE`]: client.keyFile,
  };
}

const FORWARDING: Env = {
  ...PUBLISHING,
  SVC_AGENT_SERVER_GRPC_GATEWAY_GRPC_SERVER_ADDRESS: "127.0.0.1:1",
  SVC_AGENT_SERVER_GRPC_GATEWAY_TLS_ENABLED: "true",
  SVC_AGENT_AGENT_FUNCTIONS_ENDPOINTS: "[127.0.0.1:1]",
};

/** Counters in a Redis that is away. */
const COUNTERS: Env = {
  SVC_AGENT_COUNTERS_ENGINE: "redis",
  SVC_AGENT_COUNTERS_REDIS_URL: "rediss://127.0.0.1:1",
  SVC_AGENT_COUNTERS_REDIS_SENTINEL_MASTER: "main",
  SVC_AGENT_COUNTERS_REDIS_SENTINEL_ADDRESSES: "[127.0.0.1:1]",
};

/** Counters that agents keep for each other. */
const PEERS: Env = { SVC_AGENT_COUNTERS_ENGINE: "peers" };

const OUTGOING: Env = {
  SVC_CONTROLLER_PROMETHEUS_ADDRESS: "https://metrics.invalid:1",
  SVC_CONTROLLER_CLIENT_PROXY_HTTPS: "http://127.0.0.1:1",
  SVC_CONTROLLER_CLIENT_PROXY_NO_PROXY: "[127.0.0.1]",
  SVC_CONTROLLER_PROMETHEUS_HTTP_CLIENT_USE_PROXY: "true",
  SVC_CONTROLLER_ALERTMANAGERS_CLIENTS: '[{"address":"127.0.0.1:1"}]',
  SVC_CONTROLLER_OTEL_BATCH_ALERTS_TIMEOUT: "1ms",
};

/** Policies are resources of a cluster that cannot be reached. */
const IN_CLUSTER: Env = {
  SVC_CONTROLLER_POLICIES_CR_WATCHER_ENABLED: "true",
  SVC_CONTROLLER_GATEWAY_API_ENABLED: "true",
  SVC_CONTROLLER_GATEWAY_API_AGENTS: "sluice-agent.sluice.svc.cluster.local:8080",
  SVC_CONTROLLER_KUBERNETES_CLIENT_HTTP_CLIENT_USE_PROXY: "true",
  SVC_CONTROLLER_CLIENT_PROXY_HTTPS: "http://127.0.0.1:1",
  SVC_CONTROLLER_CLIENT_PROXY_NO_PROXY: "[127.0.0.1]",
};

/** An agent that discovers services in that cluster. */
const DISCOVERING: Env = {
  SVC_AGENT_KUBERNETES_CLIENT_HTTP_CLIENT_USE_PROXY: "true",
  SVC_AGENT_CLIENT_PROXY_HTTPS: "http://127.0.0.1:1",
  SVC_AGENT_CLIENT_PROXY_NO_PROXY: "[127.0.0.1]",
};

/** Variables of a process in that cluster. */
function inCluster(t: TestContext): Env {
  const config = {
    clusters: [{ name: "c", cluster: { server: "https://kubernetes.invalid:1" } }],
    users: [{ name: "u", user: { token: "t" } }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  };
  return {
    KUBECONFIG: join(folderOf(t, { config: JSON.stringify(config) }), "config"),
    KUBERNETES_SERVICE_HOST: "kubernetes.invalid",
  };
}

/** Files that join the parts of a process and hand them their settings. */
const ASSEMBLY =
  /^(?:(?:agent|cli|config|daemon|standalone)\/|controller\/[^/]+$|injector\/(?:config|process|settings-from-config)\.ts$)/;

const isReadByPart = (run: Reads, path: string) =>
  [...(run.get(path) ?? [])].some((file) => !ASSEMBLY.test(file));

/** Keys that no part reads, because the assembly decides by them or hands on their values. */
const READ_BY_ASSEMBLY: Readonly<Record<ProcessName, readonly string[]>> = {
  agent: [
    "agent_functions.endpoints",
    "agent_functions.token",
    "dist_cache.tls.allowed_cn",
    "dist_cache.tls.ca_file",
    "dist_cache.tls.key_file",
    "etcd.snapshot_path",
    "flow_control.default_control_point",
    "flow_control.max_keys",
    "flow_control.overload.enabled",
    "otel.batch_postrollup.send_batch_max_size",
    "otel.batch_postrollup.timeout",
    "otel.enable_high_cardinality_platform_metrics",
    "otel.ports.debug_port",
    "otel.ports.health_check_port",
    "otel.ports.host",
    "otel.ports.pprof_port",
    "otel.ports.zpages_port",
    "peer_discovery.advertisement_addr",
    "profilers.register_http_routes",
    "prometheus.address",
    "server.administration.addr",
    "server.administration.enabled",
    "server.grpc_gateway.grpc_server_address",
    "server.grpc_gateway.tls.enabled",
    "service_discovery.kubernetes.enabled",
    "service_discovery.kubernetes.source",
  ],
  controller: [
    "alerter.channel_size",
    "alertmanagers.clients",
    "auto_scale.kubernetes.enabled",
    "gateway_api.agents",
    "gateway_api.enabled",
    "gateway_api.fail_open",
    "otel.ports.debug_port",
    "otel.ports.health_check_port",
    "otel.ports.host",
    "otel.ports.pprof_port",
    "otel.ports.zpages_port",
    "policies.cr_watcher.enabled",
    "policies.default_agent_group",
    "policies.namespace_quota",
    "policies.namespaces",
    "profilers.register_http_routes",
    "server.administration.addr",
    "server.administration.enabled",
  ],
  injector: [
    "ignored_namespaces",
    "missed_pods_interval",
    "namespace",
    "native_sidecars",
    "otel.ports.debug_port",
    "otel.ports.health_check_port",
    "otel.ports.host",
    "otel.ports.pprof_port",
    "otel.ports.zpages_port",
    "profilers.register_http_routes",
    "server.administration.addr",
    "server.administration.enabled",
    "sidecar.config_map",
    "webhook.addr",
  ],
};

function assertWired(process: ProcessName, role: TreeRole, runs: readonly Reads[]) {
  const paths = leaves(PROCESSES[process].table)
    .map(({ path }) => path)
    .filter((path) => process !== "injector" || !OF_SIDECARS.test(path));
  const idle = ineffectiveKeys(process, role);
  const unread = paths.filter((path) => !runs.some((read) => read.has(path)));
  assert.deepEqual(unread, idle);
  const read = new Set(paths.filter((path) => !idle.includes(path)));
  assert.deepEqual(
    [...read].filter((path) => !runs.some((run) => isReadByPart(run, path))).sort(),
    READ_BY_ASSEMBLY[process].filter((path) => read.has(path)),
    "read by no part",
  );
  const [plain = assert.fail()] = runs;
  assert.deepEqual(
    [...read].filter((path) => OF_MAIN_PORT.test(path) && !isReadByPart(plain, path)),
    [],
    "not read for the main port, the only one of the first run",
  );
}

/**
 * Keys of the injector that are read again with the entries of a ConfigMap. `every key about containers has its place`
 * follows each of them through the same function.
 */
const OF_SIDECARS = /^(?:envoy|sidecar)\.(?!config_map)/;

const OF_MAIN_PORT = /^server\.(?:drain|grpc|http|listener|administration\.(?!addr|enabled))\b/;

test("standalone reads every key that is in effect, and no other", async (t) => {
  const [plain, tls] = ofTheProcess(t, "SVC_AGENT");
  const runs = [
    await readBy(
      t,
      folderOf(t, { "loop.yaml": LOOP }),
      { ...plain, ...FORWARDING, ...COUNTERS },
      OUTGOING,
    ),
    await readBy(t, folderOf(t), { ...tls, ...PEERS, ...DISCOVERING }, {}, inCluster(t)),
    await readBy(t, folderOf(t), {}, IN_CLUSTER, inCluster(t)),
  ];
  assertWired(
    "agent",
    "standalone",
    runs.map(({ agent }) => agent),
  );
  assertWired(
    "controller",
    "part",
    runs.map(({ controller }) => controller),
  );
});

test("an agent in a process of its own reads every key that is in effect, and no other", async (t) => {
  const [plain, tls] = ofTheProcess(t, "SVC_AGENT");
  const runs = [];
  const etcd = await overEtcd(t, "SVC_AGENT");
  for (const env of [
    { ...plain, ...FORWARDING, ...COUNTERS, ...etcd },
    { ...tls, ...PEERS, ...DISCOVERING, ...etcd },
  ])
    runs.push(
      await readByProcess(
        t,
        "agent",
        env,
        (options, config) => startAgentProcess({ ...options, config }),
        inCluster(t),
      ),
    );
  assertWired("agent", "process", runs);
});

test("a controller in a process of its own reads every key that is in effect, and no other", async (t) => {
  const [plain, tls] = ofTheProcess(t, "SVC_CONTROLLER");
  const policies = folderOf(t, { "loop.yaml": LOOP });
  const runs = [];
  const etcd = await overEtcd(t, "SVC_CONTROLLER");
  for (const [env, variables] of [
    [{ ...plain, ...OUTGOING, ...etcd }],
    [{ ...tls, ...etcd }],
    [{ ...IN_CLUSTER, ...etcd }, inCluster(t)],
  ] as const)
    runs.push(
      await readByProcess(
        t,
        "controller",
        env,
        (options, config) => startControllerProcess({ ...options, config, policies: [policies] }),
        variables,
      ),
    );
  assertWired("controller", "process", runs);
});

test("an injector reads every key that is in effect, and no other", async (t) => {
  const [plain, tls] = ofTheProcess(t, "SVC_INJECTOR");
  const held = await cluster(t);
  const { certFile, keyFile } = authority(folderOf(t), "ca").issue(`sluice-injector.${HOME}.svc`);
  const webhook = {
    SVC_INJECTOR_WEBHOOK_CERT_FILE: certFile,
    SVC_INJECTOR_WEBHOOK_KEY_FILE: keyFile,
  };
  const away = {
    SVC_INJECTOR_KUBERNETES_CLIENT_HTTP_CLIENT_USE_PROXY: "true",
    SVC_INJECTOR_CLIENT_PROXY_HTTPS: "http://127.0.0.1:1",
    SVC_INJECTOR_CLIENT_PROXY_NO_PROXY: "[127.0.0.1]",
  };
  const runs = [
    await readByInjector(t, { ...plain, ...away }, inCluster(t)),
    await readByInjector(t, { ...tls, ...webhook }, { KUBECONFIG: held.kubeconfig }),
  ];
  assertWired("injector", "process", runs);
});
