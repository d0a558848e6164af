import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { stringify } from "yaml";
import { type ConfigError, ConfigFault } from "#config/fault.ts";
import { type ConfigSources, loadConfig } from "#config/load.ts";
import { nameOf } from "#config/read/variables.ts";
import type { LeafRow } from "#config/table/row.ts";
import { wantedOf } from "#config/table/value.ts";
import { branches, type ConfigLeaf, leaves, PROCESSES, type ProcessName } from "#config/tree.ts";
import { configOf } from "../kit/sluice/config.ts";
import { badSamples, goodSamples, type Sample } from "../kit/sluice/config-samples.ts";

const BOTH: readonly ProcessName[] = ["agent", "controller"];
const directory = mkdtempSync(join(tmpdir(), "sluice-keys-"));
const file = join(directory, "one.yaml");
after(() => rmSync(directory, { recursive: true }));

function at(tree: unknown, path: string): unknown {
  let found = tree;
  for (const key of path.split(".")) found = new Map(Object.entries(found ?? {})).get(key);
  return found;
}

/** Keys that the rule of their object limits further, most of them by other keys; these are loaded alone. */
const BOUND_TO_OTHERS =
  /(tls\.(cert_file|key_file|enabled|allowed_cn)|server\.tls\.client_ca_file|grpc_gateway\.tls\.ca_file|(dist_cache|redis)\.tls\.ca_file|administration\.(token(_path)?|addr)|send_batch_(max_)?size|crashreport\.dsn|lease\.duration|gateway_api\.enabled|policies\.namespaces)$/;

interface Given {
  readonly leaf: ConfigLeaf;
  readonly sample: Sample;
}

/** The same samples through a file and through variables. */
function bothWays(process: ProcessName, given: readonly Given[]): readonly ConfigSources[] {
  const tree = {};
  for (const { leaf, sample } of given) plant(tree, leaf.path.split("."), sample.raw);
  writeFileSync(file, stringify(tree));
  const env = Object.fromEntries(
    given.map(({ leaf, sample }) => [nameOf(process, leaf.path, "leaf"), sample.text]),
  );
  return [
    { env: {}, configPath: file, dotenvDir: directory },
    { env, configPath: directory, dotenvDir: directory },
  ];
}

function plant(tree: Record<string, unknown>, [key = "", ...rest]: string[], raw: unknown): void {
  const inner = (tree[key] ?? {}) as Record<string, unknown>;
  tree[key] = rest.length === 0 ? raw : inner;
  if (rest.length > 0) plant(inner, rest, raw);
}

/** Every sample of every key at least once, as few loads as that takes. */
function rounds(
  keys: readonly ConfigLeaf[],
  samples: (row: LeafRow) => readonly Sample[],
): Given[][] {
  const all = keys.map((leaf) => ({ leaf, samples: samples(leaf.row) }));
  for (const { leaf, samples: some } of all) assert.notEqual(some.length, 0, leaf.path);
  const most = Math.max(...all.map(({ samples: some }) => some.length));
  return Array.from({ length: most }, (_, round) =>
    all.flatMap(({ leaf, samples: some }) => {
      const sample = some[round % some.length];
      return sample === undefined ? [] : [{ leaf, sample }];
    }),
  );
}

function errorsOf(process: ProcessName, sources: ConfigSources): readonly ConfigError[] {
  try {
    loadConfig(process, sources);
    return [];
  } catch (thrown) {
    assert.ok(thrown instanceof ConfigFault, String(thrown));
    return thrown.errors;
  }
}

for (const process of BOTH) {
  const keys = leaves(PROCESSES[process].table);
  const free = keys.filter(({ path }) => !BOUND_TO_OTHERS.test(path));
  const bound = keys.filter(({ path }) => BOUND_TO_OTHERS.test(path));

  test(`${process}: every key takes what its row allows`, () => {
    assert.ok(free.length > 150);
    for (const given of rounds(free, goodSamples)) {
      for (const [way, sources] of bothWays(process, given).entries()) {
        const { config, origins } = loadConfig(process, sources);
        for (const { leaf, sample } of given) {
          assert.deepEqual(at(config, leaf.path), sample.value, `${leaf.path} ${sample.text}`);
          assert.equal(origins.get(leaf.path)?.source, way === 0 ? "file" : "environment");
        }
      }
    }
  });

  test(`${process}: keys bound to others are refused by those rules alone`, () => {
    assert.notEqual(bound.length, 0);
    for (const leaf of bound) {
      for (const sample of goodSamples(leaf.row)) {
        for (const sources of bothWays(process, [{ leaf, sample }])) {
          const byRow = errorsOf(process, sources).filter(
            ({ wanted }) => wanted === wantedOf(leaf.row),
          );
          assert.deepEqual(byRow, [], `${leaf.path} ${sample.text}`);
        }
      }
    }
  });

  test(`${process}: every key refuses what its row forbids, all at once`, () => {
    for (const given of rounds(keys, badSamples)) {
      for (const [way, sources] of bothWays(process, given).entries()) {
        const named = new Set(errorsOf(process, sources).map(({ path }) => path.split("[")[0]));
        const missed = given.filter(({ leaf }) => !named.has(leaf.path));
        const told = missed.map(({ leaf, sample }) => `${leaf.path} ${JSON.stringify(sample)}`);
        assert.deepEqual(told, [], way === 0 ? "file" : "variables");
      }
    }
  });

  test(`${process}: no two keys share a name`, () => {
    const { table } = PROCESSES[process];
    const names = [
      ...keys.map(({ path }) => nameOf(process, path, "leaf")),
      ...branches(table).map(({ path }) => nameOf(process, path, "object")),
    ];
    assert.equal(new Set(names).size, names.length);
  });
}

