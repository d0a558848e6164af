// Auto-scale control points: all objects of the cluster that a policy could scale. They are listed on demand and not cached.

import { Fault } from "#base/fault.ts";
import type { KubeClient } from "../api/client.ts";
import { type ScalableKind, scalableKinds } from "./kinds.ts";
import type { ObjectName } from "./object.ts";

export interface ControlPoints {
  readonly points: readonly ObjectName[];
  /** Reasons why kinds that this process may list could not be listed. */
  readonly faults: readonly Fault[];
  /** True if there are more points than one answer may contain. */
  readonly isCut: boolean;
}

/** The most points in one answer. */
export const MAX_POINTS = 10_000;

/**
 * The objects of each kind that this process may list. Objects with a controller, such as the ReplicaSets of a Deployment,
 * are left out, because their controller sets their replicas.
 * @throws Fault when the kinds cannot be read
 */
export async function controlPoints(
  client: KubeClient,
  signal: AbortSignal,
): Promise<ControlPoints> {
  const points: ObjectName[] = [];
  const faults: Fault[] = [];
  for (const kind of preferred(await scalableKinds(client, signal))) {
    try {
      for await (const point of pointsOf(client, kind, signal)) {
        if (points.length >= MAX_POINTS) return { points, faults, isCut: true };
        points.push(point);
      }
    } catch (thrown) {
      const fault = Fault.from(thrown);
      if (signal.aborted) throw fault;
      // The rights of this process determine the kinds that it scales.
      if (fault.code !== "PERMISSION_DENIED") faults.push(fault);
    }
  }
  return { points, faults, isCut: false };
}

/** The first version of each kind, which is the one that the server prefers. */
function preferred(kinds: readonly ScalableKind[]): readonly ScalableKind[] {
  const seen = new Set<string>();
  return kinds.filter(({ resource: { group, plural } }) => {
    const key = `${group}/${plural}`;
    return !seen.has(key) && seen.add(key);
  });
}

async function* pointsOf(
  client: KubeClient,
  { apiVersion, kind, resource }: ScalableKind,
  signal: AbortSignal,
): AsyncGenerator<ObjectName> {
  for await (const { metadata } of client.list(resource, {}, signal, "metadata")) {
    const { name, namespace = "", ownerReferences = [] } = metadata;
    if (ownerReferences.some(({ controller }) => controller === true)) continue;
    yield { apiVersion, kind, namespace, name };
  }
}
