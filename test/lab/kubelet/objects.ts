// The parts of pods, Services and EndpointSlices that the kubelet of the tests reads.

import type { KubeObject } from "../../kit/kube/client.ts";

export interface PodObject extends KubeObject {
  readonly metadata: KubeObject["metadata"] & {
    readonly namespace: string;
    readonly uid: string;
    readonly deletionTimestamp?: string;
    readonly deletionGracePeriodSeconds?: number;
  };
  readonly spec: PodSpec;
}

export interface PodSpec {
  readonly nodeName: string;
  readonly serviceAccountName?: string;
  readonly hostname?: string;
  readonly hostNetwork?: boolean;
  readonly restartPolicy?: RestartPolicy;
  readonly initContainers?: readonly ContainerSpec[];
  readonly containers: readonly ContainerSpec[];
  readonly volumes?: readonly VolumeSpec[];
  readonly securityContext?: {
    readonly runAsUser?: number;
    readonly runAsGroup?: number;
    readonly fsGroup?: number;
  };
}

export type RestartPolicy = "Always" | "OnFailure" | "Never";

export interface ContainerSpec {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly workingDir?: string;
  readonly env?: readonly EnvEntry[];
  readonly envFrom?: readonly EnvSource[];
  readonly ports?: readonly { readonly name?: string; readonly containerPort: number }[];
  readonly volumeMounts?: readonly {
    readonly name: string;
    readonly mountPath: string;
    readonly readOnly?: boolean;
    readonly subPath?: string;
  }[];
  readonly lifecycle?: { readonly preStop?: Handler; readonly postStart?: unknown };
  readonly startupProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly livenessProbe?: Probe;
  /** `Always` in an init container: it is a sidecar. */
  readonly restartPolicy?: "Always";
  readonly securityContext?: {
    readonly runAsUser?: number;
    readonly runAsGroup?: number;
    readonly readOnlyRootFilesystem?: boolean;
  };
}

export interface EnvEntry {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: {
    readonly fieldRef?: { readonly fieldPath: string };
    readonly secretKeyRef?: KeyRef;
    readonly configMapKeyRef?: KeyRef;
  };
}

export interface KeyRef {
  readonly name: string;
  readonly key: string;
  readonly optional?: boolean;
}

export interface EnvSource {
  readonly prefix?: string;
  readonly configMapRef?: { readonly name: string; readonly optional?: boolean };
  readonly secretRef?: { readonly name: string; readonly optional?: boolean };
}

/** A probe or a hook of a container. */
export interface Handler {
  readonly exec?: { readonly command: readonly string[] };
  readonly httpGet?: {
    readonly path?: string;
    readonly port: number | string;
    readonly scheme?: "HTTP" | "HTTPS";
    readonly host?: string;
    readonly httpHeaders?: readonly { readonly name: string; readonly value: string }[];
  };
  readonly tcpSocket?: { readonly port: number | string; readonly host?: string };
  readonly sleep?: { readonly seconds: number };
  readonly grpc?: { readonly port: number; readonly service?: string };
}

export interface Probe extends Handler {
  readonly initialDelaySeconds?: number;
  readonly periodSeconds?: number;
  readonly timeoutSeconds?: number;
  readonly successThreshold?: number;
  readonly failureThreshold?: number;
}

/** Files from keys of a ConfigMap or a Secret. */
export interface KeyFiles {
  readonly name?: string;
  readonly secretName?: string;
  readonly optional?: boolean;
  readonly defaultMode?: number;
  readonly items?: readonly {
    readonly key: string;
    readonly path: string;
    readonly mode?: number;
  }[];
}

export interface DownwardFiles {
  readonly items?: readonly {
    readonly path: string;
    readonly fieldRef?: { readonly fieldPath: string };
  }[];
}

export interface VolumeSpec {
  readonly name: string;
  readonly emptyDir?: object;
  readonly configMap?: KeyFiles;
  readonly secret?: KeyFiles;
  readonly downwardAPI?: DownwardFiles;
  readonly persistentVolumeClaim?: { readonly claimName: string };
  readonly projected?: {
    readonly defaultMode?: number;
    readonly sources: readonly {
      readonly configMap?: KeyFiles;
      readonly secret?: KeyFiles;
      readonly downwardAPI?: DownwardFiles;
      readonly serviceAccountToken?: {
        readonly path: string;
        readonly audience?: string;
        readonly expirationSeconds?: number;
      };
    }[];
  };
}

export interface ServiceObject extends KubeObject {
  readonly spec: {
    readonly clusterIP?: string;
    readonly ports?: readonly {
      readonly name?: string;
      readonly port: number;
      readonly protocol?: string;
    }[];
  };
}

export interface EndpointSliceObject extends KubeObject {
  readonly endpoints?: readonly {
    readonly addresses: readonly string[];
    readonly conditions?: {
      readonly ready?: boolean;
      readonly serving?: boolean;
    };
  }[];
  readonly ports?: readonly { readonly name?: string; readonly port?: number }[];
}
