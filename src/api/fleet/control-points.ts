// The control points that an agent has seen, as a gRPC service and a JSON route.

import type { GrpcService, Route } from "#base/handler.ts";
import { encode } from "#wire/protobuf/messages.ts";
import { jsonReply } from "../reply/json-reply.ts";

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
    {
      method: "GET",
      path: "/v1/flowcontrol/controlpoints",
      about: "The control points of the flows that this agent has judged of late.",
      access: "administration",
      costly: true,
      handle() {
        const flow_control_points = seen().map(({ controlPoint, type, service }) => ({
          control_point: controlPoint,
          type,
          service,
        }));
        return jsonReply(JSON.stringify({ flow_control_points }));
      },
    },
  ];
}

export function controlPointGrpcService(seen: ControlPoints): GrpcService {
  return {
    name: "aperture.flowcontrol.controlpoints.v1.FlowControlPointsService",
    access: "administration",
    methods: {
      GetControlPoints: {
        kind: "unary",
        handle: () =>
          encode("aperture.flowcontrol.controlpoints.v1.FlowControlPoints", {
            flowControlPoints: seen(),
          }),
      },
    },
  };
}
