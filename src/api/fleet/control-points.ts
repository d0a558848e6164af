// The control points that an agent has seen, as a gRPC service and a JSON route.

import type { GrpcService, Route } from "#base/handler.ts";
import { encode } from "#wire/protobuf/messages.ts";
import { administrationService, viewRoute } from "../reply/json-reply.ts";

export interface ControlPoint {
  readonly controlPoint: string;
  /** `http` or `feature`. */
  readonly type: string;
  /** "" where it is unknown. */
  readonly service: string;
}

/** Asked at each request. */
export type ControlPoints = () => readonly ControlPoint[];

export function controlPointRoutes(seen: ControlPoints): readonly Route[] {
  return [
    viewRoute(
      "/v1/flowcontrol/controlpoints",
      "The control points of the flows that this agent has judged of late.",
      () => ({
        flow_control_points: seen().map(({ controlPoint: control_point, type, service }) => ({
          control_point,
          type,
          service,
        })),
      }),
    ),
  ];
}

export function controlPointGrpcService(seen: ControlPoints): GrpcService {
  const name = "aperture.flowcontrol.controlpoints.v1.FlowControlPointsService";
  return administrationService(name, {
    GetControlPoints: () =>
      encode("aperture.flowcontrol.controlpoints.v1.FlowControlPoints", {
        flowControlPoints: seen(),
      }),
  });
}
