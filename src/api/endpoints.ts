// All gRPC services and JSON routes of flow control that an agent serves.

import type { GrpcService, HttpHandler, Route, UnaryHandler } from "#base/handler.ts";
import { exportLogs, type LogRecordConsumer } from "./access-log.ts";
import { checkBinary, checkJson } from "./check.ts";
import { checkHttpBinary, checkHttpJson } from "./check-http.ts";
import type { OperationContext } from "./context.ts";
import { extAuthz } from "./ext-authz.ts";
import { flowEndBinary, flowEndJsonHandler } from "./flow-end.ts";

export const CHECK_SERVICE = "aperture.flowcontrol.check.v1.FlowControlService";
export const CHECK_HTTP_SERVICE = "aperture.flowcontrol.checkhttp.v1.FlowControlServiceHTTP";
export const AUTHORIZATION_SERVICE = "envoy.service.auth.v3.Authorization";
const LOGS_SERVICE = "opentelemetry.proto.collector.logs.v1.LogsService";

function unary(handle: UnaryHandler) {
  return { kind: "unary", handle } as const;
}

export function grpcServices(
  context: OperationContext,
  logRecords: LogRecordConsumer,
): readonly GrpcService[] {
  return [
    {
      name: AUTHORIZATION_SERVICE,
      methods: { Check: unary(extAuthz(context)) },
      access: "data",
      healthNames: [],
    },
    {
      name: CHECK_HTTP_SERVICE,
      methods: { CheckHTTP: unary(checkHttpBinary(context)) },
      access: "data",
      healthNames: ["aperture.flowcontrol.v1.FlowControlServiceHTTP"],
    },
    {
      name: CHECK_SERVICE,
      methods: { Check: unary(checkBinary(context)), FlowEnd: unary(flowEndBinary(context)) },
      access: "data",
      healthNames: ["aperture.flowcontrol.v1.FlowControlService"],
    },
    {
      name: LOGS_SERVICE,
      methods: { Export: unary(exportLogs(logRecords)) },
      access: "data",
      healthNames: [],
    },
  ];
}

/** The handlers of the JSON routes: they check in this process or forward to another server. */
export interface JsonHandlers {
  readonly checkHttp: HttpHandler;
  readonly check: HttpHandler;
  readonly flowEnd: HttpHandler;
}

/** The route table. */
export function flowControlRoutes({ checkHttp, check, flowEnd }: JsonHandlers): readonly Route[] {
  return [
    {
      method: "POST",
      path: "/v1/flowcontrol/checkhttp",
      about: "May this HTTP request pass? Body: CheckHTTPRequest",
      handle: checkHttp,
      access: "data",
      body: "json",
    },
    {
      method: "POST",
      path: "/v1/flowcontrol/check",
      about: "May this flow pass? Body: CheckRequest",
      handle: check,
      access: "data",
      body: "json",
    },
    {
      method: "POST",
      path: "/v1/flowcontrol/flowend",
      about: "Ends flows that hold concurrency slots. Body: FlowEndRequest",
      handle: flowEnd,
      access: "data",
      body: "json",
    },
  ];
}

/** The JSON routes, answered in this process. */
export function httpRoutes(context: OperationContext): readonly Route[] {
  return flowControlRoutes({
    checkHttp: checkHttpJson(context),
    check: checkJson(context),
    flowEnd: flowEndJsonHandler(context),
  });
}
