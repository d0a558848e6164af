// Keys that can be set and have no effect: never, or not as other keys are set and where the process runs. A process logs
// those that are set, once, at start. A test compares the first table with the keys that a running process really reads.

import type { Loaded } from "./load.ts";
import type { AgentConfig, ConfigOf, ControllerConfig, ProcessName } from "./tree.ts";

export interface IneffectiveEntry {
  /** A key, or an object with everything inside it. The first entry that fits a key counts. */
  readonly path: string;
  readonly why: string;
}

/**
 * True if a tree configures the process itself, with its log, metrics, health and ports, alone or as the agent's tree
 * does in standalone, or only one part of it, as the controller's tree does there.
 */
export type TreeRole = "process" | "standalone" | "part";

const OVER_GRPC = "agents connect to controllers over gRPC";
const NO_KUBERNETES_SCRAPER = "Sluice has no scraper of pods: Prometheus reads their metrics";
const PREVIEWS = "not built yet: previews of flows";
const CACHES = "not built yet: caches";
const GOOGLE_TOKENS = "not built yet: Google's tokens for calls of the metrics server";
const OWN_HEALTH = "/healthz is answered without a call to the process itself";
const CLOUD = "not built yet: there is no cloud service to report to";
const PIPELINE = "not built yet: exporting metrics over OTLP";
const INSTALLATION_MODE =
  "informational, except that CLOUD_AGENT permits the agent group `aperture-cloud`";
/** Modes that the charts and the injector set in every pod: nobody chose them for an effect. */
const SET_BY_INSTALLATION: ReadonlySet<string> = new Set([
  "KUBERNETES_SIDECAR",
  "KUBERNETES_DAEMONSET",
]);
/** Applies only to trees of standalone. */
const IN_MEMORY = "standalone keeps its rules in memory";
/** Applies only to a tree that configures a part of the process. */
const STANDALONE = "the agent's setting applies";
const CONTROLLER = "set it in the controller's configuration";
const CHECKS = "a controller answers no checks";
const NO_CHECKS = "an injector answers no checks";
const WHOLE_BATCHES = "all series are written at once, in requests of send_batch_max_size";
const NOT_PUBLISHED = "a controller publishes no metrics; collectors read its /metrics";
const NO_GOGC = "Node's collector has no such target";
const NO_TRACES = "Sluice makes no traces of its own";
const NO_COUNTERPART = "the HTTP client has no such setting";
const NO_KUBELET_SCRAPER = "Sluice has no kubelet scraper";

const entriesAt = (why: string, ...paths: readonly string[]): readonly IneffectiveEntry[] =>
  paths.map((path) => ({ path, why }));

const withoutCounterpart = (client: string): readonly IneffectiveEntry[] =>
  entriesAt(
    NO_COUNTERPART,
    `${client}.expect_continue_timeout`,
    `${client}.read_buffer_size`,
    `${client}.write_buffer_size`,
  );

const withoutChecks = (why: string): readonly IneffectiveEntry[] =>
  entriesAt(
    why,
    "server.grpc_gateway",
    "server.http.max_baggage_bytes",
    "server.http.max_json_depth",
    "server.http.max_labels",
  );

const OF_ALL: readonly IneffectiveEntry[] = [
  { path: "crashreport.traces_sample_rate", why: NO_TRACES },
  { path: "watchdog.memory.heap.min_gogc", why: NO_GOGC },
  ...withoutCounterpart("kubernetes_client.http_client"),
];

const OF_AGENT_AND_CONTROLLER: readonly IneffectiveEntry[] = [
  ...OF_ALL,
  { path: "cloudext.installation_mode", why: INSTALLATION_MODE },
  { path: "cloudext", why: CLOUD },
  { path: "etcd", why: IN_MEMORY },
  { path: "health", why: OWN_HEALTH },
  { path: "token_source", why: GOOGLE_TOKENS },
  ...withoutCounterpart("prometheus.http_client"),
];

/** Keys that have no effect, however others are set. */
export const INEFFECTIVE: Readonly<Record<ProcessName, readonly IneffectiveEntry[]>> = {
  agent: [
    ...OF_AGENT_AND_CONTROLLER,
    { path: "agent_functions.client.http", why: OVER_GRPC },
    ...entriesAt(
      CONTROLLER,
      "alerter",
      "alertmanagers",
      "auto_scale",
      "otel.batch_alerts",
      "prometheus.labels",
    ),
    { path: "flow_control.preview_service", why: PREVIEWS },
    { path: "object_storage", why: CACHES },
    { path: "otel.batch_postrollup.send_batch_size", why: WHOLE_BATCHES },
    { path: "otel.batch_prerollup", why: PIPELINE },
    { path: "otel.disable_kubelet_scraper", why: NO_KUBELET_SCRAPER },
    { path: "otel.disable_kubernetes_scraper", why: NO_KUBERNETES_SCRAPER },
  ],
  controller: [
    ...OF_AGENT_AND_CONTROLLER,
    ...entriesAt(
      STANDALONE,
      "crashreport",
      "log",
      "metrics",
      "otel.ports",
      "profilers",
      "readiness",
      "server",
      "service_discovery",
      "watchdog",
    ),
    { path: "otel.enable_high_cardinality_platform_metrics", why: NOT_PUBLISHED },
    ...entriesAt(IN_MEMORY, "policies.checkpoints", "policies.removal_guard"),
    ...withoutChecks(CHECKS),
  ],
  injector: [...OF_ALL, ...withoutChecks(NO_CHECKS)],
};

