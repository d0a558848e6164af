// Turns requests over our own HTTP/2 into gRPC calls of the services that are served. The front of this folder.

import type { Answerer, Exchange, Head, Stream } from "../h2/exchange.ts";
import { FixedBlock } from "../h2/hpack/encoder.ts";
import type { Service } from "../handler.ts";
import type { Door } from "./call.ts";
import { Inflater } from "./inflater.ts";
import { PREFIX } from "./message-reader.ts";
import { type MethodRow, rowsOf } from "./methods.ts";
import { type GrpcRequest, requestOf } from "./request.ts";
import { type Refusal, statusFields } from "./status.ts";
import { StreamCall } from "./stream-call.ts";
import { UnaryCall } from "./unary.ts";

export interface GrpcAnswerer {
  /** Whether a request is gRPC's to answer: by its content type, or because its path is that of a method. */
  answers(head: Head): boolean;
  /** Only of requests that are gRPC's. */
  readonly answer: Answerer;
}

/** Of a request that has been answered: whatever still comes of it is nobody's business. */
const ANSWERED: Exchange = {
  data() {},
  gone() {},
  drained() {},
  slow: () => false,
};

export function grpcAnswerer(
  services: readonly Service[],
  { clock, log, meter }: Pick<Door, "clock" | "log" | "meter">,
): GrpcAnswerer {
  const rows = new Map<string, MethodRow>(
    services.flatMap(rowsOf).map((row) => [row.metered.path, row]),
  );
  const door: Door = {
    clock,
    log,
    meter,
    head: new FixedBlock([":status", "200", "content-type", "application/grpc"]),
    trailers: new FixedBlock(["grpc-status", "0"]),
    lead: new Uint8Array(PREFIX),
    inflater: new Inflater(),
  };
  return {
    answers: (head) => requestOf(head, rows) !== undefined,
    answer(stream, head, last) {
      const request = requestOf(head, rows);
      if (request === undefined || request.mistyped) {
        stream.headers([":status", "415"], true);
        return ANSWERED;
      }
      const { row, refusal } = request;
      if (row === undefined || refusal !== undefined) {
        if (refusal !== undefined) refuse(door, stream, row, refusal);
        return ANSWERED;
      }
      return begin(door, stream, request, row, last);
    },
  };
}

function begin(
  door: Door,
  stream: Stream,
  request: GrpcRequest,
  row: MethodRow,
  last: boolean,
): Exchange {
  const call =
    row.unary === undefined
      ? new StreamCall(door, stream, request, row)
      : new UnaryCall(door, stream, request, row);
  if (last) call.data(Buffer.alloc(0), 0, 0, true);
  return call;
}

/** A call that its head already forbids. */
function refuse(door: Door, stream: Stream, row: MethodRow | undefined, refusal: Refusal): void {
  if (row !== undefined) {
    door.meter?.grpcStarted(row.metered);
    door.meter?.grpcHandled(row.metered, refusal.code, 0);
  }
  stream.headers([...door.head.fields, ...statusFields(refusal)], true);
}
