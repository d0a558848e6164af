// For every key of all trees, the test that observes its effect; or the key is among those without effect. Many of these
// tests hand settings to a part. That a whole process hands the part its own keys and no others is tested in
// test/daemon/settings-in-effect.test.ts; for the keys that it lists as read by no part, the test named here must start a
// whole process.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { leaves, PROCESSES, type ProcessName } from "#config/tree.ts";
import { ineffectiveKeys } from "../kit/sluice/config.ts";

interface Observation {
  /** An object of the configuration; empty for the root. */
  readonly of: string;
  /** Its keys, or paths below it. `*` stands for one part of a path. */
  readonly keys: string;
  /** The test file, below `test/`. */
  readonly file: string;
  /** A part of the name of a test in it, as it stands there. */
  readonly name: string;
  /** The kind of process that this row is about, where agents and controllers use the key differently. */
  readonly only?: ProcessName;
}

const row = (
  of: string,
  keys: string,
  file: string,
  name: string,
  only?: ProcessName,
): Observation => ({ of, keys, file: `${file}.test.ts`, name, ...(only && { only }) });

const HTTP = "client/http";
const HTTP_TIMEOUTS = "client/http/timeouts";
const HTTP_TLS = "client/http/tls";
const CALLS = "fleet/calls/connections";
const REDIS = "counters/redis/topologies";
const PEERS = "counters/peers/processes";
const INJECTOR = "injector/process";
const SIDECARS = "injector/settings-from-config";
const KUBE = "kube/api/settings";
const HTTP_SETTINGS = "serve/http/settings";

/** Effects of the keys of the HTTP client, whichever part uses it. */
const httpClient = (of: string, only?: ProcessName): readonly Observation[] => [
  row(of, "idle_connection_timeout max_idle_*", HTTP, "idle connections: lim", only),
  row(of, "key_log_file", HTTP_TLS, "TLS: session keys are written to the key", only),
  row(of, "max_conns_per_host", HTTP, "connections: kept alive, closed aft", only),
  row(of, "max_response_*", HTTP, "responses are bounded: as received", only),
  row(of, "network_keep_alive", HTTP, "network_keep_alive is when", only),
  row(of, "network_timeout", HTTP_TIMEOUTS, "network_timeout bounds the wait for a", only),
  row(of, "response_header_timeout", HTTP_TIMEOUTS, "response_header_timeout bounds", only),
  row(of, "tls.insecure_skip_verify", HTTP_TLS, "TLS: private authority, client", only),
  row(of, "tls_handshake_timeout", HTTP_TIMEOUTS, "tls_handshake_timeout: a server", only),
];

