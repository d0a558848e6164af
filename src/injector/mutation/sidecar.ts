// The agent's container, and the parts that it shares with Envoy's.

import type { Container, EnvVar, JsonObject, Volume, VolumeMount } from "../pod.ts";
import {
  CERTIFICATES_PATH,
  type ContainerSettings,
  type InjectionSettings,
  type Resources as Quantities,
  type SidecarSettings,
} from "../settings.ts";

export const AGENT_NAME = "sluice-agent";
/** Names of the agent's container, Sluice's own first. */
export const AGENT_NAMES: readonly string[] = [AGENT_NAME, "aperture-agent"];

const CERTIFICATES = "sluice-certificates";
const NO_ACCOUNT = "sluice-no-account";

/**
 * Kubernetes mounts the token of the pod's account into every container without a mount at this path. An empty folder
 * keeps the token out of containers that need none.
 */
const NO_TOKEN: VolumeMount = {
  name: NO_ACCOUNT,
  mountPath: "/var/run/secrets/kubernetes.io/serviceaccount",
  readOnly: true,
};

/** How long a container keeps running after the pod was told to end. */
export interface PreStopSleep {
  readonly seconds: number;
  /** True if `preStop` may sleep without a program. */
  readonly sleepAction: boolean;
  /** The program that sleeps otherwise. */
  readonly program: readonly string[];
}

export interface AgentPorts {
  readonly main: number;
  /** Undefined if it is configured. */
  readonly metrics: number | undefined;
  /** The port of the kubelet's probes if the main port is on loopback; undefined otherwise. */
  readonly health: number | undefined;
}

/** Variables of the other ports, which other programs of the pod may need. */
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
  /** The container's `preStop` hook; undefined for none. */
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
    // Liveness, not readiness: a sidecar that waits for etcd must delay neither the application nor a mesh's proxy, which
    // may be the way to etcd. The pod gets no requests before the sidecar is ready.
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

/** The fields that both containers share. */
export function common(
  { image, imagePullPolicy, runAsUser }: ContainerSettings,
  resources: Quantities,
  preStop: JsonObject | undefined,
): JsonObject & { readonly image: string } {
  return {
    image,
    ...(imagePullPolicy === "" ? {} : { imagePullPolicy }),
    resources: resourcesOf(resources),
    // As the pod security standard "restricted" requires.
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

/** Facts about the pod come first, because later variables refer to them. */
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
    // Both addresses of a dual-stack pod.
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
  // Unrequested ports could be those of the application, which starts later.
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
