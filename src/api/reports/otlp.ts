// OpenTelemetry's exports of logs and traces, to which proxies send their access log and SDKs their spans: one record for
// each finished request. Over gRPC, and over HTTP in protobuf and JSON, compressed or not.

import { Fault } from "#base/fault.ts";
import type {
  Call,
  HttpHandler,
  HttpReply,
  HttpRequest,
  Route,
  UnaryHandler,
} from "#base/handler.ts";
import { recordsFromJson, replyToJson } from "#wire/otlp/json.ts";
import { readRecords, writeReply } from "#wire/otlp/protobuf.ts";
import type { Attributes, Signal } from "#wire/otlp/records.ts";
import { Gunzip } from "./gunzip.ts";

export interface RecordConsumer {
  /** False when the record could not be used, and its sender should know. */
  consume(record: Attributes): boolean;
}

/** Largest message in bytes, after decompression too. The limit of gRPC's messages. */
const MAX_MESSAGE = 4 * 1024 * 1024;

const PROTOBUF = "application/x-protobuf";
const JSON_TYPE = "application/json";
const REASON = "records that could not be used (see sluice_access_log_records_total)";

/**
 * Reports unusable records as a partial success: the sender does not send those again, and the others count.
 * @throws Fault INVALID_ARGUMENT for a message that is malformed or too large; then none of its records count
 */
export function exportRecords(signal: Signal, consumer: RecordConsumer): UnaryHandler {
  return (message) => writeReply(consumed(readRecords(signal, message), consumer), REASON);
}

/** Returns the number of records that could not be used. */
export type ConsumeAll = (
  signal: Signal,
  records: readonly Attributes[],
  call: Call,
) => number | Promise<number>;

/** For `otlpRoutes` in an agent that uses the records itself. */
export function consumeAll(consumer: RecordConsumer): ConsumeAll {
  return (_, records) => consumed(records, consumer);
}

/** The routes of OTLP over HTTP. */
export function otlpRoutes(consume: ConsumeAll): readonly Route[] {
  const gunzip = new Gunzip(MAX_MESSAGE);
  const route = (signal: Signal, what: string): Route => ({
    method: "POST",
    path: `/v1/${signal}`,
    about: `Takes ${what} of finished requests, as OpenTelemetry's exporters send them: protobuf or JSON, gzip or not`,
    handle: otlpHandler(signal, consume, gunzip),
    access: "data",
    costly: true,
    maxBody: MAX_MESSAGE,
  });
  return [route("logs", "access logs"), route("traces", "spans")];
}

function otlpHandler(signal: Signal, consume: ConsumeAll, gunzip: Gunzip): HttpHandler {
  return (request, call) => {
    const type = mediaType(request);
    const answer = (body: Uint8Array): HttpReply | Promise<HttpReply> => {
      const json = type === JSON_TYPE;
      const records = json ? recordsFromJson(signal, body) : readRecords(signal, body);
      const rejected = consume(signal, records, call);
      const reply = (count: number) => replyOf(signal, type, count);
      return typeof rejected === "number" ? reply(rejected) : rejected.then(reply);
    };
    const encoding = String(request.headers["content-encoding"] ?? "identity").toLowerCase();
    if (encoding === "identity") return answer(request.body);
    if (encoding === "gzip") return gunzip.run(request.body).then(answer);
    throw unsupported("content-encoding", "gzip or none");
  };
}

/** Throws a Fault (415) unless the body is protobuf or JSON. */
function mediaType({ headers }: HttpRequest): typeof PROTOBUF | typeof JSON_TYPE {
  const [type = ""] = String(headers["content-type"] ?? "").split(";", 1);
  switch (type.trim().toLowerCase()) {
    case PROTOBUF:
    case "application/protobuf":
      return PROTOBUF;
    case JSON_TYPE:
      return JSON_TYPE;
    default:
      throw unsupported("content-type", `${PROTOBUF} or ${JSON_TYPE}`);
  }
}

function unsupported(header: string, wanted: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${header} must be ${wanted}`, { http: 415 });
}

function replyOf(
  signal: Signal,
  type: typeof PROTOBUF | typeof JSON_TYPE,
  rejected: number,
): HttpReply {
  const body =
    type === JSON_TYPE ? replyToJson(signal, rejected, REASON) : writeReply(rejected, REASON);
  return { status: 200, headers: { "content-type": type }, body };
}

/** Returns the number of rejected records. */
function consumed(records: readonly Attributes[], consumer: RecordConsumer): number {
  let rejected = 0;
  for (const record of records) if (!consumer.consume(record)) rejected++;
  return rejected;
}