/** True if an entry is about a key. */
export function covers({ path }: IneffectiveEntry, key: string): boolean {
  return key === path || key.startsWith(`${path}.`);
}

/** Facts beside the settings on which the effect of a key depends. */
export interface Surroundings {
  readonly role: TreeRole;
  /** The environment, which says whether the process can find a Kubernetes API server. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

interface Condition<Config> extends IneffectiveEntry {
  /** Keys inside `path` that this entry is not about. */
  readonly except?: string;
  readonly applies: (config: Config, around: Surroundings) => boolean;
}

const NO_DSN: Condition<ConfigOf[ProcessName]> = {
  path: "crashreport",
  except: "crashreport.dsn",
  why: "no crash is reported while crashreport.dsn is empty",
  applies: ({ crashreport }) => crashreport.dsn === "",
};
const NO_METRICS_SERVER: Condition<AgentConfig | ControllerConfig> = {
  path: "prometheus.http_client",
  why: "no server is called while prometheus.address is empty",
  applies: ({ prometheus }) => prometheus.address === "",
};
const noController = (path: string): Condition<AgentConfig> => ({
  path,
  why: "no controller is called while agent_functions.endpoints is empty",
  applies: ({ agent_functions }) => agent_functions.endpoints.length === 0,
});
const KUBERNETES_CLIENT = "kubernetes_client";

/** Keys that have no effect because of how other keys are set, or of where the process runs. */
const CONDITIONS: Readonly<{ [P in ProcessName]: readonly Condition<ConfigOf[P]>[] }> = {
  agent: [
    noController("agent_functions.client"),
    noController("agent_functions.token"),
    NO_DSN,
    {
      path: "dist_cache",
      why: "agents count for each other only with counters.engine: peers",
      applies: (config, { role }) => !countsForOthers(config, role),
    },
    {
      path: KUBERNETES_CLIENT,
      why: "the agent calls no Kubernetes API server: it runs outside a cluster, or service_discovery.kubernetes says so",
      applies: ({ service_discovery }, { env }) =>
        !service_discovery.kubernetes.enabled ||
        service_discovery.kubernetes.source === "controller" ||
        !env["KUBERNETES_SERVICE_HOST"],
    },
    NO_METRICS_SERVER,
  ],
  controller: [
    NO_DSN,
    {
      path: KUBERNETES_CLIENT,
      why: "there is no Kubernetes API server: the controller runs outside a cluster, without KUBECONFIG",
      applies: (_config, { env }) => !env["KUBERNETES_SERVICE_HOST"] && !env["KUBECONFIG"],
    },
    NO_METRICS_SERVER,
  ],
  injector: [NO_DSN],
};

function countsForOthers({ counters: { engine } }: AgentConfig, role: TreeRole): boolean {
  return engine === "peers" || (engine === "auto" && role === "process");
}

/** The entry that says why a key has no effect, in general or as the process is configured. */
function entryOf<P extends ProcessName>(
  { process, config }: Loaded<P>,
  path: string,
  around: Surroundings,
): IneffectiveEntry | undefined {
  const why = ineffectiveReason(process, path, around.role);
  if (why !== undefined) return { path, why };
  const conditions: readonly Condition<ConfigOf[P]>[] = CONDITIONS[process];
  return conditions.find(
    (entry) => path !== entry.except && covers(entry, path) && entry.applies(config, around),
  );
}

/** The reason for which a key has no effect as the process is configured; undefined when it has one. */
export function reasonInForce(
  loaded: Loaded,
  path: string,
  around: Surroundings,
): string | undefined {
  return entryOf(loaded, path, around)?.why;
}

/** The reason for which a key has no effect, however others are set; undefined when it has one. */
export function ineffectiveReason(
  process: ProcessName,
  path: string,
  role: TreeRole = roleInStandalone(process),
): string | undefined {
  return INEFFECTIVE[process].find(
    (entry) =>
      (role === "part" || entry.why !== STANDALONE) &&
      (role !== "process" || entry.why !== IN_MEMORY) &&
      covers(entry, path),
  )?.why;
}

function roleInStandalone(process: ProcessName): TreeRole {
  return process === "agent" ? "standalone" : process === "controller" ? "part" : "process";
}

export interface IneffectiveSetting {
  readonly path: string;
  readonly where: string;
  readonly why: string;
  /** The key or object that the reason is about: settings that share it are one remark. */
  readonly about: string;
}

/** Keys that were set although they have no effect. */
export function ineffectiveSettings(
  loaded: Loaded,
  role: TreeRole = roleInStandalone(loaded.process),
  env: Surroundings["env"] = {},
): readonly IneffectiveSetting[] {
  const found: IneffectiveSetting[] = [];
  for (const [path, { source, where }] of loaded.origins) {
    if (source === "default") continue;
    const entry = entryOf(loaded, path, { role, env });
    if (entry === undefined) continue;
    if (entry.why === INSTALLATION_MODE && isSetByInstallation(loaded)) continue;
    found.push({ path, where, why: entry.why, about: entry.path });
  }
  return found;
}

function isSetByInstallation({ config }: Loaded): boolean {
  return "cloudext" in config && SET_BY_INSTALLATION.has(config.cloudext.installation_mode);
}
