// FlowControlService/FlowEnd: returns the concurrency slots of flows that ended and settles what they cost, in protobuf
// and in JSON.

import { Fault } from "#base/fault.ts";
import type { HttpHandler, UnaryHandler } from "#base/handler.ts";
import { Pending, type SlotReturn } from "#flow/flow.ts";
import { MAX_LABEL_NUMBER } from "#flow/label.ts";
import { type FlowEndRequest, readFlowEndRequest } from "#wire/check/request.ts";
import { type FlowEndReply, writeFlowEndResponse } from "#wire/check/response.ts";
import { flowEndFromJson } from "#wire/check-json/request.ts";
import { flowEndJson } from "#wire/check-json/response.ts";
import { type OperationContext, requireControlPoint } from "./context.ts";
import { jsonReply } from "./reply/json-reply.ts";
import { andThen } from "./reply/verdict.ts";

/**
 * Settles the reservation, and returns every slot independently: one that cannot be returned does not affect the others.
 * A promise only where agents share their slots. All of it also happens when the caller leaves.
 */
function flowEnd(
  { flowController }: OperationContext,
  { controlPoint, refs, ...end }: FlowEndRequest,
): FlowEndReply | Promise<FlowEndReply> {
  requireControlPoint(controlPoint);
  requireCost(end.cost);
  flowController.observer.ended(controlPoint);
  const named = end.reservationId !== "";
  // A flow whose check reserved nothing was charged its estimate, whatever its caller says now.
  const settled = named || end.cost !== undefined ? flowController.settle(end) : undefined;
  const ended = flowController.end(refs);
  const reply = (returns: readonly SlotReturn[]): FlowEndReply => ({
    slots: refs.map((ref, at) => ({ ref, returned: false, error: "", ...returns[at] })),
    settled,
  });
  if (!(ended instanceof Pending)) return reply(ended);
  return new Promise((resolve, reject) => {
    ended.whenSettled((returns) => resolve(reply(returns)), reject);
  });
}

/** A cost that nobody can mean settles nothing: its caller is told. */
function requireCost(cost: number | undefined): void {
  if (cost === undefined || (cost >= 0 && cost <= MAX_LABEL_NUMBER)) return;
  throw new Fault(
    "INVALID_ARGUMENT",
    `cost: wanted a number from 0 to ${MAX_LABEL_NUMBER}, got ${cost}`,
  );
}

export function flowEndBinary(context: OperationContext): UnaryHandler {
  return (message) =>
    andThen(flowEnd(context, readFlowEndRequest(message)), (reply) => writeFlowEndResponse(reply));
}

export function flowEndJsonHandler(context: OperationContext): HttpHandler {
  const { max_json_depth } = context.bounds;
  return ({ body }) =>
    andThen(flowEnd(context, flowEndFromJson(body, max_json_depth)), (reply) =>
      jsonReply(flowEndJson(reply)),
    );
}
