// What the head of a gRPC request says, worked out once for all requests whose heads are the same.

import type { Head } from "../h2/exchange.ts";
import { parseTimeout } from "../http/timeout.ts";
import type { MethodRow } from "./methods.ts";
import { LATE, type Refusal } from "./status.ts";

const CONTENT_TYPE = "application/grpc";

/** `unknown` is only refused when a message is compressed with it. */
export type Encoding = "identity" | "deflate" | "gzip" | "unknown";

export class GrpcRequest {
  /** undefined: no such method. */
  readonly row: MethodRow | undefined;
  /** Infinity without `grpc-timeout`. */
  readonly timeoutMs: number;
  readonly encoding: Encoding;
  /** undefined: the call may begin. */
  readonly refusal: Refusal | undefined;
  /** The content type is not gRPC's. */
  readonly mistyped: boolean;
  /** Names and values in turn. */
  readonly fields: readonly string[];

  constructor(head: Head, row: MethodRow | undefined, mistyped: boolean) {
    const timeout = rawValue(head.fields, "grpc-timeout");
    const timeoutMs = timeout === undefined ? Number.POSITIVE_INFINITY : parseTimeout(timeout);
    this.row = row;
    this.fields = head.fields;
    this.mistyped = mistyped;
    this.encoding = readEncoding(rawValue(head.fields, "grpc-encoding"));
    this.timeoutMs = timeoutMs ?? 0;
    this.refusal = judge(head, row, timeoutMs);
  }
}

/** What the head asks of gRPC, undefined when it is not gRPC's to answer. Remembered with the head. */
export function requestOf(
  head: Head,
  rows: ReadonlyMap<string, MethodRow>,
): GrpcRequest | undefined {
  if (head.memo instanceof GrpcRequest) return head.memo;
  if (head.method !== "POST") return undefined;
  const row = rows.get(head.path);
  const typed = isGrpc(rawValue(head.fields, "content-type"));
  if (!typed && row === undefined) return undefined;
  const request = new GrpcRequest(head, row, !typed);
  head.memo = request;
  return request;
}

/** `application/grpc`, alone or with a subtype or parameters; `application/grpc-web` is something else. */
function isGrpc(contentType: string | undefined): boolean {
  if (contentType === undefined) return false;
  const next = contentType.charAt(CONTENT_TYPE.length);
  if (next !== "" && next !== "+" && next !== ";") return false;
  return contentType.slice(0, CONTENT_TYPE.length).toLowerCase() === CONTENT_TYPE;
}

function judge(
  { overflow }: Head,
  row: MethodRow | undefined,
  timeoutMs: number | undefined,
): Refusal | undefined {
  if (overflow) {
    return { code: "RESOURCE_EXHAUSTED", message: "the request has too many or too long headers" };
  }
  if (row === undefined) return { code: "UNIMPLEMENTED", message: "unknown service or method" };
  if (timeoutMs === undefined) {
    return {
      code: "INTERNAL",
      message: "grpc-timeout must be one to eight digits and one of H M S m u n",
    };
  }
  return timeoutMs > 0 ? undefined : LATE;
}

function rawValue(fields: readonly string[], name: string): string | undefined {
  for (let at = 0; at < fields.length; at += 2) {
    if (fields[at] === name) return fields[at + 1];
  }
  return undefined;
}

function readEncoding(value = "identity"): Encoding {
  return value === "identity" || value === "gzip" || value === "deflate" ? value : "unknown";
}
