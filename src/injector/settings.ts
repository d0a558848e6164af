// The settings of injection, from the configuration and from the cluster.

import type { ContainerPort, EnvVar, Texts } from "./pod.ts";

/** Where sidecars mount the Secret with certificates. */
export const CERTIFICATES_PATH = "/etc/sluice/certificates";

/**
 * Default port of the agent in pods: outside the ephemeral range (32768 and above) and that of node ports, and not the
 * default of a known program.
 */
export const SIDECAR_PORT = 14_280;
/** Default ports of its metrics and its health. Kubelets use the latter if the main port is on loopback. */
export const SIDECAR_METRICS_PORT = 14_380;
export const SIDECAR_HEALTH_PORT = 14_480;
/** The port at which the injected Envoy answers the kubelet's probes of the application. */
export const ENVOY_PROBES_PORT = 14_580;

/** Quantities of a container's resources; empty for none. */
export interface Resources {
  readonly cpuRequest: string;
  readonly cpuLimit: string;
  readonly memoryRequest: string;
  readonly memoryLimit: string;
}

export interface ContainerSettings {
  readonly image: string;
  /** Empty: the default of Kubernetes. */
  readonly imagePullPolicy: string;
  /** 0: the cluster chooses the user. */
  readonly runAsUser: number;
  readonly resources: Resources;
}

export interface SidecarSettings extends ContainerSettings {
  /** Port of the agent. */
  readonly port: number;
  /** True if the port was configured. The default may change if only the injected Envoy has to know it. */
  readonly isPortChosen: boolean;
  /** Other ports of the agent to which others may connect. */
  readonly otherPorts: readonly (ContainerPort & { readonly name: string })[];
  /**
   * Kind of the kubelet's probes of the agent: TCP if the agent requires client certificates, which kubelets lack.
   */
  readonly probes: "HTTP" | "HTTPS" | "TCP";
  /** The agent's configuration. */
  readonly env: readonly EnvVar[];
  /** The Secret with certificates that sidecars mount; "" if there is none. */
  readonly certificates: string;
  /** Seconds that the agent takes to drain, at most. */
  readonly drainSeconds: number;
}

export type ClientBaggage = "ignore" | "believe";

export interface EnvoySettings extends ContainerSettings {
  /** True if pods get an Envoy by default. */
  readonly inject: boolean;
  /** The port that clients call. */
  readonly port: number;
  /** Port of Envoy's administration, on loopback. */
  readonly adminPort: number;
  /** Worker threads. */
  readonly concurrency: number;
  /** How the agent treats the baggage of Envoy's clients by default. */
  readonly clientBaggage: ClientBaggage;
  /** How long the application keeps running after the pod was told to end, until all clients know. */
  readonly applicationSleepSeconds: number;
}

export interface InjectionSettings {
  /** Version of Sluice. */
  readonly version: string;
  /** Namespaces that are not injected. */
  readonly ignoredNamespaces: readonly string[];
  /** IP family of a pod's first address. */
  readonly ipFamily: "IPv4" | "IPv6";
  /** Secrets with which pods pull the images of sidecars. */
  readonly pullSecrets: readonly string[];
  readonly sidecar: SidecarSettings;
  readonly envoy: EnvoySettings;
}

/** A Secret of the injector's namespace, and the entries of it that sidecars use. */
export interface SidecarSecret {
  readonly name: string;
  /** The required type; undefined for any. */
  readonly type?: string;
  readonly entries: readonly string[];
}

/** The settings of sidecars, which may change while the injector runs. */
export interface Sidecars {
  readonly settings: InjectionSettings;
  /** One for each Secret that sidecars refer to. */
  readonly secrets: readonly SidecarSecret[];
}

/** Abilities of the cluster, which depend on its version. */
export interface ClusterAbilities {
  /** Init containers may have `restartPolicy: Always` (Kubernetes 1.29). */
  readonly nativeSidecars: boolean;
  /** `preStop` may sleep without a program (Kubernetes 1.30). */
  readonly sleepAction: boolean;
}

/** A rule of a namespace for the resources of containers. Quantities are by name of resource. */
export type ResourceBound =
  | { readonly kind: "ResourceQuota"; readonly name: string; readonly hard: Texts }
  | {
      readonly kind: "LimitRange";
      readonly name: string;
      readonly max: Texts;
      readonly min: Texts;
      /** Limits of containers that have none. */
      readonly defaults: Texts;
      /** Requests of containers that have none. */
      readonly defaultRequests: Texts;
    };

/** Metadata of a namespace. */
export interface Namespace {
  readonly name: string;
  readonly labels: Texts;
  readonly annotations: Texts;
  /** True if its labels and annotations are unknown because it could not be read. */
  readonly isUnread?: boolean;
  /** True if the namespace is being deleted, so that nothing new can be created in it. */
  readonly isEnding?: boolean;
}
