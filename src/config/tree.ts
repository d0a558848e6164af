// The key trees of the two processes, composed from the tables, and the types of the loaded configuration.

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
  crWatcherConfig,
  etcdConfig,
  kubernetesDiscoveryConfig,
  peerDiscoveryConfig,
} from "./objects/cluster.ts";
import { countersConfig } from "./objects/counters.ts";
import { crashReportConfig, healthConfig, jobGroupConfig, watchdogConfig } from "./objects/host.ts";
import { serverConfig } from "./objects/server.ts";
import {
  agentOtelConfig,
  alerterConfig,
  alertmanagersConfig,
  controllerOtelConfig,
  logConfig,
  metricsConfig,
  profilersConfig,
  prometheusConfig,
} from "./objects/telemetry.ts";
import { keyPart } from "./table/format.ts";
import {
  group,
  type LeafRow,
  object,
  type Settings,
  string,
  type Table,
  table,
  type Violation,
} from "./table/row.ts";

const common = {
  alerter: object(alerterConfig),
  alertmanagers: object(alertmanagersConfig),
  client: group({ proxy: object(proxyConfig) }),
  cloudext: object(cloudExtConfig),
  crashreport: object(crashReportConfig),
  etcd: object(etcdConfig),
  health: group({ client: group({ grpc: object(grpcClientConfig) }) }),
  liveness: healthConfig,
  log: object(logConfig),
  metrics: object(metricsConfig),
  profilers: object(profilersConfig),
  prometheus: object(prometheusConfig),
  readiness: healthConfig,
  server: object(serverConfig),
  token_source: object(tokenSourceConfig),
  watchdog: group({ memory: object(watchdogConfig) }),
} as const;

/** The agent group of the cloud is reserved for its own agents. */
function reservedGroup(agent: {
  readonly agent_info: { readonly agent_group: string };
  readonly cloudext: { readonly installation_mode: string };
}): readonly Violation[] {
  const { agent_group: name } = agent.agent_info;
  if (name !== "aperture-cloud" || agent.cloudext.installation_mode === "CLOUD_AGENT") return [];
  const wanted = "another name: this one requires cloudext.installation_mode CLOUD_AGENT";
  return [{ key: "agent_info.agent_group", wanted, got: JSON.stringify(name) }];
}

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
  reservedGroup,
);

const controllerTable = table("", "", {
  ...common,
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
    promql_jobs_scheduler: object(jobGroupConfig),
  }),
});

/** The agent's settings; keys as documented, durations in milliseconds. */
export type AgentConfig = Settings<typeof agentTable>;
/** The controller's settings; keys as documented, durations in milliseconds. */
export type ControllerConfig = Settings<typeof controllerTable>;

export interface ConfigOf {
  readonly agent: AgentConfig;
  readonly controller: ControllerConfig;
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
