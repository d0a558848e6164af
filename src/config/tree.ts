// The key trees of the processes, composed from the tables, and the types of the loaded configuration.

import {
  agentFunctionsConfig,
  agentInfoConfig,
  distCacheConfig,
  flowControlConfig,
  objectStorageConfig,
} from "./objects/agent.ts";
import {
  grpcClientConfig,
  httpClientConfig,
  proxyConfig,
  tokenSourceConfig,
} from "./objects/client.ts";
import {
  agentEtcdConfig,
  autoScaleKubernetesConfig,
  checkpointsConfig,
  cloudExtConfig,
  controllerAutoScaleConfig,
  controllerDiscoveryConfig,
  crWatcherConfig,
  etcdConfig,
  gatewayApiConfig,
  kubernetesDiscoveryConfig,
  peerDiscoveryConfig,
} from "./objects/cluster.ts";
import { countersConfig } from "./objects/counters.ts";
import { crashReportConfig, healthConfig, jobGroupConfig, watchdogConfig } from "./objects/host.ts";
import {
  envoyConfig,
  namespaceName,
  objectName,
  sidecarConfig,
  webhookConfig,
} from "./objects/injection.ts";
import { serverConfig } from "./objects/server.ts";
import {
  agentOtelConfig,
  alerterConfig,
  alertmanagersConfig,
  controllerOtelConfig,
  logConfig,
  metricsConfig,
  portsConfig,
  profilersConfig,
  prometheusConfig,
} from "./objects/telemetry.ts";
import { anyText, keyPart } from "./table/format.ts";
import {
  choice,
  duration,
  group,
  type LeafRow,
  number,
  object,
  type Settings,
  string,
  strings,
  type Table,
  table,
} from "./table/row.ts";
import type { KeyRule, Violation } from "./table/rule.ts";

/** Keys of the process itself, which every tree has. */
const ofProcess = {
  client: group({ proxy: object(proxyConfig) }),
  crashreport: object(crashReportConfig),
  liveness: healthConfig,
  log: object(logConfig),
  metrics: object(metricsConfig),
  profilers: object(profilersConfig),
  readiness: healthConfig,
  server: object(serverConfig),
  watchdog: group({ memory: object(watchdogConfig) }),
} as const;

const common = {
  ...ofProcess,
  alerter: object(alerterConfig),
  alertmanagers: object(alertmanagersConfig),
  cloudext: object(cloudExtConfig),
  etcd: object(etcdConfig),
  health: group({ client: group({ grpc: object(grpcClientConfig) }) }),
  prometheus: object(prometheusConfig),
  token_source: object(tokenSourceConfig),
} as const;

/** The agent group of the cloud is reserved for its own agents. */
const RESERVED_GROUP: readonly KeyRule[] = [
  {
    key: "agent_info.agent_group",
    when: [
      ["agent_info.agent_group", "is", "aperture-cloud"],
      ["cloudext.installation_mode", "is not", "CLOUD_AGENT"],
    ],
    wanted: "another name: this one requires cloudext.installation_mode CLOUD_AGENT",
    got: () => JSON.stringify("aperture-cloud"),
  },
];

const agentTable = table(
  "",
  "",
  {
    ...common,
    etcd: object(agentEtcdConfig),
    agent_functions: object(agentFunctionsConfig),
    agent_info: object(agentInfoConfig),
    counters: object(countersConfig),
    auto_scale: group({ kubernetes: object(autoScaleKubernetesConfig) }),
    dist_cache: object(distCacheConfig),
    flow_control: object(flowControlConfig),
    kubernetes_client: group({ http_client: object(httpClientConfig) }),
    object_storage: object(objectStorageConfig),
    otel: object(agentOtelConfig),
    peer_discovery: object(peerDiscoveryConfig),
    service_discovery: group({ kubernetes: object(kubernetesDiscoveryConfig) }),
  },
  RESERVED_GROUP,
);

/** Without `cr_watcher.enabled` nothing reads policies of any namespace. */
function unwatchedNamespaces({
  policies: { namespaces, cr_watcher },
}: {
  readonly policies: {
    readonly namespaces: readonly string[];
    readonly cr_watcher: { readonly enabled: boolean };
  };
}): readonly Violation[] {
  if (namespaces.length === 0 || cr_watcher.enabled) return [];
  const wanted = "true, because policies.namespaces names some";
  return [{ key: "policies.cr_watcher.enabled", wanted, got: "false" }];
}

