// Auto-scale control points, the objects that policies could scale, as a gRPC service and a JSON route.

import type { GrpcService, Route } from "#base/handler.ts";
import { encode } from "#wire/protobuf/messages.ts";
import { administrationService, viewRoute } from "../reply/json-reply.ts";

export interface ScalePoint {
  /** Group and version, such as `apps/v1`. */
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

/** Lists them; `errors` counts the kinds of objects that could not be listed. */
export type ScalableObjects = (
  signal: AbortSignal,
) => Promise<{ readonly points: readonly ScalePoint[]; readonly errors: number }>;

/** Undefined: this controller scales nothing, so it knows of no such objects. */
export function scalePointRoutes(scalable: ScalableObjects | undefined): readonly Route[] {
  return [
    viewRoute(
      "/v1/autoscale/kubernetes/controlpoints",
      "The objects of the cluster that policies could scale; none where `auto_scale.kubernetes.enabled` is false.",
      async (_, call) => {
        const { points } = await listed(scalable, call.signal());
        return { auto_scale_kubernetes_control_points: points.map(scalePointJson) };
      },
    ),
  ];
}

export function scalePointGrpcService(scalable: ScalableObjects | undefined): GrpcService {
  const packageName = "aperture.autoscale.kubernetes.controlpoints.v1" as const;
  return administrationService(`${packageName}.AutoScaleKubernetesControlPointsService`, {
    async GetControlPoints(_, call) {
      const { points } = await listed(scalable, call.signal());
      return encode(`${packageName}.AutoScaleKubernetesControlPoints`, {
        autoScaleKubernetesControlPoints: points,
      });
    },
  });
}

export function scalePointJson({ apiVersion, kind, namespace, name }: ScalePoint) {
  return { api_version: apiVersion, kind, namespace, name };
}

function listed(scalable: ScalableObjects | undefined, signal: AbortSignal) {
  return scalable?.(signal) ?? { points: [], errors: 0 };
}
