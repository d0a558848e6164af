// FlowControlService/FlowEnd: returns the concurrency slots of flows that ended and settles what they cost, in protobuf
// and in JSON.

import { Fault } from "#base/fault.ts";
import type { HttpHandler, UnaryHandler } from "#base/handler.ts";
import { Pending, type Settlement, type SlotReturn } from "#flow/flow.ts";
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
  const named = end.reservationId !== "";
  if (controlPoint !== "") requireControlPoint(controlPoint);
  // The control point is only needed to count the end: slots and reservations name their components. An end that names
  // none of the three is a mistake.
  else if (refs.length === 0 && !named) throw new Fault("INVALID_ARGUMENT", NAMES_NOTHING);
  requireCost(end.cost);
  requireStatus(end.status);
  const settlement = named || end.cost !== undefined ? flowController.settle(end) : undefined;
  flowController.observer.ended(controlPoint, settlement);
  const ended = flowController.end(refs);
  const reply = (returns: readonly SlotReturn[]): FlowEndReply => ({
    slots: refs.map((ref, at) => ({ ref, returned: false, error: "", ...returns[at] })),
    settlement: settlement && {
      settled: settlement === "settled",
      error: unsettled(settlement, named),
    },
  });
  if (!(ended instanceof Pending)) return reply(ended);
  return new Promise((resolve, reject) => {
    ended.whenSettled((returns) => resolve(reply(returns)), reject);
  });
}

/** The reason why nothing was settled, so that the flow keeps the charge of its estimate; "" when it was settled. */
function unsettled(settlement: Settlement, named: boolean): string {
  if (settlement === "settled") return "";
  if (!named) return NOT_RESERVED;
  return settlement === "elsewhere" ? ELSEWHERE : NOT_KNOWN;
}

const NAMES_NOTHING =
  "wanted inflight_requests, a reservation_id or a control_point, got none of them";
const NOT_RESERVED =
  "wanted the reservation_id of the reply to the check, got none: the flow was charged what it took";
const NOT_KNOWN =
  "wanted an open reservation, got an unknown one: it was settled before, it expired, or no check created it";
const ELSEWHERE =
  "wanted a reservation of this agent, got one of another agent, or one from before a restart: a flow with a cost must end at the agent that checked it";

/** Refuses an impossible cost, because ignoring it would hide the mistake. */
function requireCost(cost: number | undefined): void {
  if (cost === undefined || (cost >= 0 && cost <= MAX_LABEL_NUMBER)) return;
  throw new Fault(
    "INVALID_ARGUMENT",
    `cost: wanted a number from 0 to ${MAX_LABEL_NUMBER}, got ${cost}`,
  );
}

/** Refuses an impossible status: it would count as one for which nothing is refunded. */
function requireStatus(status: number): void {
  if (status === 0 || (status >= 100 && status <= 999)) return;
  throw new Fault(
    "INVALID_ARGUMENT",
    `status_code: wanted an HTTP status of three digits, or 0 for none, got ${status}`,
  );
}

export function flowEndBinary(context: OperationContext): UnaryHandler {
  return (message) =>
    andThen(flowEnd(context, readFlowEndRequest(message)), (reply) => writeFlowEndResponse(reply));
}

export function flowEndJsonHandler(context: OperationContext): HttpHandler {
  const { unknownMember, bounds } = context;
  return ({ body }) =>
    andThen(
      flowEnd(context, flowEndFromJson(body, bounds.max_json_depth, unknownMember)),
      (reply) => jsonReply(flowEndJson(reply)),
    );
}
