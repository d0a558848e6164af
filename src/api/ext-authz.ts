// The proxy's door: envoy.service.auth.v3.Authorization/Check. The hottest of all, so its request is read
// in place and, unless a limiter has to wait, answered in the same turn.

import type { Flow } from "#flow/flow.ts";
import type { Call, UnaryHandler } from "#serve/handler.ts";
import { type AuthRequest, readAuthRequest } from "#wire/ext-authz.ts";
import { answer, DECISION_ID, type Door, requireControlPoint } from "./door.ts";
import { httpAnswer } from "./reply.ts";
import { RequestLabels } from "./request-labels.ts";
import { findCounted, NO_SERVICES, servicesLabel } from "./services.ts";

const CONTROL_POINT = "control-point";

export function extAuthz(door: Door): UnaryHandler {
  return (message, call) => {
    const request = readAuthRequest(message, door.names);
    const controlPoint =
      call.header(CONTROL_POINT) ?? request.contextExtensions?.get(CONTROL_POINT) ?? "";
    requireControlPoint(controlPoint);
    const { labels, services } = describe(door, request, call);
    const flow: Flow = {
      controlPoint,
      type: "http",
      services,
      labels,
      http: request,
      rampMode: false,
      expectEnd: false,
      deadline: call.deadline,
    };
    return answer(door.mind.judge(flow), call, (verdict) => {
      call.reply(DECISION_ID, door.nextId());
      return door.proto.writeAuth(httpAnswer(flow, labels, verdict, door.shapes));
    });
  };
}

/** The proxy's own services come first; without any, those of the destination. */
function describe(
  { lookup, mind: { observer } }: Door,
  request: AuthRequest,
  call: Call,
): { readonly labels: RequestLabels; readonly services: readonly string[] } {
  const source = findCounted(lookup, request.source?.address ?? "", observer);
  const destination = findCounted(lookup, request.destination?.address ?? "", observer);
  // To ask a connection for its address costs more than to find out that nobody is known.
  const own = findCounted(lookup, lookup === NO_SERVICES ? "" : call.peer, observer);
  const labels = new RequestLabels(
    request,
    request,
    request.hasHttp ? "proxy" : "none",
    servicesLabel(source),
    servicesLabel(destination),
    observer,
  );
  return { labels, services: own.length > 0 ? own : destination };
}
