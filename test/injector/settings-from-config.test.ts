// From configuration to what sidecars are: every key of the injector that is about containers, and the agent's keys as the
// variables of sidecars.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { loadInjector } from "#injector/config.ts";
import type { ConfiguredInjection } from "#injector/settings-from-config.ts";
import { folderOf } from "../kit/folder.ts";

function injectionOf(
  t: TestContext,
  env: Readonly<Record<string, string>>,
  file?: string,
): ConfiguredInjection {
  const folder = folderOf(t, file === undefined ? {} : { "both.yaml": file });
  const all = { SVC_INJECTOR_SIDECAR_IMAGE: "sluice:1", ...env };
  const configPath = file === undefined ? folder : `${folder}/both.yaml`;
  return loadInjector({ env: all, configPath, dotenvDir: folder }).sidecars({}).injection;
}

test("every key about containers has its place", (t) => {
  const env = Object.entries({
    SIDECAR_CERTIFICATES: "ca",
    SIDECAR_IMAGE: "r/sluice:2",
    SIDECAR_IMAGE_PULL_POLICY: "Never",
    SIDECAR_PULL_SECRETS: "[registry]",
    SIDECAR_EXTRA_ENV: '["NODE_OPTIONS=--title=$(X)=1"]',
    SIDECAR_RUN_AS_USER: "0",
    SIDECAR_RESOURCES_CPU_LIMIT: "2",
    SIDECAR_RESOURCES_CPU_REQUEST: "1",
    SIDECAR_RESOURCES_MEMORY_LIMIT: "2Gi",
    SIDECAR_RESOURCES_MEMORY_REQUEST: "1Gi",
    SIDECAR_SECRETS: "[counters.redis.password=redis/password]",
    ENVOY_ADMIN_PORT: "9902",
    ENVOY_APPLICATION_SLEEP: "7s",
    ENVOY_CLIENT_BAGGAGE: "believe",
    ENVOY_CONCURRENCY: "5",
    ENVOY_IMAGE: "r/envoy:2",
    ENVOY_IMAGE_PULL_POLICY: "Always",
    ENVOY_INJECT: "true",
    ENVOY_PORT: "10001",
    ENVOY_RUN_AS_USER: "102",
    ENVOY_RESOURCES_CPU_LIMIT: "",
    ENVOY_RESOURCES_CPU_REQUEST: "3",
    ENVOY_RESOURCES_MEMORY_LIMIT: "",
    ENVOY_RESOURCES_MEMORY_REQUEST: "3Gi",
  }).map(([key, value]) => [`SVC_INJECTOR_${key}`, value] as const);
  const valueFrom = { secretKeyRef: { name: "redis", key: "password" } };
  assert.deepEqual(injectionOf(t, Object.fromEntries(env)), {
    pullSecrets: ["registry"],
    sidecar: {
      image: "r/sluice:2",
      imagePullPolicy: "Never",
      runAsUser: 0,
      resources: { cpuLimit: "2", cpuRequest: "1", memoryLimit: "2Gi", memoryRequest: "1Gi" },
      port: 14_280,
      isPortChosen: false,
      otherPorts: [],
      probes: "HTTP",
      env: [
        { name: "SVC_AGENT_COUNTERS_REDIS_PASSWORD", valueFrom },
        { name: "NODE_OPTIONS", value: "--title=$$(X)=1" },
      ],
      certificates: "ca",
      drainSeconds: 12,
    },
    envoy: {
      image: "r/envoy:2",
      imagePullPolicy: "Always",
      runAsUser: 102,
      resources: { cpuLimit: "", cpuRequest: "3", memoryLimit: "", memoryRequest: "3Gi" },
      inject: true,
      port: 10_001,
      adminPort: 9_902,
      concurrency: 5,
      clientBaggage: "believe",
      applicationSleepSeconds: 7,
    },
  });
});

test("of Secrets, sidecars use the entries that their configuration names", (t) => {
  const folder = folderOf(t);
  const env = {
    SVC_INJECTOR_SIDECAR_IMAGE: "sluice:1",
    SVC_INJECTOR_SIDECAR_CERTIFICATES: "tls",
    SVC_INJECTOR_SIDECAR_SECRETS:
      "[etcd.password=users/agent, counters.redis.password=tls/redis, cloudext.api_key=keys/a]",
    SVC_AGENT_ETCD_USERNAME: "agent",
    SVC_AGENT_ETCD_TLS_CA_FILE: "/etc/sluice/certificates/ca.crt",
    SVC_AGENT_PROMETHEUS_HTTP_CLIENT_TLS_CA_FILE: "/etc/sluice/certificates/ca.crt",
    SVC_AGENT_COUNTERS_REDIS_URL: "rediss://redis:6379",
    SVC_AGENT_COUNTERS_REDIS_TLS_CA_FILE: "/etc/ssl/other.crt",
  };
  const secrets = (more: object = {}) =>
    loadInjector({ env: { ...env, ...more }, configPath: folder, dotenvDir: folder }).sidecars({})
      .secrets;
  assert.deepEqual(secrets(), [
    { name: "tls", entries: ["ca.crt", "redis"] },
    { name: "users", entries: ["agent"] },
    { name: "keys", entries: ["a"] },
  ]);
  const pair = {
    SVC_AGENT_ETCD_TLS_CERT_FILE: "/etc/sluice/certificates/tls.crt",
    SVC_AGENT_ETCD_TLS_KEY_FILE: "/etc/sluice/certificates/tls.key",
  };
  assert.deepEqual(secrets(pair)[0]?.entries, ["ca.crt", "redis", "tls.crt", "tls.key"]);
  assert.deepEqual(secrets({ SVC_INJECTOR_SIDECAR_PULL_SECRETS: "[registry]" }).at(-1), {
    name: "registry",
    type: "kubernetes.io/dockerconfigjson",
    entries: [".dockerconfigjson"],
  });
});

