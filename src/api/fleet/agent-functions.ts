// An agent's answers to requests of controllers: by the name of the request message, encoded messages in and out.

import { Fault } from "#base/fault.ts";
import { encode } from "#wire/protobuf/messages.ts";
import type { ControlPoints } from "./control-points.ts";

/** Requests that need parts that are not built (previews, caches) are not in the table. */
export function agentFunctions(
  agentGroup: string,
  controlPoints: ControlPoints,
): ReadonlyMap<string, (message: Uint8Array) => Uint8Array> {
  return new Map([
    [
      "aperture.cmd.v1.ListFlowControlPointsRequest",
      () =>
        encode("aperture.cmd.v1.ListFlowControlPointsAgentResponse", {
          flowControlPoints: { flowControlPoints: controlPoints() },
          agentGroup,
        }),
    ],
    [
      "aperture.cmd.v1.ListAutoScaleControlPointsRequest",
      () =>
        encode("aperture.cmd.v1.ListAutoScaleControlPointsAgentResponse", {
          autoScaleControlPoints: {},
          agentGroup,
        }),
    ],
    [
      "aperture.cmd.v1.ListDiscoveryEntitiesRequest",
      () => encode("aperture.cmd.v1.ListDiscoveryEntitiesAgentResponse", {}),
    ],
    [
      "aperture.cmd.v1.ListDiscoveryEntityRequest",
      () => {
        throw new Fault("NOT_FOUND", "entity not found");
      },
    ],
    [
      "aperture.cmd.v1.ListServicesRequest",
      () => {
        const services = new Set(controlPoints().map(({ service }) => service));
        services.delete("");
        const names = [...services].sort();
        return encode("aperture.cmd.v1.ListServicesAgentResponse", { services: names, agentGroup });
      },
    ],
  ]);
}
