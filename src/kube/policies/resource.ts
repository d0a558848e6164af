// Policies as Kubernetes resources: the fields that are read, and the status that is written.

import {
  fieldOf,
  type KubeObject,
  listOf,
  type ObjectMeta,
  type Resource,
} from "../api/objects.ts";

export const POLICY_RESOURCES: Resource = {
  group: "fluxninja.com",
  version: "v1alpha1",
  plural: "policies",
};

/** The kind of policy resources in references. */
export const POLICY_KIND = {
  apiVersion: `${POLICY_RESOURCES.group}/${POLICY_RESOURCES.version}`,
  kind: "Policy",
} as const;

export interface PolicyResource {
  readonly namespace: string;
  readonly name: string;
  /** Name under which the policy runs. */
  readonly policy: string;
  readonly uid: string;
  /** Incremented by changes of the policy or its dynamic configuration. */
  readonly generation: number;
  /** RFC 3339. */
  readonly created: string;
  /** The policy as a JSON document, without metadata and status. */
  readonly text: string;
  /** The status as it was read; undefined for none. */
  readonly status: unknown;
}

/** Names of Policy resources and of namespaces cannot contain it. */
const OF_NAMESPACE = "@";

/**
 * The name under which the policy of a resource runs: `NAME`, or `NAME@NAMESPACE` where the namespace is not the
 * controllers' own. So resources of different namespaces never share a name.
 */
export function policyNameOf(
  { namespace = "", name }: Pick<ObjectMeta, "namespace" | "name">,
  own: string,
): string {
  return namespace === own ? name : `${name}${OF_NAMESPACE}${namespace}`;
}

/** The namespace of a resource, from the name under which its policy runs. */
export function namespaceOfPolicy(policy: string, own: string): string {
  const at = policy.lastIndexOf(OF_NAMESPACE);
  return at < 0 ? own : policy.slice(at + 1);
}

/** `own` is the controllers' namespace. */
export function policyResource(object: KubeObject, own: string): PolicyResource {
  const {
    namespace = "",
    name,
    uid = "",
    generation = 0,
    creationTimestamp = "",
  } = object.metadata;
  const policy = policyNameOf(object.metadata, own);
  return {
    namespace,
    name,
    policy,
    uid,
    generation,
    created: creationTimestamp,
    text: documentOf(object, policy),
    status: fieldOf(object, "status"),
  };
}

/** The document of a resource; the compiler reads it like a file with the same content. */
export function documentOf(object: KubeObject, name: string): string {
  const { group, version } = POLICY_RESOURCES;
  // Targets are in the namespace of the resource.
  const { namespace } = object.metadata;
  const dynamicConfig = fieldOf(object, "dynamicConfig") ?? undefined;
  return JSON.stringify({
    apiVersion: `${group}/${version}`,
    kind: "Policy",
    metadata: { name, namespace },
    spec: fieldOf(object, "spec"),
    dynamicConfig,
  });
}

/**
 * The meaning of each condition when it is True. The last three exist only for policies with dynamic configuration,
 * scalers or targets.
 */
export const CONDITIONS = {
  Valid: "the document has no fault",
  Ready: "all of this version is in force",
  DynamicConfigApplied: "the dynamic configuration of the resource is in force",
  Scaling: "the controller can scale each object that the policy names",
  Attached: "each gateway and route that the policy names has been told to ask agents",
} as const satisfies Readonly<Record<string, string>>;

export type ConditionType = keyof typeof CONDITIONS;

export interface Condition {
  readonly type: ConditionType;
  readonly status: "True" | "False" | "Unknown";
  /** One word for programs. */
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration: number;
  /** RFC 3339: when `status` last changed. */
  readonly lastTransitionTime: string;
}

/** A fault of the document. */
export interface FindingText {
  /** Such as `spec.circuit.components[2]`. */
  readonly path: string;
  readonly message: string;
}

export interface AgentCount {
  readonly wanted: number;
  readonly applied: number;
  /** `applied/wanted`, for people. */
  readonly summary: string;
}

export interface PolicyResourceStatus {
  /** In the words of the reference: `uploaded` is in force, `rejected` is invalid. */
  readonly status: "uploading" | "uploaded" | "rejected";
  readonly observedGeneration: number;
  /** Hash of the version in force; null when none is. */
  readonly hash: string | null;
  readonly conditions: readonly Condition[];
  readonly findings: readonly FindingText[];
  readonly warnings: readonly string[];
  /** Counts all warnings, of which only the first are listed. */
  readonly warningCount: number;
  /** Null if nothing in the policy concerns agents. */
  readonly agents: AgentCount | null;
}

/** A condition of a status that was read; undefined for none. */
export function conditionOf(status: unknown, type: ConditionType): unknown {
  return listOf(status, "conditions").find((each) => fieldOf(each, "type") === type);
}