const controllerTable = table(
  "",
  "",
  {
    ...common,
    auto_scale: group({ kubernetes: object(controllerAutoScaleConfig) }),
    gateway_api: object(gatewayApiConfig),
    kubernetes_client: group({ http_client: object(httpClientConfig) }),
    otel: object(controllerOtelConfig),
    policies: group({
      cr_watcher: object(crWatcherConfig),
      default_agent_group: string(
        "default",
        keyPart,
        "Agent group of selectors that name none. Agents are in the group `agent_info.agent_group`.",
        { own: true },
      ),
      checkpoints: object(checkpointsConfig),
      namespaces: strings(
        namespaceName,
        "Namespaces besides the controller's own whose Policy resources it runs, with `cr_watcher.enabled`. Each policy is called `NAME@NAMESPACE` and reaches only services, objects and names of its namespace. The controller needs the same rights in each of them.",
        { own: true },
      ),
      namespace_quota: number(
        "uint32",
        20,
        "The most policies of each of `namespaces` that are in force. The youngest resources beyond it wait for a place.",
        { min: 1, own: true },
      ),
      promql_jobs_scheduler: object(jobGroupConfig),
      removal_guard: number(
        "float64",
        0.5,
        "Share of the policies in force that a controller may remove when it becomes the leader, because none of its sources has them. If they are more, all of them stay in force until a source has them again or somebody removes them (`sluice policy delete`). 1 switches the guard off, 0 lets nothing be removed.",
        { min: 0, max: 1, own: true },
      ),
    }),
    service_discovery: group({ kubernetes: object(controllerDiscoveryConfig) }),
  },
  (config) => [...unwatchedNamespaces(config), ...resourcesToAttach(config)],
);

/** Only resources can be attached, so without them the key would have no effect. */
function resourcesToAttach({
  gateway_api,
  policies,
}: {
  readonly gateway_api: { readonly enabled: boolean };
  readonly policies: { readonly cr_watcher: { readonly enabled: boolean } };
}): readonly Violation[] {
  if (!gateway_api.enabled || policies.cr_watcher.enabled) return [];
  const wanted = "policies.cr_watcher.enabled true as well, because only resources are attached";
  return [{ key: "gateway_api.enabled", wanted, got: "true without it" }];
}

const injectorTable = table("", "", {
  ...ofProcess,
  envoy: object(envoyConfig),
  ignored_namespaces: strings(
    objectName,
    "Namespaces whose pods are left alone, besides its own and those of Kubernetes (kube-system, kube-public, kube-node-lease).",
    { own: true },
  ),
  kubernetes_client: group({ http_client: object(httpClientConfig) }),
  missed_pods_interval: duration(
    "1m",
    "Time between searches for pods of labelled namespaces that have no agent, because they are older than the label or were made while no injector answered, and between looks at the copies of Secrets.",
    { own: true, least: "1s" },
  ),
  namespace: string(
    "",
    anyText,
    "The namespace of the injector. Empty: that of its service account.",
    { own: true },
  ),
  native_sidecars: choice(
    "auto",
    ["auto", "on", "off"] as const,
    "Whether sidecars are init containers that go on (native sidecars). auto: where the cluster has them, from Kubernetes 1.29 on.",
    { own: true },
  ),
  otel: group({ ports: object(portsConfig) }),
  sidecar: object(sidecarConfig),
  webhook: object(webhookConfig),
});

/** The agent's settings; keys as documented, durations in milliseconds. */
export type AgentConfig = Settings<typeof agentTable>;
/** The controller's settings; keys as documented, durations in milliseconds. */
export type ControllerConfig = Settings<typeof controllerTable>;
/** The injector's settings; keys as documented, durations in milliseconds. */
export type InjectorConfig = Settings<typeof injectorTable>;

export interface ConfigOf {
  readonly agent: AgentConfig;
  readonly controller: ControllerConfig;
  readonly injector: InjectorConfig;
}

export type ProcessName = keyof ConfigOf;

export interface ProcessKeys {
  readonly table: Table;
  /** Prefix of every environment variable. */
  readonly prefix: string;
  /** Name of the service, from which the names of its file, log and directories are made. */
  readonly service: string;
}

export const PROCESSES: Readonly<Record<ProcessName, ProcessKeys>> = {
  agent: { table: agentTable, prefix: "SVC_AGENT_", service: "sluice-agent" },
  controller: { table: controllerTable, prefix: "SVC_CONTROLLER_", service: "sluice-controller" },
  injector: { table: injectorTable, prefix: "SVC_INJECTOR_", service: "sluice-injector" },
};

export interface ConfigLeaf {
  /** Dotted key path. */
  readonly path: string;
  readonly row: LeafRow;
}

export interface Branch {
  /** Dotted key path; empty for the root. */
  readonly path: string;
  readonly table: Table;
}

export function joined(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

/** Every key with a value of its own, in alphabetical order at each level. */
export function leaves(of: Table, path = ""): readonly ConfigLeaf[] {
  const found: ConfigLeaf[] = [];
  for (const key of Object.keys(of.rows).sort()) {
    const row = of.rows[key];
    if (row === undefined) continue;
    const here = joined(path, key);
    if (row.kind === "object") found.push(...leaves(row.table, here));
    else found.push({ path: here, row });
  }
  return found;
}

/** Every object of a tree, starting with the root. */
export function branches(of: Table, path = ""): readonly Branch[] {
  const found: Branch[] = [{ path, table: of }];
  for (const key of Object.keys(of.rows).sort()) {
    const row = of.rows[key];
    if (row?.kind === "object") found.push(...branches(row.table, joined(path, key)));
  }
  return found;
}
