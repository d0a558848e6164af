// Scalable objects: their names, and their `/scale` sub-resource, which has the same form for every kind.

import { fieldOf, type KubeObject } from "../api/objects.ts";

/** The name of an object, as a policy writes it. */
export interface ObjectName {
  /** Group and version, such as `apps/v1`. */
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

export interface Replicas {
  readonly configured: number;
  readonly actual: number;
}

/** Identifies an object to people and as a key: `apps/v1 Deployment shop/api`. */
export function objectText({ apiVersion, kind, namespace, name }: ObjectName): string {
  return `${apiVersion} ${kind} ${namespace}/${name}`;
}

/** The group in an API version; empty for the core group. */
export function groupOf(apiVersion: string): string {
  const slash = apiVersion.indexOf("/");
  return slash === -1 ? "" : apiVersion.slice(0, slash);
}

/** The API omits numbers that are 0. */
export function replicasOf(scale: KubeObject): Replicas {
  return {
    configured: countOf(fieldOf(scale, "spec")),
    actual: countOf(fieldOf(scale, "status")),
  };
}

/** The same Scale object with another number of replicas. Its version stays, so that a concurrent change is a conflict. */
export function scaleWith(scale: KubeObject, replicas: number): KubeObject {
  const { apiVersion = "autoscaling/v1", kind = "Scale", metadata } = scale;
  const { name, namespace, uid, resourceVersion } = metadata;
  const kept = Object.entries({ name, namespace, uid, resourceVersion });
  const own = Object.fromEntries(kept.filter(([, value]) => value !== undefined));
  return { apiVersion, kind, metadata: own, spec: { replicas } } as unknown as KubeObject;
}

function countOf(part: unknown): number {
  const replicas = fieldOf(part, "replicas") ?? 0;
  if (typeof replicas === "number" && Number.isInteger(replicas)) return replicas;
  throw new TypeError("wanted a Scale object with whole numbers of replicas");
}