test("what the agent is told becomes variables that say the same", (t) => {
  const file = `
sidecar: { image: sluice:1 }
etcd: { endpoints: ["http://etcd:2379"], lease_ttl: 90s }
log: { level: debug, writers: [{ file: stdout, max_age: 1 }] }
server:
  listener: { addr: ":9090" }
  drain: { accept_for: 1500ms, grace: 3s }
  http: { latency_buckets_ms: [1, 2.5] }
`;
  const { sidecar } = injectionOf(t, { SVC_AGENT_AGENT_INFO_AGENT_GROUP: "$(X)" }, file);
  const env = Object.fromEntries(sidecar.env.map(({ name, value }) => [name, value]));
  assert.equal(env["SVC_AGENT_ETCD_ENDPOINTS"], '["http://etcd:2379"]');
  assert.equal(env["SVC_AGENT_ETCD_LEASE_TTL"], "90s");
  assert.equal(env["SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR"], "1500ms");
  assert.equal(env["SVC_AGENT_SERVER_HTTP_LATENCY_BUCKETS_MS"], "[1,2.5]");
  assert.match(String(env["SVC_AGENT_LOG_WRITERS"]), /^\[\{.*"file":"stdout".*"max_age":1/);
  // Kubernetes would replace what looks like a reference.
  assert.equal(env["SVC_AGENT_AGENT_INFO_AGENT_GROUP"], "$$(X)");
  assert.equal(env["SVC_AGENT_METRICS_PEDANTIC"], undefined, "defaults are left to the agent");
  assert.equal(sidecar.port, 9090);
  assert.equal(sidecar.drainSeconds, 5);
});

test("probes follow the TLS of the agent", (t) => {
  const tls = {
    SVC_AGENT_SERVER_TLS_ENABLED: "true",
    SVC_AGENT_SERVER_TLS_CERT_FILE: "/c",
    SVC_AGENT_SERVER_TLS_KEY_FILE: "/k",
  };
  assert.equal(injectionOf(t, tls).sidecar.probes, "HTTPS");
  const mutual = { ...tls, SVC_AGENT_SERVER_TLS_CLIENT_CA_FILE: "/ca" };
  assert.equal(injectionOf(t, mutual).sidecar.probes, "TCP");
});

test("ports that somebody chose are ports of the sidecar", (t) => {
  const env = {
    SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "8889",
    SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
  };
  assert.deepEqual(injectionOf(t, env).sidecar.otherPorts, [
    { name: "sluice-metrics", containerPort: 8889, protocol: "TCP" },
  ]);
});

test("Envoy and the agent do not get one port", (t) => {
  const refuses = (env: Readonly<Record<string, string>>, words: RegExp) =>
    assert.throws(() => injectionOf(t, env), words);
  const agents = "wanted another port than that of the agent's server.listener.addr, got";
  const own = { SVC_INJECTOR_ENVOY_PORT: "14280" };
  refuses(own, new RegExp(`envoy\\.port \\(SVC_INJECTOR_ENVOY_PORT\\): ${agents} 14280`));
  refuses({ SVC_AGENT_SERVER_LISTENER_ADDR: ":9901" }, /envoy\.admin_port: wanted .* got 9901/);
  refuses({ SVC_INJECTOR_ENVOY_PORT: "9901" }, /wanted another port than envoy\.port, got 9901/);
  const moved = { ...own, SVC_AGENT_SERVER_LISTENER_ADDR: ":8081" };
  assert.equal(injectionOf(t, moved).envoy.port, 14_280);
});

test("the address that the image sets for standalone is not that of sidecars", (t) => {
  const folder = folderOf(t);
  const env = { SVC_INJECTOR_SIDECAR_IMAGE: "sluice:1", SVC_AGENT_SERVER_LISTENER_ADDR: ":8080" };
  const { sidecars } = loadInjector({ env, configPath: folder, dotenvDir: folder });
  const port = (entries: Readonly<Record<string, string>>) =>
    sidecars(entries).injection.sidecar.port;
  assert.equal(port({}), 14_280);
  assert.equal(port({ SVC_AGENT_SERVER_LISTENER_ADDR: ":9090" }), 9_090);
  assert.equal(port({ SVC_AGENT_SERVER_LISTENER_ADDR: ":8080" }), 8_080);
});

test("rules between keys hold with the secrets that sidecars refer to", (t) => {
  const SVC_AGENT_ETCD_USERNAME = "agent";
  assert.throws(() => injectionOf(t, { SVC_AGENT_ETCD_USERNAME }), /etcd\.password/);
  const SVC_INJECTOR_SIDECAR_SECRETS = "[etcd.password=users/agent]";
  const { sidecar } = injectionOf(t, { SVC_AGENT_ETCD_USERNAME, SVC_INJECTOR_SIDECAR_SECRETS });
  const valueFrom = { secretKeyRef: { name: "users", key: "agent" } };
  assert.deepEqual(sidecar.env, [
    { name: "SVC_AGENT_ETCD_USERNAME", value: "agent" },
    { name: "SVC_AGENT_ETCD_PASSWORD", valueFrom },
  ]);
});