const CLIENT_TLS = {
  ca_file: "",
  cert_file: "",
  insecure_skip_verify: false,
  key_file: "",
  key_log_file: "",
};
const BACKOFF = { base_delay: 1_000, jitter: 0.2, max_delay: 120_000, multiplier: 1.6 };
const GRPC_CLIENT = {
  insecure: false,
  min_connection_timeout: 20_000,
  use_proxy: false,
  backoff: BACKOFF,
  tls: CLIENT_TLS,
};
const HTTP_CLIENT = {
  disable_compression: false,
  disable_keep_alives: false,
  expect_continue_timeout: 1_000,
  idle_connection_timeout: 90_000,
  key_log_file: "",
  max_conns_per_host: 0,
  max_idle_connections: 100,
  max_idle_connections_per_host: 5,
  max_response_header_bytes: 0,
  network_keep_alive: 30_000,
  network_timeout: 30_000,
  read_buffer_size: 0,
  response_header_timeout: 0,
  tls_handshake_timeout: 10_000,
  timeout: 60_000,
  use_proxy: false,
  write_buffer_size: 0,
  proxy_connect_header: {},
  tls: CLIENT_TLS,
};
const CLIENT = { grpc: GRPC_CLIENT, http: HTTP_CLIENT };
const ADAPTIVE = { enabled: false, factor: 0.5 };
const WATERMARKS = { enabled: false, watermarks: [0.5, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99] };
const WATCH = { adaptive_policy: ADAPTIVE, watermarks_policy: WATERMARKS };
const JOB = { execution_period: 10_000, execution_timeout: 5_000, initially_healthy: false };
const GROUP = { blocking_execution: false, worker_limit: 0 };
const BUCKETS = [10, 25, 100, 250, 1_000];
const PORTS = {
  debug_port: 8_888,
  health_check_port: 13_133,
  host: "",
  pprof_port: 1_777,
  zpages_port: 55_679,
};
const ALERTS = { send_batch_max_size: 100, send_batch_size: 100, timeout: 1_000 };

// Written down from the interface document, not from the tables.
const COMMON = {
  alerter: { channel_size: 100 },
  alertmanagers: { clients: [] },
  client: { proxy: { http: "", https: "", no_proxy: [] } },
  cloudext: {
    api_key: "",
    agent_api_key: "",
    controller_id: "",
    disable_local_otel_pipeline: false,
    enable_cloud_controller: false,
    endpoint: "",
    heartbeat_interval: 5_000,
    installation_mode: "LINUX_BARE_METAL",
    client: CLIENT,
  },
  crashreport: {
    attach_stack_trace: true,
    debug: true,
    disabled: false,
    dsn: "",
    environment: "production",
    sample_rate: 1,
    traces_sample_rate: 0.2,
  },
  etcd: {
    endpoints: [],
    lease_ttl: 10_000,
    log_level: "error",
    namespace: "aperture",
    username: "",
    password: "",
    tls: CLIENT_TLS,
  },
  health: { client: { grpc: GRPC_CLIENT } },
  liveness: { scheduler: GROUP, service: JOB },
  log: { format: "auto", level: "info", non_blocking: true, pretty_console: false, writers: [] },
  metrics: { enable_go_metrics: false, enable_process_collector: false, pedantic: false },
  profilers: { cpu_profiler: false, profiles_path: "default", register_http_routes: true },
  prometheus: { address: "", labels: [], http_client: HTTP_CLIENT },
  readiness: { scheduler: GROUP, service: JOB },
  server: {
    administration: {
      addr: "",
      allowed_hosts: [],
      enabled: true,
      insecure: false,
      token: "",
      token_path: "",
    },
    drain: { accept_for: 2_000, grace: 10_000 },
    grpc: {
      connection_timeout: 120_000,
      enable_reflection: false,
      latency_buckets_ms: BUCKETS,
      max_connection_age: 0,
      max_connection_age_grace: 10_000,
      max_message_bytes: 4_194_304,
      transport: "auto",
    },
    grpc_gateway: {
      grpc_server_address: "",
      tls: { ca_file: "", cert_file: "", enabled: false, key_file: "" },
    },
    http: {
      disable_http_keep_alives: false,
      idle_timeout: 30_000,
      latency_buckets_ms: BUCKETS,
      max_baggage_bytes: 8_192,
      max_body_bytes: 1_048_576,
      max_headers: 1_000,
      max_labels: 1_000,
      max_json_depth: 64,
      max_header_bytes: 1_048_576,
      read_header_timeout: 10_000,
      read_timeout: 10_000,
      write_timeout: 45_000,
    },
    listener: { addr: ":8080", keep_alive: 180_000, network: "tcp" },
    tls: { allowed_cn: "", cert_file: "", client_ca_file: "", enabled: false, key_file: "" },
  },
  token_source: { enabled: false, scopes: [] },
  watchdog: {
    memory: {
      cgroup: WATCH,
      heap: { limit: 268_435_456, min_gogc: 25, ...WATCH },
      heap_profile: false,
      job: JOB,
      system: WATCH,
    },
  },
};

