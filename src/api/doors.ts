// All doors of the flow-control agent: the gRPC services and the JSON routes that it serves.

import type { HttpHandler, Route, Service, UnaryHandler } from "#serve/handler.ts";
import { exportLogs, type RecordTaker } from "./access-log.ts";
import { checkBinary, checkJson } from "./check.ts";
import { checkHttpBinary, checkHttpJson } from "./check-http.ts";
import type { Door } from "./door.ts";
import { extAuthz } from "./ext-authz.ts";
import { flowEndBinary, flowEndJsonDoor } from "./flow-end.ts";

export const CHECK_SERVICE = "aperture.flowcontrol.check.v1.FlowControlService";
export const CHECK_HTTP_SERVICE = "aperture.flowcontrol.checkhttp.v1.FlowControlServiceHTTP";
export const AUTHORIZATION_SERVICE = "envoy.service.auth.v3.Authorization";
export const LOGS_SERVICE = "opentelemetry.proto.collector.logs.v1.LogsService";

function unary(handle: UnaryHandler) {
  return { kind: "unary", handle } as const;
}

export function services(door: Door, logs: RecordTaker): readonly Service[] {
  return [
    {
      name: AUTHORIZATION_SERVICE,
      methods: { Check: unary(extAuthz(door)) },
      healthNames: [],
    },
    {
      name: CHECK_HTTP_SERVICE,
      methods: { CheckHTTP: unary(checkHttpBinary(door)) },
      healthNames: ["aperture.flowcontrol.v1.FlowControlServiceHTTP"],
    },
    {
      name: CHECK_SERVICE,
      methods: { Check: unary(checkBinary(door)), FlowEnd: unary(flowEndBinary(door)) },
      healthNames: ["aperture.flowcontrol.v1.FlowControlService"],
    },
    {
      name: LOGS_SERVICE,
      methods: { Export: unary(exportLogs(logs)) },
      healthNames: [],
    },
  ];
}

/** The handlers behind the JSON routes, in process or through another server. */
export interface JsonHandlers {
  readonly checkHttp: HttpHandler;
  readonly check: HttpHandler;
  readonly flowEnd: HttpHandler;
}

/** All change state: a check takes tokens and slots, an end gives slots back. */
export function jsonRoutes({ checkHttp, check, flowEnd }: JsonHandlers): readonly Route[] {
  return [
    {
      method: "POST",
      path: "/v1/flowcontrol/checkhttp",
      about: "May this HTTP request pass? Body: CheckHTTPRequest",
      handle: checkHttp,
      revealing: true,
      body: "json",
    },
    {
      method: "POST",
      path: "/v1/flowcontrol/check",
      about: "May this flow pass? Body: CheckRequest",
      handle: check,
      revealing: true,
      body: "json",
    },
    {
      method: "POST",
      path: "/v1/flowcontrol/flowend",
      about: "Ends flows that hold concurrency slots. Body: FlowEndRequest",
      handle: flowEnd,
      revealing: true,
      body: "json",
    },
  ];
}

/** JSON routes that are answered in this process. */
export function routes(door: Door): readonly Route[] {
  return jsonRoutes({
    checkHttp: checkHttpJson(door),
    check: checkJson(door),
    flowEnd: flowEndJsonDoor(door),
  });
}
