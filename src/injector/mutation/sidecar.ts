// The containers that injection adds: the agent, and what both of them have in common.

import type { Container, EnvVar, JsonObject, Volume, VolumeMount } from "../pod.ts";
import {
  CERTIFICATES_PATH,
  type ContainerSettings,
  type InjectionSettings,
  type Resources as Quantities,
  type SidecarSettings,
} from "../settings.ts";

export const AGENT_NAME = "sluice-agent";
/** Names of containers that are the agent, ours first. */
export const AGENT_NAMES: readonly string[] = [AGENT_NAME, "aperture-agent"];

const CERTIFICATES = "sluice-certificates";
const NO_ACCOUNT = "sluice-no-account";

/**
 * Kubernetes mounts the token of the pod's account into every container that has no mount at this place. An empty folder
 * keeps the token from containers that need none.
 */
const NO_TOKEN: VolumeMount = {
  name: NO_ACCOUNT,
  mountPath: "/var/run/secrets/kubernetes.io/serviceaccount",
  readOnly: true,
};

/** Seconds that a container goes on after the pod was told to end, where nothing else orders their ends. */
export interface PreStopSleep {
  readonly seconds: number;
  /** Whether `preStop` may sleep without a program. */
  readonly sleepAction: boolean;
  /** The program that sleeps where it may not. */
  readonly program: readonly string[];
}

export interface AgentPorts {
  readonly main: number;
  /** Undefined where it is configured. */
  readonly metrics: number | undefined;
  /** Where kubelets ask for health; the main port is then on loopback. Undefined: they ask the main port. */
  readonly health: number | undefined;
}

/** Variables of ports beside the main port, which other programs of the pod may want to have. */
export const TELEMETRY_PORTS = {
  metrics: "SVC_AGENT_OTEL_PORTS_DEBUG_PORT",
  health: "SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT",
  profiles: "SVC_AGENT_OTEL_PORTS_PPROF_PORT",
  pages: "SVC_AGENT_OTEL_PORTS_ZPAGES_PORT",
} as const;

export interface AgentOptions {
  readonly settings: SidecarSettings;
  readonly ports: AgentPorts;
  readonly ipFamily: InjectionSettings["ipFamily"];
  readonly agentGroup: string | undefined;
  readonly resources: Quantities;
  /** The `preStop` hook of the container; undefined for none. */
  readonly preStop: JsonObject | undefined;
}

export function agentContainer({
  settings,
  ports,
  ipFamily,
  agentGroup,
  resources,
  preStop,
}: AgentOptions): Container {
  const { probes, certificates, otherPorts } = settings;
  const port = ports.health ?? ports.main;
  const named = [
    { name: "sluice", port: ports.main },
    { name: "sluice-metrics", port: ports.metrics },
    { name: "sluice-health", port: ports.health },
  ];
  const probe = (name: "liveness" | "readiness") =>
    probes === "TCP"
      ? { tcpSocket: { port } }
      : { httpGet: { path: `/v1/status/system/${name}`, port, scheme: probes } };
  return {
    name: AGENT_NAME,
    args: ["agent"],
    env: agentEnv(settings, ports, ipFamily, agentGroup),
    ports: [
      ...named.flatMap(({ name, port: containerPort }) =>
        containerPort === undefined ? [] : [{ name, containerPort, protocol: "TCP" }],
      ),
      ...otherPorts,
    ],
    // Alive, not ready: a sidecar that waits for etcd must hold up neither the application nor a mesh's proxy behind it,
    // over which etcd may have to be reached. Until the sidecar is ready the pod is not, and gets no requests.
    startupProbe: { ...probe("liveness"), periodSeconds: 1, failureThreshold: 60 },
    readinessProbe: {
      ...probe("readiness"),
      periodSeconds: 5,
      timeoutSeconds: 2,
      failureThreshold: 3,
    },
    livenessProbe: {
      ...probe("liveness"),
      periodSeconds: 10,
      timeoutSeconds: 5,
      failureThreshold: 6,
    },
    ...common(settings, resources, preStop),
    volumeMounts: [
      NO_TOKEN,
      ...(certificates === ""
        ? []
        : [{ name: CERTIFICATES, mountPath: CERTIFICATES_PATH, readOnly: true }]),
    ],
  };
}

