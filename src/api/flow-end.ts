// The door for the end of flows: gives concurrency slots back, in binary and in JSON.

import type { HttpHandler, UnaryHandler } from "#serve/handler.ts";
import { type FlowEndRequest, readFlowEndRequest } from "#wire/check-request.ts";
import { type ReturnStatus, writeFlowEndResponse } from "#wire/check-response.ts";
import { flowEndFromJson } from "#wire/json-request.ts";
import { flowEndJson } from "#wire/json-response.ts";
import { type Door, requireControlPoint } from "./door.ts";
import { jsonReply } from "./json-door.ts";

/** Ends every slot on its own: what one answers says nothing about the others. */
function flowEnd({ mind }: Door, { controlPoint, refs }: FlowEndRequest): readonly ReturnStatus[] {
  requireControlPoint(controlPoint);
  mind.observer.ended(controlPoint);
  const returns = mind.end(refs);
  return refs.map((ref, at) => ({ ref, returned: false, error: "", ...returns[at] }));
}

export function flowEndBinary(door: Door): UnaryHandler {
  return (message) => writeFlowEndResponse(flowEnd(door, readFlowEndRequest(message)));
}

export function flowEndJsonDoor(door: Door): HttpHandler {
  return ({ body }) => jsonReply(flowEndJson(flowEnd(door, flowEndFromJson(body))));
}