const OBSERVED: readonly Observation[] = [
  row("agent_functions", "endpoints client.grpc.insecure", CALLS, "an agent connects to every end"),
  row("agent_functions", "token", CALLS, "TLS, a client certificate and the token"),
  row("agent_functions.client.grpc.tls", "ca_file cert_file key_file", CALLS, "TLS, a client cert"),
  row(
    "agent_functions.client.grpc",
    "use_proxy tls.insecure_skip_verify tls.key_log_file",
    CALLS,
    "agent_functions.client.grpc: insecure_skip_verify, key_log_file",
  ),
  row("agent_functions.client.grpc", "backoff.*", "fleet/calls/outbound", "delays grow from"),
  row(
    "agent_functions.client.grpc",
    "min_connection_timeout",
    "fleet/calls/outbound",
    "an attempt without an answer is given up",
  ),
  row("agent_info", "agent_group", CALLS, "an agent connects to every endpoint"),
  row("alerter", "channel_size", "standalone/loop", "alerts go to each of", "controller"),
  row("alertmanagers", "clients", "standalone/loop", "alerts go to each of", "controller"),
  row("client.proxy", "http https", "client/grpc-proxy", "cleartext and TLS are tunnelled"),
  row("client.proxy", "no_proxy", "client/http/proxies", "no_proxy: host names, subdomains"),
  row("counters", "engine redis.url", "counters/redis/one-limit", "three agents at five times"),
  row(
    "counters",
    "lease.duration",
    "counters/leases/leased-buckets",
    "counters.lease.duration: the",
  ),
  row(
    "counters",
    "lease.enabled",
    "counters/leases/leased-buckets",
    "counters.lease.enabled false",
  ),
  row(
    "counters",
    "lease.max_keys",
    "counters/leases/leased-buckets",
    "counters.lease.max_keys: fur",
  ),
  row("counters.peers", "timeout", PEERS, "an agent that is frozen is away until it goes on"),
  row("counters.peers", "max_pending", "counters/requests", "a bounded number waits"),
  row("counters.peers", "probe_interval", "counters/requests", "probes until one succeeds"),
  row("counters.redis", "cluster nodes", REDIS, "a cluster: keys of all nodes"),
  row("counters.redis", "max_pending", "counters/requests", "a bounded number waits"),
  row("counters.redis", "namespace", REDIS, "counters.redis.sentinel.username and password"),
  row(
    "counters.redis",
    "username password",
    "counters/redis/outages",
    "a user of an access control",
  ),
  row("counters.redis", "probe_interval", "counters/requests", "probes until one succeeds"),
  row("counters.redis.sentinel", "addresses master", REDIS, "Sentinel: the master is"),
  row("counters.redis.sentinel", "username password", REDIS, "counters.redis.sentinel.username"),
  row(
    "counters.redis",
    "timeout",
    "counters/redis/outages",
    "a frozen Redis costs callers one time",
  ),
  row("counters.redis.tls", "ca_file cert_file key_file", REDIS, "TLS with certificates of both"),
  row("counters.redis.tls", "insecure_skip_verify", REDIS, "counters.redis.tls.insecure_skip_v"),
  row("crashreport", "attach_stack_trace", "daemon/crash-report", "crashreport.attach_stack_tr"),
  row("crashreport", "debug", "daemon/crash-report", "crashreport.debug logs what"),
  row(
    "crashreport",
    "dsn environment",
    "daemon/crash-report",
    ": a crash is reported as an envelope",
  ),
  row("crashreport", "disabled sample_rate", "daemon/crash-report", "nothing is reported without"),
  row(
    "dist_cache",
    "bind_addr memberlist_bind_addr",
    "counters/peers/security",
    "a port that a pers",
  ),
  row("dist_cache", "memberlist_advertise_addr", "agent/peers", "dist_cache.memberlist_advertise"),
  row("dist_cache", "replica_count", PEERS, "with two copies a killed agent loses nothing"),
  row("dist_cache", "sync_replication", "counters/peers/copies", "synchronous copies are written"),
  row("dist_cache.tls", "*", "counters/peers/security", "with certificates, agents share a limit"),
  row("etcd", "endpoints", "store/etcd-faults", "endpoints are tried in turn"),
  row("etcd", "lease_ttl", "fleet/members", "etcd: a lost lease brings the record back"),
  row("etcd", "log_level", "store/etcd/reachability", "etcd.log_level: what the client"),
  row("etcd", "namespace username password", "store/etcd-faults", "what etcd refuses is said"),
  row("etcd", "snapshot_path", "daemon/snapshot", "an agent that starts while etcd is away judges"),
  row("etcd.tls", "*", "store/etcd-faults", "the keys of etcd.tls have their effect"),
  row("flow_control.baggage", "enabled", "attacks/baggage", "flow_control.baggage.enabled: none"),
  row("flow_control.baggage", "members", "attacks/baggage", "flow_control.baggage.members: only"),
  row(
    "flow_control",
    "default_control_point",
    "agent/control-point",
    "a check over ext_authz without a",
  ),
  row(
    "flow_control",
    "max_keys",
    "standalone/request-bounds",
    "flow_control.max_keys: a limiter that is",
  ),
  row("flow_control.overload", "enabled", "standalone/overload", "flow_control.overload.enabled s"),
  row("flow_control.overload", "max_delay", "flow/overload/guard", "max_delay: waits that are"),
  row("flow_control.overload", "max_in_progress", "flow/overload/shed", "no more than the limit"),
  row("*", "service.execution_period", "daemon/health", ".service.execution_period says when"),
  row("*", "service.execution_timeout", "daemon/health", ".service.execution_timeout ends"),
  row("*", "service.initially_healthy", "daemon/health", ".service.initially_healthy is the"),
  row("liveness.scheduler", "*", "daemon/health", "of three checks at once"),
  row("readiness.scheduler", "*", "daemon/health", "of three checks at once"),
  ...(["agent", "controller", "injector"] as const).flatMap((only) => [
    row(
      "kubernetes_client.http_client",
      "disable_compression disable_keep_alives timeout",
      KUBE,
      "compression, kept connections and the time limit",
      only,
    ),
    row(
      "kubernetes_client.http_client",
      "proxy_connect_header use_proxy tls.ca_file tls.cert_file tls.key_file tls.key_log_file",
      KUBE,
      "certificates, key log and proxy of the settings",
      only,
    ),
    ...httpClient("kubernetes_client.http_client", only),
  ]),
  row("", "ignored_namespaces", SIDECARS, "every key about containers has its place"),
  row("", "missed_pods_interval", INJECTOR, "pods that the webhook missed are counted"),
  row("", "namespace", INJECTOR, "names, the namespace and lifetimes are as configured"),
  row("", "native_sidecars", INJECTOR, "an old cluster gets plain containers, unless"),
  row("log", "format", "telemetry/log/log", "log.format $"),
  row("log", "level", "telemetry/log/log", "log.level $"),
  row("log", "non_blocking", "telemetry/log/log", "non_blocking: lines are taken at once"),
  row("log", "pretty_console", "telemetry/log/log", "pretty_console adds a readable writer"),
  row("log", "writers", "telemetry/log/log", "writers: stderr without any"),
  row("metrics", "enable_*", "telemetry/metrics/metrics", "runtime and process collectors are"),
  row("metrics", "pedantic", "telemetry/metrics/metrics", "pedantic: a sample that contradicts"),
  row(
    "otel.batch_alerts",
    "*",
    "telemetry/alerts/alerts",
    "batches are sent after the timeout",
    "controller",
  ),
  row(
    "otel.batch_postrollup",
    "send_batch_max_size",
    "daemon/metrics-server",
    "the agent's requests have at most as",
  ),
  row("otel.batch_postrollup", "timeout", "daemon/metrics-server", "compression, kept connect"),
  row(
    "otel",
    "enable_high_*",
    "prometheus/remote-write",
    "metrics for each method of gRPC",
    "agent",
  ),
  row("otel.ports", "*", "daemon/telemetry-ports", "is opened where it says, must be had"),
  row("peer_discovery", "advertisement_addr", "agent/peers", "two agents show one another"),
  row(
    "policies.checkpoints",
    "interval",
    "controller/checkpoint/checkpoint-keeper",
    "policies.checkpoin",
  ),
  row(
    "policies.checkpoints",
    "max_age",
    "controller/checkpoint/checkpoint-keeper",
    "checkpoints that are",
  ),
  row(
    "auto_scale.kubernetes",
    "enabled",
    "controller/cluster/scaling",
    "a policy scales an object",
    "controller",
  ),
  row("gateway_api", "enabled", "controller/cluster/attaching", "a policy is attached to a route"),
  row("gateway_api", "agents", "controller/cluster/attaching", "a policy is attached to a route"),
  row("gateway_api", "fail_open", "controller/cluster/attaching", "gateway_api.fail_open says"),
  row("policies.cr_watcher", "enabled", "controller/cluster/resources", "a resource runs and says"),
  row("policies", "namespaces", "controller/cluster/namespaces", "policies of one name in several"),
  row("policies", "namespace_quota", "controller/cluster/namespaces", "the youngest policies"),
  row("policies", "default_agent_group", "controller/warnings", "the default agent group is a"),
  row("policies", "removal_guard", "controller/policies/kept-source", "up to half of the policies"),
  row("policies.promql_jobs_scheduler", "*", "prometheus/query-runner", "worker_limit: so many"),
  row("profilers", "cpu_profiler profiles_path", "runtime/profiles", "the profile of a whole run"),
  row("profilers", "register_http_routes", "daemon/telemetry-ports", "the profile port serves"),
  row("prometheus", "address", "daemon/metrics-server", "TLS files, key log, proxy and headers"),
  row("prometheus", "labels", "prometheus/client", "labels restrict every query", "controller"),
  row(
    "prometheus.http_client",
    "proxy_connect_header use_proxy tls.ca_file tls.cert_file tls.key_file tls.key_log_file",
    "daemon/metrics-server",
    "TLS files, key log, proxy and headers of both halves",
  ),
  row(
    "prometheus.http_client",
    "disable_compression disable_keep_alives timeout",
    "daemon/metrics-server",
    "compression, kept connections and time limits of both halves",
  ),
  ...httpClient("prometheus.http_client"),
  row("server.administration", "addr", "agent/agent", "administration can have an address of its"),
  row("server.administration", "allowed_hosts", "serve/administration-pages", "a request for $"),
  row("server.administration", "enabled", "agent/agent", "administration can be switched off"),
  row("server.administration", "insecure", "serve/administration", "insecure: true serves admin"),
  row("server.administration", "token", "serve/administration", "a configured token is required"),
  row("server.administration", "token_path", "serve/administration", "the token of a file may end"),
  row("server.drain", "accept_for", "serve/drain", "a drain accepts connections for accept_for"),
  row("server.drain", "grace", "serve/drain", "cuts and logs calls that do not end within the gra"),
  row("server.grpc", "connection_timeout", "serve/port", "closes an incomplete HTTP/2 handshake"),
  row("server.grpc", "enable_reflection", "serve/standard/reflection", "serves no reflection unle"),
  row(
    "server.*",
    "latency_buckets_ms",
    "telemetry/metrics/server",
    "gRPC seconds come from millisecond",
  ),
  row(
    "server.grpc",
    "max_connection_age",
    "serve/grpc/transport-age",
    "sends GOAWAY at max_connecti",
  ),
  row(
    "server.grpc",
    "max_connection_age_grace",
    "serve/grpc/transport-age",
    "a call in progress outl",
  ),
  row("server.grpc", "max_message_bytes", "standalone/request-bounds", "server.grpc.max_message_b"),
  row("server.grpc", "transport", "serve/port", "loads the gRPC library only on request"),
  row(
    "server.grpc_gateway",
    "grpc_server_address",
    "agent/gateway",
    "with a gateway address, the o",
    "agent",
  ),
  row(
    "server.grpc_gateway.tls",
    "*",
    "agent/gateway",
    "the gateway has TLS files of its own",
    "agent",
  ),
  row(
    "server.http",
    "disable_http_keep_alives",
    HTTP_SETTINGS,
    "disable_http_keep_alives closes the conn",
  ),
  row(
    "server.http",
    "idle_timeout",
    HTTP_SETTINGS,
    "idle_timeout ends a connection between requests",
  ),
  row(
    "server.http",
    "max_baggage_bytes",
    "standalone/request-bounds",
    "server.http.max_baggage_b",
    "agent",
  ),
  row(
    "server.http",
    "max_body_bytes",
    "standalone/request-bounds",
    "server.http.max_body_bytes: 41",
  ),
  row("server.http", "max_header_bytes", HTTP_SETTINGS, "max_header_bytes: one byte more gets 431"),
  row("server.http", "max_headers", "standalone/request-bounds", "server.http.max_headers: 431"),
  row(
    "server.http",
    "max_json_depth",
    "standalone/request-bounds",
    "server.http.max_json_depth",
    "agent",
  ),
  row(
    "server.http",
    "max_labels",
    "standalone/request-bounds",
    "server.http.max_labels: a check",
    "agent",
  ),
  row(
    "server.http",
    "read_header_timeout",
    HTTP_SETTINGS,
    "read_header_timeout ends a request whose",
  ),
  row(
    "server.http",
    "read_timeout",
    HTTP_SETTINGS,
    "read_timeout ends a body that drips (HTTP/1.1)",
  ),
  row(
    "server.http",
    "write_timeout",
    HTTP_SETTINGS,
    "write_timeout ends a connection whose client does",
  ),
  row("server.listener", "addr network", "serve/port", "listens on IPv6, on both families, and on"),
  row("server.listener", "keep_alive", "serve/listen/keep-alive", "probes idle connections after"),
  row("server.tls", "allowed_cn", "serve/tls", "matches allowed_cn exactly"),
  row("server.tls", "enabled cert_file key_file", "serve/tls", "serves HTTP/1.1 and HTTP/2 over"),
  row("server.tls", "client_ca_file", "serve/tls", "with client_ca_file, admits only clients"),
  row("envoy", "*", SIDECARS, "every key about containers has its place"),
  row("envoy.resources", "*", SIDECARS, "every key about containers has its place"),
  row("sidecar", "*", SIDECARS, "every key about containers has its place"),
  row("sidecar.resources", "*", SIDECARS, "every key about containers has its place"),
  row("webhook", "addr", INJECTOR, "it makes its certificate, publishes the authority"),
  row("webhook", "*_lifetime", INJECTOR, "names, the namespace and lifetimes are as configured"),
  row("webhook", "cert_file key_file", INJECTOR, "with files of others it touches neither"),
  row(
    "webhook",
    "configuration secret service",
    INJECTOR,
    "names, the namespace and lifetimes are",
  ),
  row("webhook", "overlap", "injector/tls/rotation", "a new authority is announced first"),
  row(
    "service_discovery.kubernetes",
    "enabled",
    "agent/discovery/cluster",
    "nothing is asked where discovery is switched off",
    "agent",
  ),
  row(
    "service_discovery.kubernetes",
    "source",
    "agent/discovery/published",
    "a sidecar knows its own services, looks up those",
    "agent",
  ),
  row(
    "service_discovery.kubernetes",
    "enabled",
    "daemon/sidecar-discovery",
    "a leader that does not discover removes what is left",
    "controller",
  ),
  row(
    "watchdog.memory",
    "*.adaptive_policy.*",
    "runtime/watchdog",
    ": the adaptive policy collects",
  ),
  row(
    "watchdog.memory",
    "*.watermarks_policy.*",
    "runtime/watchdog",
    ": watermarks collect once for each",
  ),
  row(
    "watchdog.memory",
    "heap_profile",
    "runtime/watchdog",
    "heap_profile writes what is allocated",
  ),
  row(
    "watchdog.memory",
    "heap.limit job.*",
    "runtime/watchdog",
    ": the job runs by watchdog.memory.job",
  ),
];

