// Keys of what agents and controllers share or find outside: etcd, Kubernetes, peers and the cloud extension.

import { address, anyText, endpoint, hostPort, serviceAddress } from "../table/format.ts";
import {
  bool,
  choice,
  duration,
  logLevels,
  object,
  ownTable,
  string,
  strings,
  table,
  text,
} from "../table/row.ts";
import { type KeyRule, needed } from "../table/rule.ts";
import { clientConfig, clientTlsConfig } from "./client.ts";

const etcdRows = {
  endpoints: strings(endpoint, "Addresses of the etcd servers."),
  lease_ttl: duration(
    "10s",
    "Time after which the keys of a process that no longer responds are deleted.",
    {
      least: "1s",
    },
  ),
  log_level: choice(
    "error",
    logLevels("debug", "info", "warn", "error", "dpanic", "panic", "fatal"),
    "Log level of the etcd client itself, the component etcd, whatever log.level says. Empty means error.",
  ),
  namespace: string("aperture", anyText, "Prefix of every key."),
  username: text("User name."),
  password: text("Password.", { secret: true }),
  tls: object(clientTlsConfig),
} as const;

/** A password has no effect without a user, and etcd admits no user without a password. */
const USER_OF_PASSWORD: readonly KeyRule[] = [
  needed("username", "password", "the name of a user, because password is set"),
  needed("password", "username", "the password of the user, because username is set"),
];

export const etcdConfig = table(
  "EtcdConfig",
  "The etcd cluster that controllers and agents share.",
  etcdRows,
  USER_OF_PASSWORD,
);

export const agentEtcdConfig = table(
  "AgentEtcdConfig",
  "The etcd cluster that controllers and agents share.",
  {
    ...etcdRows,
    snapshot_path: text(
      "File for the rules that the agent saw last. If it starts while etcd is away, it judges by them. Empty: it judges nothing before etcd answers.",
      { own: true },
    ),
  },
  USER_OF_PASSWORD,
);

export const cloudExtConfig = table("CloudExtConfig", "The cloud extension.", {
  api_key: text("Key of this installation. Empty turns the extension off.", {
    secret: true,
  }),
  agent_api_key: text("Older name of api_key.", {
    secret: true,
    deprecated: "use cloudext.api_key",
  }),
  controller_id: text("Identity of the controller. If empty, one is generated and stored in etcd."),
  disable_local_otel_pipeline: bool(
    false,
    "Run no local metrics pipelines. Implied by enable_cloud_controller.",
  ),
  enable_cloud_controller: bool(
    false,
    "Use the controller of the cloud instead of a separate one.",
  ),
  endpoint: string("", address, "Address of the cloud (gRPC or HTTP)."),
  heartbeat_interval: duration("5s", "Time between heartbeats.", { least: "above 0s" }),
  installation_mode: choice(
    "LINUX_BARE_METAL",
    ["KUBERNETES_SIDECAR", "KUBERNETES_DAEMONSET", "LINUX_BARE_METAL", "CLOUD_AGENT"] as const,
    "How this process was installed. Informs only, except that CLOUD_AGENT allows the agent group `aperture-cloud`, which is otherwise refused.",
  ),
  client: object(clientConfig),
});

export const autoScaleKubernetesConfig = table(
  "AutoScaleKubernetesConfig",
  "Scaling of Kubernetes workloads.",
  {
    enabled: bool(false, "Let policies scale workloads."),
  },
);

export const controllerAutoScaleConfig = ownTable(
  "ControllerAutoScaleConfig",
  "Scaling of Kubernetes objects by the controller that leads.",
  {
    enabled: bool(
      false,
      "Set the replicas of the objects that pod scalers and auto scalers of policies name. The pod's service account, or the user of the kubeconfig that KUBECONFIG names, must be allowed to list and watch these objects, to get and update their scale, and to list and watch HorizontalPodAutoscalers.",
    ),
  },
);

