// All gRPC services and JSON routes of flow control that an agent serves.

import type { GrpcService, HttpHandler, Route, UnaryHandler } from "#base/handler.ts";
import type { EntryReader } from "#wire/access-log/message.ts";
import type { Signal } from "#wire/otlp/records.ts";
import { checkBinary, checkJson, unreadCheck } from "./check.ts";
import { checkHttpBinary, checkHttpJson, unreadCheckHttp } from "./check-http.ts";
import type { OperationContext } from "./context.ts";
import { extAuthz } from "./ext-authz.ts";
import { flowEndBinary, flowEndJsonHandler } from "./flow-end.ts";
import { explainingUnreadable } from "./reply/unreadable.ts";
import { accessLogService, type StreamMeter } from "./reports/access-log.ts";
import { consumeAll, exportRecords, otlpRoutes, type RecordConsumer } from "./reports/otlp.ts";

export const CHECK_SERVICE = "aperture.flowcontrol.check.v1.FlowControlService";
export const CHECK_HTTP_SERVICE = "aperture.flowcontrol.checkhttp.v1.FlowControlServiceHTTP";
export const AUTHORIZATION_SERVICE = "envoy.service.auth.v3.Authorization";
/** OpenTelemetry's services for the exports of each signal. */
export const OTLP_SERVICES: Readonly<Record<Signal, string>> = {
  logs: "opentelemetry.proto.collector.logs.v1.LogsService",
  traces: "opentelemetry.proto.collector.trace.v1.TraceService",
};

function unary(handle: UnaryHandler) {
  return { kind: "unary", handle } as const;
}

export function grpcServices(
  context: OperationContext,
  records: RecordConsumer & EntryReader,
  streams?: StreamMeter,
): readonly GrpcService[] {
  return [
    {
      name: AUTHORIZATION_SERVICE,
      methods: { Check: unary(extAuthz(context)) },
      access: "data",
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
      name: OTLP_SERVICES.logs,
      methods: { Export: unary(exportRecords("logs", records)) },
      access: "data",
    },
    {
      name: OTLP_SERVICES.traces,
      methods: { Export: unary(exportRecords("traces", records)) },
      access: "data",
    },
    accessLogService(records, streams),
  ];
}

/** The answers to checks that are not read. */
export interface UnreadHandlers {
  readonly checkHttp: NonNullable<Route["unread"]>;
  readonly check: NonNullable<Route["unread"]>;
}

export function unreadHandlers(context: OperationContext): UnreadHandlers {
  return { checkHttp: unreadCheckHttp(context), check: unreadCheck(context) };
}

/** The handlers of the JSON routes: they check in this process or forward to another server. */
export interface JsonHandlers {
  readonly checkHttp: HttpHandler;
  readonly check: HttpHandler;
  readonly flowEnd: HttpHandler;
}

/** The route table. */
export function flowControlRoutes(
  { checkHttp, check, flowEnd }: JsonHandlers,
  unread: UnreadHandlers,
): readonly Route[] {
  return [
    {
      method: "POST",
      path: "/v1/flowcontrol/checkhttp",
      about: "May this HTTP request pass? Body: CheckHTTPRequest",
      handle: explainingUnreadable(checkHttp),
      access: "data",
      body: "json",
      forwarded: true,
      unread: unread.checkHttp,
    },
    {
      method: "POST",
      path: "/v1/flowcontrol/check",
      about: "May this flow pass? Body: CheckRequest",
      handle: explainingUnreadable(check),
      access: "data",
      body: "json",
      forwarded: true,
      unread: unread.check,
    },
    {
      method: "POST",
      path: "/v1/flowcontrol/flowend",
      about: "Ends a flow: frees its concurrency slots and settles its cost. Body: FlowEndRequest",
      handle: explainingUnreadable(flowEnd),
      access: "data",
      body: "json",
      forwarded: true,
    },
  ];
}

/** The HTTP routes, answered in this process. */
export function httpRoutes(context: OperationContext, records: RecordConsumer): readonly Route[] {
  const handlers = {
    checkHttp: checkHttpJson(context),
    check: checkJson(context),
    flowEnd: flowEndJsonHandler(context),
  };
  const flowControl = flowControlRoutes(handlers, unreadHandlers(context));
  return [...flowControl, ...otlpRoutes(consumeAll(records))];
}
