import assert from "node:assert/strict";
import { test } from "node:test";
import {
  covers,
  INEFFECTIVE,
  ineffectiveReason,
  ineffectiveSettings,
} from "#config/ineffective.ts";
import { leaves, PROCESSES } from "#config/tree.ts";
import { configOf, ineffectiveKeys, recordReads } from "../kit/sluice/config.ts";

test("every entry of the table names a key", () => {
  for (const process of ["agent", "controller", "injector"] as const) {
    const keys = leaves(PROCESSES[process].table).map(({ path }) => path);
    for (const entry of INEFFECTIVE[process])
      assert.ok(
        keys.some((key) => covers(entry, key)),
        entry.path,
      );
  }
});

test("the groups of keys that are in effect in the agent", () => {
  const ineffective = new Set(ineffectiveKeys("agent"));
  const roots = leaves(PROCESSES.agent.table)
    .filter(({ path }) => !ineffective.has(path))
    .map(({ path }) => path.split(".")[0]);
  assert.deepEqual(
    [...new Set(roots)],
    [
      "agent_functions",
      "agent_info",
      "client",
      "counters",
      "crashreport",
      "dist_cache",
      "flow_control",
      "kubernetes_client",
      "liveness",
      "log",
      "metrics",
      "otel",
      "peer_discovery",
      "profilers",
      "prometheus",
      "readiness",
      "server",
      "service_discovery",
      "watchdog",
    ],
  );
  assert.equal(ineffectiveReason("agent", "otel.ports.pprof_port"), undefined);
  assert.notEqual(ineffectiveReason("agent", "otel.batch_prerollup.timeout"), undefined);
});

test("what is not built yet is called by its name", () => {
  for (const process of ["agent", "controller"] as const) {
    for (const role of ["process", "standalone", "part"] as const) {
      for (const key of ineffectiveKeys(process, role)) {
        const why = ineffectiveReason(process, key, role) ?? "";
        if (/not built/.test(why)) assert.match(why, /^not built yet: \w{2}/, key);
      }
    }
  }
});

test("only keys that were set are reported, and without their values", () => {
  assert.deepEqual(ineffectiveSettings(configOf("agent")), []);
  const loaded = configOf("agent", {
    SVC_AGENT_ETCD_USERNAME: "ann",
    SVC_AGENT_ETCD_PASSWORD: "hunter2",
    SVC_AGENT_LOG_LEVEL: "warn",
    SVC_AGENT_OBJECT_STORAGE_BUCKET: "b",
  });
  const named = ineffectiveSettings(loaded);
  assert.deepEqual(
    named.map(({ path, where }) => [path, where]),
    [
      ["etcd.password", "SVC_AGENT_ETCD_PASSWORD"],
      ["etcd.username", "SVC_AGENT_ETCD_USERNAME"],
      ["object_storage.bucket", "SVC_AGENT_OBJECT_STORAGE_BUCKET"],
    ],
  );
  assert.doesNotMatch(JSON.stringify(named), /hunter2/);
});

test("the installation mode that charts and the injector set is no mistake", () => {
  const namedOf = (mode: string) =>
    ineffectiveSettings(configOf("agent", { SVC_AGENT_CLOUDEXT_INSTALLATION_MODE: mode }));
  for (const mode of ["KUBERNETES_SIDECAR", "KUBERNETES_DAEMONSET"])
    assert.deepEqual(namedOf(mode), [], mode);
  assert.equal(namedOf("LINUX_BARE_METAL").length, 1);
});

const CONDITIONAL: readonly {
  readonly set: Readonly<Record<string, string>>;
  readonly by: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
}[] = [
  {
    set: { SVC_AGENT_AGENT_FUNCTIONS_CLIENT_GRPC_INSECURE: "true" },
    by: { SVC_AGENT_AGENT_FUNCTIONS_ENDPOINTS: '["c:8080"]' },
  },
  {
    set: { SVC_AGENT_AGENT_FUNCTIONS_TOKEN: "a".repeat(16) },
    by: { SVC_AGENT_AGENT_FUNCTIONS_ENDPOINTS: '["c:8080"]' },
  },
  {
    set: { SVC_AGENT_CRASHREPORT_ENVIRONMENT: "x" },
    by: { SVC_AGENT_CRASHREPORT_DSN: "https://key@host/1" },
  },
  {
    set: { SVC_AGENT_DIST_CACHE_BIND_ADDR: ":1", SVC_AGENT_COUNTERS_ENGINE: "local" },
    by: { SVC_AGENT_COUNTERS_ENGINE: "auto" },
  },
  {
    set: { SVC_AGENT_PROMETHEUS_HTTP_CLIENT_TIMEOUT: "1s" },
    by: { SVC_AGENT_PROMETHEUS_ADDRESS: "http://p:9090" },
  },
  {
    set: { SVC_AGENT_KUBERNETES_CLIENT_HTTP_CLIENT_TIMEOUT: "1s" },
    by: { SVC_AGENT_SERVICE_DISCOVERY_KUBERNETES_ENABLED: "true" },
    env: { KUBERNETES_SERVICE_HOST: "10.0.0.1" },
  },
];

for (const { set, by, env = {} } of CONDITIONAL) {
  const [name = ""] = Object.keys(set);
  test(`${name} is reported where nothing uses it, and not where something does`, () => {
    const [unused, ...more] = ineffectiveSettings(configOf("agent", set), "process");
    assert.equal(unused?.where, name);
    assert.deepEqual(more, []);
    assert.deepEqual(ineffectiveSettings(configOf("agent", { ...set, ...by }), "process", env), []);
  });
}

test("auto counts locally in standalone, where dist_cache has no effect", () => {
  const loaded = configOf("agent", { SVC_AGENT_DIST_CACHE_BIND_ADDR: ":1" });
  assert.deepEqual(ineffectiveSettings(loaded, "process"), []);
  assert.equal(ineffectiveSettings(loaded, "standalone").length, 1);
});

test("a controller has an API server in a cluster or by KUBECONFIG", () => {
  const loaded = configOf("controller", {
    SVC_CONTROLLER_KUBERNETES_CLIENT_HTTP_CLIENT_TIMEOUT: "1s",
  });
  assert.equal(ineffectiveSettings(loaded, "process").length, 1);
  for (const name of ["KUBECONFIG", "KUBERNETES_SERVICE_HOST"])
    assert.deepEqual(ineffectiveSettings(loaded, "process", { [name]: "x" }), []);
});

test("set server keys of the controller are reported as unused", () => {
  const named = ineffectiveSettings(
    configOf("controller", { SVC_CONTROLLER_SERVER_LISTENER_ADDR: ":1" }),
  );
  assert.deepEqual(
    named.map(({ path }) => path),
    ["server.listener.addr"],
  );
});

test("a recorded tree equals the real one and records which keys are read", () => {
  const { config } = configOf("agent");
  const recorded = recordReads("agent", config);
  const { server } = recorded.config;
  assert.equal(recorded.read.size, 0);
  assert.equal(server.listener.addr, ":8080");
  assert.deepEqual([...recorded.read.keys()], ["server.listener.addr"]);
  assert.deepEqual(recorded.config, config);
  assert.equal(recorded.read.size, leaves(PROCESSES.agent.table).length);
});
