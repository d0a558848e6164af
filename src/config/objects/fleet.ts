// Keys of an agent among others: etcd, peers, shared counters, Kubernetes, the cloud extension, storage.

import { address, anyText, bindAddress, endpoint, hostPort, someText } from "../format.ts";
import { bool, choice, duration, number, object, string, strings, table } from "../row.ts";
import { clientConfig, clientTlsConfig } from "./client.ts";

export const agentInfoConfig = table("AgentInfoConfig", "Who this agent is.", {
  agent_group: string("default", someText, "Agents of one group receive the same policies."),
});

export const etcdConfig = table(
  "EtcdConfig",
  "The etcd cluster that policies and decisions travel through.",
  {
    endpoints: strings(endpoint, "Servers of the cluster."),
    lease_ttl: duration("10s", "Time after which keys of a silent process go away.", {
      least: "1s",
    }),
    log_level: choice(
      "error",
      [
        ...["", "debug", "DEBUG", "info", "INFO", "warn", "WARN", "error", "ERROR"],
        ...["dpanic", "DPANIC", "panic", "PANIC", "fatal", "FATAL"],
      ] as const,
      "Level of what the etcd client itself says. Empty is error.",
    ),
    namespace: string("aperture", anyText, "Text put before every key."),
    username: string("", anyText, "User name."),
    password: string("", anyText, "Password.", { secret: true }),
    tls: object(clientTlsConfig),
  },
);

export const cloudExtConfig = table("CloudExtConfig", "The cloud extension.", {
  api_key: string("", anyText, "Key of this installation. Empty turns the extension off.", {
    secret: true,
  }),
  agent_api_key: string("", anyText, "Older name of api_key.", {
    secret: true,
    deprecated: "use cloudext.api_key",
  }),
  controller_id: string(
    "",
    anyText,
    "Identity of the controller. Empty: one is made up and kept in etcd.",
  ),
  disable_local_otel_pipeline: bool(
    false,
    "Run no local metrics pipelines. Implied by enable_cloud_controller.",
  ),
  enable_cloud_controller: bool(false, "Use the cloud's controller instead of one's own."),
  endpoint: string("", address, "Where the cloud listens (gRPC or HTTP)."),
  heartbeat_interval: duration("5s", "Time between heartbeats.", { least: "above 0s" }),
  installation_mode: choice(
    "LINUX_BARE_METAL",
    ["KUBERNETES_SIDECAR", "KUBERNETES_DAEMONSET", "LINUX_BARE_METAL", "CLOUD_AGENT"] as const,
    "How this process was installed.",
  ),
  client: object(clientConfig),
});

export const agentFunctionsConfig = table(
  "AgentFunctionsConfig",
  "Servers that may call functions of this agent.",
  {
    endpoints: strings(endpoint, "Servers to connect to."),
    client: object(clientConfig),
  },
);

export const autoScaleKubernetesConfig = table(
  "AutoScaleKubernetesConfig",
  "Scaling of Kubernetes workloads.",
  {
    enabled: bool(false, "Let policies scale workloads."),
  },
);

export const distCacheConfig = table(
  "DistCacheConfig",
  "Counters that agents share among themselves.",
  {
    bind_addr: string(":3320", bindAddress, "Where peers reach the counters."),
    memberlist_advertise_addr: string(
      "",
      hostPort,
      "Membership address told to peers, where it differs from the bound one.",
    ),
    memberlist_bind_addr: string(":3322", bindAddress, "Where membership messages arrive."),
    replica_count: number("int64", 1, "Copies of every counter.", { min: 1 }),
    sync_replication: bool(false, "Answer only after all copies are written."),
  },
);

export const flowPreviewConfig = table(
  "FlowPreviewConfig",
  "Samples of live traffic for people who write policies.",
  {
    enabled: bool(true, "Serve previews."),
  },
);

export const flowControlConfig = table("FlowControlConfig", "Judging flows.", {
  max_keys: number(
    "uint64",
    1_000_000,
    "Keys that one limiter keeps apart. Beyond them, new keys share one strict bucket.",
    { min: 1_024, own: true },
  ),
  preview_service: object(flowPreviewConfig),
});

export const kubernetesDiscoveryConfig = table(
  "KubernetesDiscoveryConfig",
  "Finding services through Kubernetes.",
  {
    enabled: bool(true, "Watch endpoints of the cluster. Nothing happens outside one."),
  },
);

export const peerDiscoveryConfig = table("PeerDiscoveryConfig", "How peers find this agent.", {
  advertisement_addr: string(
    "",
    hostPort,
    "Server address told to peers. Empty: host name and listener port.",
  ),
});

export const crWatcherConfig = table("CRWatcherConfig", "Policies as Kubernetes resources.", {
  enabled: bool(false, "Watch the policy resource."),
});

const objectStorageBackoff = table("ObjectStorageBackoffConfig", "Waiting between attempts.", {
  initial: duration("0.5s", "Wait after the first failure."),
  multiplier: number("float64", 1.5, "Growth of the wait per failure.", { min: 0 }),
  maximum: duration("2s", "Longest wait."),
});

const objectStorageRetry = table("ObjectStorageRetryPolicy", "Attempts at one request.", {
  timeout: duration("10s", "Time for all attempts together."),
  backoff: object(objectStorageBackoff),
});

export const objectStorageConfig = table("ObjectStorageConfig", "A bucket behind the caches.", {
  enabled: bool(false, "Keep cache entries in the bucket too."),
  backend: choice("gcs", ["gcs"] as const, "Kind of storage."),
  bucket: string("", anyText, "Name of the bucket."),
  key_prefix: string("", anyText, "Text put before every key."),
  operations_channel_size: number("int64", 1_000, "Writes that may wait.", { min: 0 }),
  retry_policy: object(objectStorageRetry),
});
