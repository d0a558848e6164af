// FlowControlService/FlowEnd: returns the concurrency slots of flows that ended, in protobuf and in JSON.

import type { HttpHandler, UnaryHandler } from "#base/handler.ts";
import { Pending, type SlotReturn } from "#flow/flow.ts";
import { type FlowEndRequest, readFlowEndRequest } from "#wire/check/request.ts";
import { type ReturnStatus, writeFlowEndResponse } from "#wire/check/response.ts";
import { flowEndFromJson } from "#wire/check-json/request.ts";
import { flowEndJson } from "#wire/check-json/response.ts";
import { type OperationContext, requireControlPoint } from "./context.ts";
import { jsonReply } from "./reply/json-reply.ts";
import { andThen } from "./reply/verdict.ts";

type Statuses = readonly ReturnStatus[];

/**
 * Returns every slot independently: one that cannot be returned does not affect the others. A promise only where agents
 * share their slots. The slots are returned also when the caller leaves.
 */
function flowEnd(
  { flowController }: OperationContext,
  { controlPoint, refs }: FlowEndRequest,
): Statuses | Promise<Statuses> {
  requireControlPoint(controlPoint);
  flowController.observer.ended(controlPoint);
  const ended = flowController.end(refs);
  const statuses = (returns: readonly SlotReturn[]) =>
    refs.map((ref, at) => ({ ref, returned: false, error: "", ...returns[at] }));
  if (!(ended instanceof Pending)) return statuses(ended);
  return new Promise((resolve, reject) => {
    ended.whenSettled((returns) => resolve(statuses(returns)), reject);
  });
}

export function flowEndBinary(context: OperationContext): UnaryHandler {
  return (message) =>
    andThen(flowEnd(context, readFlowEndRequest(message)), (statuses) =>
      writeFlowEndResponse(statuses),
    );
}

export function flowEndJsonHandler(context: OperationContext): HttpHandler {
  const { max_json_depth } = context.bounds;
  return ({ body }) =>
    andThen(flowEnd(context, flowEndFromJson(body, max_json_depth)), (statuses) =>
      jsonReply(flowEndJson(statuses)),
    );
}
