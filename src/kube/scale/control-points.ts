// Auto-scale control points: all objects of the cluster that a policy could scale. They are listed when somebody asks, and
// nothing is kept of them.

import { Fault } from "#base/fault.ts";
import type { KubeClient } from "../api/client.ts";
import { type ScalableKind, scalableKinds } from "./kinds.ts";
import type { ObjectName } from "./object.ts";

export interface ControlPoints {
  readonly points: readonly ObjectName[];
  /** Kinds that could not be listed, although this process may list them, and why. */
  readonly faults: readonly Fault[];
  /** There are more points than one answer has. */
  readonly isCut: boolean;
}

/** Points of one answer. */
export const MAX_POINTS = 10_000;

/**
 * The objects of each kind that this process may list. Those that belong to another object, such as the ReplicaSets of a
 * Deployment, are left out: their owner sets their replicas.
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
      // Its rights say which kinds this installation scales.
      if (fault.code !== "PERMISSION_DENIED") faults.push(fault);
    }
  }
  return { points, faults, isCut: false };
}

/** The first version of a kind that is served in several: the server prefers it. */
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
