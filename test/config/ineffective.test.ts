import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ineffectiveKeys,
  ineffectiveReason,
  ineffectiveSettings,
  unmatchedEntries,
} from "#config/ineffective.ts";
import { leaves, PROCESSES } from "#config/tree.ts";
import { configOf, recordReads } from "../kit/sluice/config.ts";

test("every entry of the table names a key", () => {
  assert.deepEqual(unmatchedEntries("agent"), []);
  assert.deepEqual(unmatchedEntries("controller"), []);
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
  assert.deepEqual([...recorded.read], ["server.listener.addr"]);
  assert.deepEqual(recorded.config, config);
  assert.equal(recorded.read.size, leaves(PROCESSES.agent.table).length);
});