/** The fields that both containers have in common, apart from their mounts. */
export function common(
  { image, imagePullPolicy, runAsUser }: ContainerSettings,
  resources: Quantities,
  preStop: JsonObject | undefined,
): JsonObject & { readonly image: string } {
  return {
    image,
    ...(imagePullPolicy === "" ? {} : { imagePullPolicy }),
    resources: resourcesOf(resources),
    // The "restricted" standard for pods.
    securityContext: {
      runAsNonRoot: true,
      ...(runAsUser === 0 ? {} : { runAsUser }),
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: false,
      privileged: false,
      capabilities: { drop: ["ALL"] },
      seccompProfile: { type: "RuntimeDefault" },
    },
    ...(preStop === undefined ? {} : { lifecycle: { preStop } }),
    volumeMounts: [NO_TOKEN],
  };
}

export function sleepHook({ seconds, sleepAction, program }: PreStopSleep): JsonObject {
  return sleepAction ? { sleep: { seconds } } : { exec: { command: program } };
}

export function volumesOf({ certificates }: SidecarSettings): readonly Volume[] {
  return [
    { name: NO_ACCOUNT, emptyDir: { sizeLimit: "1Mi" } },
    ...(certificates === ""
      ? []
      : [{ name: CERTIFICATES, secret: { secretName: certificates, defaultMode: 0o444 } }]),
  ];
}

function resourcesOf(quantities: Quantities): JsonObject {
  const { cpuRequest, cpuLimit, memoryRequest, memoryLimit } = quantities;
  const amounts = (cpu: string, memory: string) => ({
    ...(cpu === "" ? {} : { cpu }),
    ...(memory === "" ? {} : { memory }),
  });
  const requests = amounts(cpuRequest, memoryRequest);
  const limits = amounts(cpuLimit, memoryLimit);
  return {
    ...(Object.keys(requests).length === 0 ? {} : { requests }),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
  };
}

/** Facts about the pod come first, because later values refer to them. */
function agentEnv(
  { env }: SidecarSettings,
  { main, metrics, health }: AgentPorts,
  ipFamily: InjectionSettings["ipFamily"],
  agentGroup: string | undefined,
): readonly EnvVar[] {
  const own: readonly EnvVar[] = [
    fact("NODE_NAME", "spec.nodeName"),
    fact("POD_NAME", "metadata.name"),
    fact("POD_NAMESPACE", "metadata.namespace"),
    fact("POD_IP", "status.podIP"),
    // Both addresses of a pod with two families.
    fact("POD_IPS", "status.podIPs"),
    { name: "SVC_AGENT_CLOUDEXT_INSTALLATION_MODE", value: "KUBERNETES_SIDECAR" },
    // Sidecars have no rights on the Kubernetes API: the controller discovers services for them.
    { name: "SVC_AGENT_SERVICE_DISCOVERY_KUBERNETES_SOURCE", value: "controller" },
    {
      name: "SVC_AGENT_SERVER_LISTENER_ADDR",
      value: health === undefined ? `:${main}` : `127.0.0.1:${main}`,
    },
    ...(health === undefined
      ? []
      : [{ name: "SVC_AGENT_OTEL_PORTS_HOST", value: ipFamily === "IPv6" ? "::" : "0.0.0.0" }]),
    ...(agentGroup === undefined
      ? []
      : [{ name: "SVC_AGENT_AGENT_INFO_AGENT_GROUP", value: agentGroup }]),
  ];
  const isOwn = new Set(own.map(({ name }) => name));
  const configured = env.filter(({ name }) => !isOwn.has(name));
  const isConfigured = new Set(configured.map(({ name }) => name));
  // Ports that nobody asked for would be taken from the application, which starts later.
  const telemetry = [
    { name: TELEMETRY_PORTS.metrics, value: `${metrics ?? 0}` },
    { name: TELEMETRY_PORTS.health, value: `${health ?? 0}` },
    { name: TELEMETRY_PORTS.profiles, value: "0" },
    { name: TELEMETRY_PORTS.pages, value: "0" },
  ].filter(({ name }) => !isConfigured.has(name));
  return [...own, ...telemetry, ...configured];
}

function fact(name: string, fieldPath: string): EnvVar {
  return { name, valueFrom: { fieldRef: { apiVersion: "v1", fieldPath } } };
}
