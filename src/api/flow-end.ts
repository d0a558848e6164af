// FlowControlService/FlowEnd: returns the concurrency slots of flows that ended, in protobuf and in JSON.

import type { HttpHandler, UnaryHandler } from "#base/handler.ts";
import { type FlowEndRequest, readFlowEndRequest } from "#wire/check/request.ts";
import { type ReturnStatus, writeFlowEndResponse } from "#wire/check/response.ts";
import { flowEndFromJson } from "#wire/check-json/request.ts";
import { flowEndJson } from "#wire/check-json/response.ts";
import { type OperationContext, requireControlPoint } from "./context.ts";
import { jsonReply } from "./reply/json-reply.ts";

/** Returns every slot independently: one that cannot be returned does not affect the others. */
function flowEnd(
  { flowController }: OperationContext,
  { controlPoint, refs }: FlowEndRequest,
): readonly ReturnStatus[] {
  requireControlPoint(controlPoint);
  flowController.observer.ended(controlPoint);
  const returns = flowController.end(refs);
  return refs.map((ref, at) => ({ ref, returned: false, error: "", ...returns[at] }));
}

export function flowEndBinary(context: OperationContext): UnaryHandler {
  return (message) => writeFlowEndResponse(flowEnd(context, readFlowEndRequest(message)));
}

export function flowEndJsonHandler(context: OperationContext): HttpHandler {
  const { max_json_depth } = context.bounds;
  return ({ body }) =>
    jsonReply(flowEndJson(flowEnd(context, flowEndFromJson(body, max_json_depth))));
}