test("agent: defaults are the documented ones", () => {
  assert.deepEqual(configOf("agent").config, {
    ...COMMON,
    etcd: { ...COMMON.etcd, snapshot_path: "" },
    agent_functions: { endpoints: [], token: "", client: CLIENT },
    agent_info: { agent_group: "default" },
    auto_scale: { kubernetes: { enabled: false } },
    counters: {
      engine: "auto",
      lease: { duration: 1_000, enabled: true, max_keys: 10_000 },
      peers: { max_pending: 10_000, probe_interval: 1_000, timeout: 100 },
      redis: {
        cluster: false,
        max_pending: 10_000,
        namespace: "sluice",
        nodes: [],
        password: "",
        probe_interval: 1_000,
        sentinel: { addresses: [], master: "", password: "", username: "" },
        timeout: 100,
        tls: { ca_file: "", cert_file: "", insecure_skip_verify: false, key_file: "" },
        url: "redis://127.0.0.1:6379",
        username: "",
      },
    },
    dist_cache: {
      bind_addr: ":3320",
      memberlist_advertise_addr: "",
      memberlist_bind_addr: ":3322",
      replica_count: 1,
      sync_replication: false,
      tls: { allowed_cn: "", ca_file: "", cert_file: "", key_file: "" },
    },
    flow_control: {
      baggage: { enabled: true, members: [] },
      default_control_point: "",
      max_keys: 1_000_000,
      overload: { enabled: true, max_delay: 50, max_in_progress: 10_000 },
      preview_service: { enabled: true },
    },
    kubernetes_client: { http_client: HTTP_CLIENT },
    object_storage: {
      enabled: false,
      backend: "gcs",
      bucket: "",
      key_prefix: "",
      operations_channel_size: 1_000,
      retry_policy: { timeout: 10_000, backoff: { initial: 500, multiplier: 1.5, maximum: 2_000 } },
    },
    otel: {
      disable_kubelet_scraper: false,
      disable_kubernetes_scraper: false,
      enable_high_cardinality_platform_metrics: false,
      batch_alerts: ALERTS,
      batch_postrollup: ALERTS,
      batch_prerollup: { send_batch_max_size: 10_000, send_batch_size: 10_000, timeout: 10_000 },
      ports: PORTS,
    },
    peer_discovery: { advertisement_addr: "" },
    service_discovery: { kubernetes: { enabled: true, source: "api_server" } },
  });
});

test("controller: defaults are the documented ones", () => {
  assert.deepEqual(configOf("controller").config, {
    ...COMMON,
    auto_scale: { kubernetes: { enabled: false } },
    gateway_api: { agents: "", enabled: false, fail_open: false },
    kubernetes_client: { http_client: HTTP_CLIENT },
    otel: {
      enable_high_cardinality_platform_metrics: false,
      batch_alerts: ALERTS,
      ports: PORTS,
    },
    policies: {
      checkpoints: { interval: 10_000, max_age: 600_000 },
      cr_watcher: { enabled: false },
      default_agent_group: "default",
      namespaces: [],
      namespace_quota: 20,
      promql_jobs_scheduler: GROUP,
      removal_guard: 0.5,
    },
    service_discovery: { kubernetes: { enabled: false } },
  });
});

test("items of lists of objects have defaults of their own", () => {
  const { config } = configOf("agent", { SVC_AGENT_LOG_WRITERS: '[{"file":"a"},{"max_age":1}]' });
  assert.deepEqual(config.log.writers, [
    { compress: false, file: "a", max_age: 7, max_backups: 3, max_size: 50 },
    { compress: false, file: "stderr", max_age: 1, max_backups: 3, max_size: 50 },
  ]);
});

test("the tree is deeply frozen", () => {
  const { config } = configOf("agent", { SVC_AGENT_LOG_WRITERS: '[{"file":"a"}]' });
  const open: string[] = [];
  const visit = (value: unknown, path: string) => {
    if (typeof value !== "object" || value === null) return;
    if (!Object.isFrozen(value)) open.push(path);
    for (const [key, inner] of Object.entries(value)) visit(inner, `${path}.${key}`);
  };
  visit(config, "");
  assert.deepEqual(open, []);
});
