// The mutation that injection makes in a pod: a pure function of the pod, the metadata of its namespace and the
// settings. It changes nothing in a pod that was injected already.

import { type Operation, patchOf } from "../patch.ts";
import { isObject, type JsonObject, type Pod, text } from "../pod.ts";
import type { ClusterAbilities, InjectionSettings, Namespace, ResourceBound } from "../settings.ts";
import {
  INJECTED,
  isEnabled,
  NAMESPACE_LABEL,
  type PodOptions,
  readPodOptions,
} from "./annotations.ts";
import { Composition } from "./composition.ts";
import { AGENT_NAMES } from "./sidecar.ts";

/** Reason why a pod is left alone. */
export type SkipReason = "namespace" | "asked" | "mirror" | "windows" | "host_network";

export type Injection =
  | {
      readonly outcome: "injected";
      /** The injected pod. */
      readonly whole: JsonObject;
      readonly patch: readonly Operation[];
      readonly warnings: readonly string[];
    }
  /** The pod already has everything. */
  | { readonly outcome: "unchanged"; readonly warnings: readonly string[] }
  | {
      readonly outcome: "skipped";
      readonly reason: SkipReason;
      readonly warnings: readonly string[];
    }
  /** The pod would not work, or asks for something impossible. */
  | { readonly outcome: "refused"; readonly message: string; readonly warnings: readonly string[] };

/** Namespaces of Kubernetes itself, which are always left alone. */
export const SYSTEM_NAMESPACES: readonly string[] = [
  "kube-system",
  "kube-public",
  "kube-node-lease",
];

/** Annotation of mirror pods. Kubelets run these pods from files and would ignore changes. */
const MIRROR = "kubernetes.io/config.mirror";

/** Clients show longer warnings in part. */
const MAX_WARNING_CHARACTERS = 250;
const MAX_WARNINGS = 12;

export interface InjectionInput {
  readonly pod: Pod;
  readonly namespace: Namespace;
  readonly settings: InjectionSettings;
  readonly abilities: ClusterAbilities;
  /** The known bounds of the namespace. */
  readonly bounds?: readonly ResourceBound[];
}

export function inject(input: InjectionInput): Injection {
  const found = judge(input);
  const { name, isUnread = false } = input.namespace;
  const hasAgent = found.outcome === "injected" || found.outcome === "unchanged";
  const unread =
    isUnread && hasAgent
      ? [
          `namespace ${name} could not be read: its annotations, such as sluice/agent-group, are not applied`,
        ]
      : [];
  const secrets =
    isUnread || !hasAgent || isEnabled(input.namespace.labels) ? [] : secretsOf(input);
  const uncopied =
    secrets.length === 0
      ? []
      : [
          `nobody copies Secrets to namespace ${name}, which has no label ${NAMESPACE_LABEL}=enabled: put ${secrets.join(", ")} there, or sidecars do not start`,
        ];
  const warnings = [...unread, ...uncopied, ...found.warnings]
    .slice(0, MAX_WARNINGS)
    .map(shortened);
  return { ...found, warnings };
}

function judge(input: InjectionInput): Injection {
  const { pod, namespace, settings } = input;
  const left = [...SYSTEM_NAMESPACES, ...settings.ignoredNamespaces];
  if (left.includes(namespace.name)) return skipped("namespace");
  const options = readPodOptions(pod, namespace);
  if (options.inject === false) return skipped("asked");
  if (Object.hasOwn(pod.annotations, MIRROR)) return skipped("mirror");
  if (pod.os === "windows") return skipped("windows", "Sluice has no image for Windows");
  if (options.faults.length > 0) return refused(options.faults.join("; "));
  if (pod.hostNetwork) return onHostNetwork(options);
  const composition = new Composition(input, options);
  const { faults, warnings } = composition;
  if (faults.length > 0) return { ...refused(faults.join("; ")), warnings };
  const whole = withStatus(composition.whole(), settings.version);
  const patch = patchOf(pod.whole, whole);
  return patch.length === 0
    ? { outcome: "unchanged", warnings }
    : { outcome: "injected", whole, patch, warnings };
}

/** Names of the Secrets that sidecars use. */
function secretsOf({ settings }: InjectionInput): readonly string[] {
  const { pullSecrets, sidecar } = settings;
  const referred = sidecar.env.flatMap(({ valueFrom }) => {
    const key = isObject(valueFrom) ? valueFrom["secretKeyRef"] : undefined;
    return isObject(key) ? [text(key["name"])] : [];
  });
  const all = [...pullSecrets, ...referred, sidecar.certificates];
  return [...new Set(all)].filter((name) => name !== "");
}

/** True if a pod has an agent of its own or an injected one. */
export function hasAgent({ initContainers, containers }: Pod): boolean {
  return [...initContainers, ...containers].some(({ name }) => AGENT_NAMES.includes(name));
}

/** All pods of the node would share the agent's ports, and everyone who reaches the node would reach the agent. */
function onHostNetwork({ inject: asked }: PodOptions): Injection {
  const why = "the pod uses the network of its node, where the ports of sidecars would collide";
  return asked === true
    ? refused(`sluice/inject: wanted a pod with a network of its own; ${why}`)
    : skipped("host_network", why);
}

function skipped(reason: SkipReason, why?: string): Injection {
  const warnings = why === undefined ? [] : [`not injected: ${why}`];
  return { outcome: "skipped", reason, warnings };
}

function refused(message: string): Injection & { readonly outcome: "refused" } {
  return { outcome: "refused", message, warnings: [] };
}

/** Keeps the version of the first injection, so that a second one changes nothing. */
function withStatus(whole: JsonObject, version: string): JsonObject {
  const metadata = isObject(whole["metadata"]) ? whole["metadata"] : {};
  const annotations = isObject(metadata["annotations"]) ? metadata["annotations"] : {};
  return {
    ...whole,
    metadata: { ...metadata, annotations: { [INJECTED]: version, ...annotations } },
  };
}

function shortened(warning: string): string {
  return warning.length <= MAX_WARNING_CHARACTERS
    ? warning
    : `${warning.slice(0, MAX_WARNING_CHARACTERS - 1)}…`;
}
