// The gRPC part of a request's header section, derived once for all requests that share the head.

import type { RequestHead } from "#h2/exchange.ts";
import { parseTimeout } from "../grpc-timeout.ts";
import type { MethodRow } from "./methods.ts";
import { type CallStatus, DEADLINE_PASSED } from "./status.ts";

const CONTENT_TYPE = "application/grpc";

/** `unknown` is only refused if a message is actually compressed. */
export type Encoding = "identity" | "deflate" | "gzip" | "unknown";

export type IgnoresType = (head: RequestHead) => boolean;

export class GrpcRequest {
  /** undefined: no such method. */
  readonly row: MethodRow | undefined;
  /** Infinity without `grpc-timeout`. */
  readonly timeoutMs: number;
  readonly encoding: Encoding;
  /** undefined: the call may start. */
  readonly rejection: CallStatus | undefined;
  /** The content type is not that of gRPC. */
  readonly wrongContentType: boolean;
  /** Names and values, alternating. */
  readonly fields: readonly string[];

  constructor(head: RequestHead, row: MethodRow | undefined, mistyped: boolean) {
    const timeout = rawValue(head.fields, "grpc-timeout");
    const timeoutMs = timeout === undefined ? Number.POSITIVE_INFINITY : parseTimeout(timeout);
    this.row = row;
    this.fields = head.fields;
    this.wrongContentType = mistyped;
    this.encoding = readEncoding(rawValue(head.fields, "grpc-encoding"));
    this.timeoutMs = timeoutMs ?? 0;
    this.rejection = rejectionOf(head, row, timeoutMs);
  }
}

/**
 * Returns the gRPC part of a head, or undefined if the request is not gRPC. Cached with the head.
 *
 * @param ignoresType whether the request is for a JSON route whose callers forward the headers of others, so that its
 * content type is meaningless
 */
export function requestOf(
  head: RequestHead,
  rows: ReadonlyMap<string, MethodRow>,
  ignoresType: IgnoresType,
): GrpcRequest | undefined {
  if (head.memo instanceof GrpcRequest) return head.memo;
  if (head.method !== "POST") return undefined;
  const row = rows.get(head.path);
  const contentType = rawValue(head.fields, "content-type");
  const typed = isGrpc(contentType);
  if (row === undefined && (!typed || ignoresType(head))) return undefined;
  // A header section beyond the limits is incomplete: its content type may be missing.
  const lost = head.flaw === "too_large" && contentType === undefined;
  const request = new GrpcRequest(head, row, !typed && !lost);
  head.memo = request;
  return request;
}

/** `application/grpc`, alone or with a subtype or parameters; `application/grpc-web` is a different protocol. */
function isGrpc(contentType: string | undefined): boolean {
  if (contentType === undefined) return false;
  const next = contentType.charAt(CONTENT_TYPE.length);
  if (next !== "" && next !== "+" && next !== ";") return false;
  return contentType.slice(0, CONTENT_TYPE.length).toLowerCase() === CONTENT_TYPE;
}

function rejectionOf(
  { flaw }: RequestHead,
  row: MethodRow | undefined,
  timeoutMs: number | undefined,
): CallStatus | undefined {
  if (flaw !== undefined) {
    return {
      code: "RESOURCE_EXHAUSTED",
      message: "the request has too many headers, or headers that are too long",
    };
  }
  if (row === undefined) return { code: "UNIMPLEMENTED", message: "unknown service or method" };
  if (timeoutMs === undefined) {
    return {
      code: "INTERNAL",
      message: "grpc-timeout must be one to eight digits and one of H M S m u n",
    };
  }
  return timeoutMs > 0 ? undefined : DEADLINE_PASSED;
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