/** True if a pattern, in which `*` stands for a part of a path or some characters of it, describes a path. */
function fits(pattern: string, path: string): boolean {
  return new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", "[^.]+")}$`).test(path);
}

const patternsOf = ({ of, keys }: Observation) =>
  keys.split(" ").map((key) => (of === "" ? key : `${of}.${key}`));

for (const process of ["agent", "controller", "injector"] as const) {
  const all = leaves(PROCESSES[process].table).map(({ path }) => path);
  const without = new Set(ineffectiveKeys(process, "process"));
  const rows = OBSERVED.filter(({ only }) => only === undefined || only === process);
  const observed = new Set(
    all.filter((path) => rows.some((each) => patternsOf(each).some((own) => fits(own, path)))),
  );

  test(`${process}: each key either has a test that observes it or is listed as without effect`, () => {
    assert.deepEqual(
      all.filter((path) => !observed.has(path) && !without.has(path)),
      [],
      "neither",
    );
    assert.deepEqual(
      all.filter((path) => observed.has(path) && without.has(path)),
      [],
      "both",
    );
    assert.equal(observed.size + without.size, all.length);
  });
}

test("each row is about keys that there are, and names a test that there is", () => {
  const keys = (["agent", "controller", "injector"] as const).flatMap((process) =>
    leaves(PROCESSES[process].table).map(({ path }) => path),
  );
  for (const each of OBSERVED) {
    for (const pattern of patternsOf(each))
      assert.ok(
        keys.some((key) => fits(pattern, key)),
        `${pattern}: no such key`,
      );
    const names = namesOfTests(readFileSync(join(import.meta.dirname, "..", each.file), "utf8"));
    assert.ok(
      names.some((name) => name.includes(each.name)),
      `${each.file} has no test "${each.name}"`,
    );
  }
});

/** The names of the tests in a file, as they stand there. What is commented out or skipped is none. */
function namesOfTests(text: string): readonly string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "");
  const calls = code.matchAll(/(?<![.\w])(?:test|it)\(\s*(["'`])((?:\\.|(?!\1)[\s\S])*)\1/g);
  return Array.from(calls, ([, , name = ""]) => name);
}

test("only the name of a test that runs counts as one", () => {
  const text = [
    'test("plain", () => {});',
    "test(\n  `of all`,\n  work);",
    '// test("commented out", work);',
    '/* test("in a comment", work); */',
    // Text that the function reads, not a test: a test that is skipped must not count.
    'test.skip("skipped", work);',
    '// a plain remark\nconst plain = "text";',
  ].join("\n");
  assert.deepEqual(namesOfTests(text), ["plain", "of all"]);
});
