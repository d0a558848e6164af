// Turns requests over Sluice's HTTP/2 into gRPC calls of the served services.

import type { GrpcService } from "#base/handler.ts";
import {
  type Exchange,
  FixedBlock,
  type RequestHandler,
  type RequestHead,
  type RequestStream,
} from "#h2/exchange.ts";
import type { GrpcSettings } from "../settings.ts";
import type { CallContext } from "./call.ts";
import { Inflater } from "./messages/inflater.ts";
import { PREFIX_LENGTH } from "./messages/message-reader.ts";
import { type MethodRow, methodRows } from "./methods.ts";
import { type GrpcRequest, type IgnoresType, requestOf } from "./request.ts";
import { type CallStatus, statusFields } from "./status.ts";
import { StreamCall } from "./stream-call.ts";
import { UnaryCall } from "./unary-call.ts";

export interface GrpcRequestHandler {
  /** True if gRPC must answer the request: its content type is gRPC's, or its path is that of a method. */
  accepts(head: RequestHead): boolean;
  /** Only for requests that `accepts` accepts. */
  readonly handle: RequestHandler;
}

/** Exchange of a request that has been answered: the rest of it is ignored. */
const IGNORED: Exchange = {
  data() {},
  aborted() {},
  drained() {},
  timedOut: () => false,
};

export function grpcRequestHandler(
  services: readonly GrpcService[],
  { max_message_bytes }: Pick<GrpcSettings, "max_message_bytes">,
  { clock, log, meter }: Pick<CallContext, "clock" | "log" | "meter">,
  ignoresType: IgnoresType = () => false,
): GrpcRequestHandler {
  const rows = new Map<string, MethodRow>(
    services.flatMap(methodRows).map((row) => [row.metered.path, row]),
  );
  const context: CallContext = {
    clock,
    log,
    meter,
    replyHead: new FixedBlock([":status", "200", "content-type", "application/grpc"]),
    okTrailers: new FixedBlock(["grpc-status", "0"]),
    prefix: new Uint8Array(PREFIX_LENGTH),
    inflater: new Inflater(max_message_bytes),
    maxMessage: max_message_bytes,
  };
  return {
    accepts: (head) => requestOf(head, rows, ignoresType) !== undefined,
    handle(stream, head, last) {
      const request = requestOf(head, rows, ignoresType);
      if (request === undefined || request.wrongContentType) {
        stream.headers([":status", "415"], true);
        return IGNORED;
      }
      const { row, rejection } = request;
      if (row === undefined || rejection !== undefined) {
        if (rejection !== undefined) refuse(context, stream, row, rejection);
        return IGNORED;
      }
      return begin(context, stream, request, row, last);
    },
  };
}

function begin(
  context: CallContext,
  stream: RequestStream,
  request: GrpcRequest,
  row: MethodRow,
  last: boolean,
): Exchange {
  const call =
    row.unary === undefined
      ? new StreamCall(context, stream, request, row)
      : new UnaryCall(context, stream, request, row);
  if (last) call.data(Buffer.alloc(0), 0, 0, true);
  return call;
}

/** Refuses a call because of its header section alone. */
function refuse(
  context: CallContext,
  stream: RequestStream,
  row: MethodRow | undefined,
  rejection: CallStatus,
): void {
  if (row !== undefined) {
    context.meter?.grpcStarted(row.metered);
    context.meter?.grpcHandled(row.metered, rejection.code, 0);
  }
  stream.headers([...context.replyHead.fields, ...statusFields(rejection)], true);
}