export const gatewayApiConfig = ownTable(
  "GatewayApiConfig",
  "Attachment of Policy resources to Gateways and HTTPRoutes, by the controller that leads.",
  {
    enabled: bool(
      false,
      "Let gateways of Envoy Gateway and Istio ask agents about the requests of the Gateways and HTTPRoutes that `targetRefs` of Policy resources name. Needs `policies.cr_watcher.enabled`. The pod's service account, or the user of the kubeconfig that KUBECONFIG names, must be allowed to list and watch these and GatewayClasses, and to list, watch, create, patch and delete SecurityPolicies and EnvoyFilters.",
    ),
    agents: string(
      "",
      serviceAddress,
      "The Service of the agents that gateways ask, as NAME.NAMESPACE.svc.DOMAIN:PORT.",
    ),
    fail_open: bool(
      false,
      "Whether requests pass while no agent decides. With false they get 503.",
    ),
  },
  ({ enabled, agents }) =>
    enabled && agents === ""
      ? [{ key: "agents", wanted: "the agents' Service, because enabled is true", got: "nothing" }]
      : [],
);

export const kubernetesDiscoveryConfig = table(
  "KubernetesDiscoveryConfig",
  "Discovery of services through Kubernetes.",
  {
    enabled: bool(
      true,
      "Know the pods and Services of the whole cluster by address, so that checks have the services of their addresses.",
    ),
    source: choice(
      "api_server",
      ["api_server", "controller"] as const,
      "`api_server`: the agent watches EndpointSlices and Services. The pod's service account, or the user of the kubeconfig that KUBECONFIG names, must be allowed to list and watch both; without KUBERNETES_SERVICE_HOST, outside a cluster, nothing is watched. `controller`: the agent reads from etcd what the leading controller discovered (its `service_discovery.kubernetes.enabled`), and needs no right on the Kubernetes API. It follows the key of its own pod, whose addresses POD_IPS or POD_IP names, and looks other addresses up in the background, so that the first check from an address may not know it yet.",
      { own: true },
    ),
  },
);

export const controllerDiscoveryConfig = ownTable(
  "ControllerDiscoveryConfig",
  "Discovery of services through Kubernetes, for agents that have no right on its API.",
  {
    enabled: bool(
      false,
      "While this controller leads, watch the EndpointSlices and Services of the whole cluster, and publish in etcd what stands at each address, for agents with `service_discovery.kubernetes.source: controller`. The pod's service account, or the user of the kubeconfig that KUBECONFIG names, must be allowed to list and watch both. A leader with false deletes what an earlier one published.",
    ),
  },
);

export const peerDiscoveryConfig = table("PeerDiscoveryConfig", "How peers find this agent.", {
  advertisement_addr: string(
    "",
    hostPort,
    "Address that this agent announces to the others of its group and to controllers. Empty means the address in POD_IP, or else the host name, and the listener port; an agent on a Unix socket then announces its id.",
  ),
});

export const checkpointsConfig = ownTable(
  "CheckpointsConfig",
  "What the circuits of policies remember, left in etcd so that the next leader goes on from it.",
  {
    interval: duration(
      "10s",
      "Time between writes of checkpoints, of which each holds the policies whose circuits remember something new.",
      { least: "10s" },
    ),
    max_age: duration(
      "10m",
      "A checkpoint older than this is not used: the circuit begins anew. Ticks that were left out since a younger one count as skipped.",
    ),
  },
);

export const crWatcherConfig = table("CRWatcherConfig", "Policies as Kubernetes resources.", {
  enabled: bool(
    false,
    "Run the Policy resources (fluxninja.com/v1alpha1) of the controller's namespace and of `policies.namespaces`, and answer the validating webhook at /validate/policy. The process calls the API server as the user of the kubeconfig that KUBECONFIG names; without KUBECONFIG, as the pod's service account.",
  ),
});
