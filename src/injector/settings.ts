// The settings of injection, from the configuration and from the cluster.

import type { ContainerPort, EnvVar, Texts } from "./pod.ts";

/** Where sidecars mount the Secret with certificates. */
export const CERTIFICATES_PATH = "/etc/sluice/certificates";

/**
 * Port of the agent in pods, unless one is configured: outside of the ranges that systems give to connections (32768 and above)
 * and Kubernetes to Services, and no default of a known program.
 */
export const SIDECAR_PORT = 14_280;
/** Ports of its metrics and of its health, unless they are configured. Kubelets ask for health where only Envoy asks the rest. */
export const SIDECAR_METRICS_PORT = 14_380;
export const SIDECAR_HEALTH_PORT = 14_480;
/** Where the injected Envoy answers the kubelet's probes of the application. */
export const ENVOY_PROBES_PORT = 14_580;

/** Quantities of a container's resources; "" where there is none. */
export interface Resources {
  readonly cpuRequest: string;
  readonly cpuLimit: string;
  readonly memoryRequest: string;
  readonly memoryLimit: string;
}

export interface ContainerSettings {
  readonly image: string;
  /** Empty: as Kubernetes chooses. */
  readonly imagePullPolicy: string;
  /** 0: the cluster chooses the user. */
  readonly runAsUser: number;
  readonly resources: Resources;
}

export interface SidecarSettings extends ContainerSettings {
  /** Port of the agent. */
  readonly port: number;
  /** Whether somebody configured the port. The default gives way where only the injected Envoy needs to know it. */
  readonly isPortChosen: boolean;
  /** Ports of the agent beside it that others may connect to. */
  readonly otherPorts: readonly (ContainerPort & { readonly name: string })[];
  /**
   * Kind of the kubelet's probes of the agent: TCP where the agent requires certificates of its callers, which kubelets
   * do not have.
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
  /** Whether pods get an Envoy unless they say otherwise. */
  readonly inject: boolean;
  /** The port that clients call. */
  readonly port: number;
  /** Port of Envoy's administration, on loopback. */
  readonly adminPort: number;
  /** Worker threads. */
  readonly concurrency: number;
  /** What the agent does with the labels in the baggage of Envoy's clients, unless a pod says otherwise. */
  readonly clientBaggage: ClientBaggage;
  /** Seconds for which the application goes on after the pod was told to end, until all clients know. */
  readonly applicationSleepSeconds: number;
}

export interface InjectionSettings {
  /** Version of Sluice. */
  readonly version: string;
  /** Namespaces that are left alone. */
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
  /** The type that it must have; undefined: any. */
  readonly type?: string;
  readonly entries: readonly string[];
}

/** Everything about sidecars that may change while the injector runs. */
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

/** What a namespace demands of the resources of containers. Quantities by name of resource. */
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
  /** Whether it could not be read, so that its labels and annotations are not known. */
  readonly isUnread?: boolean;
  /** Whether it is being deleted: nothing new can be created in it. */
  readonly isEnding?: boolean;
}
