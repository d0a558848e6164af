// The interface between HTTP/2 and the protocols above it (gRPC, JSON) for one request. HTTP/2 handles streams, windows
// and field blocks; the Exchange knows what the request means.

import type { Duplex } from "node:stream";
import type { Held } from "#base/handler.ts";
import type { Http2Fault } from "#base/server-meter.ts";

/** Fields that make an HTTP/2 message malformed (RFC 9113 §8.2.2). Replies are sent without them. */
export const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);

/**
 * The header section of one request, validated by RFC 9113 §8.2 and §8.3: it has a method and a path and, unless it has
 * a flaw, nothing that allows request smuggling. Requests whose field blocks have the same bytes share one immutable
 * object.
 */
export interface RequestHead {
  readonly method: string;
  readonly path: string;
  readonly scheme: string;
  /** `:authority`, or `host` if only that was sent; "" without either. */
  readonly authority: string;
  /**
   * The other fields in order of arrival, names (lower case) and values alternating. Values are latin1: one character
   * per byte.
   */
  readonly fields: readonly string[];
  /** By RFC 9113 §6.5.2: the lengths of names and values, and 32 for each field. */
  readonly size: number;
  /**
   * The reason to refuse the request. `too_large`: it exceeds the limit on fields or bytes, and `fields` is incomplete.
   * `malformed` (§8.1.1): `fields` is empty, and only routes that reply nevertheless get the request.
   */
  readonly flaw: "too_large" | "malformed" | undefined;
  /** -1 if absent. It is compared with the data that arrives (RFC 9113 §8.1.1). */
  readonly contentLength: number;
  /** A value that the protocol above derives from this head, cached with it. */
  memo: unknown;
}

/**
 * Handles one request from its header section on. All methods are called in the turn of the event loop in which the
 * bytes were read. After the exchange has cancelled the stream, only `aborted` may follow; after its whole reply was
 * sent, or after `aborted`, nothing follows.
 */
export interface Exchange {
  /**
   * Delivers `chunk[start, end)` of the body; `last` marks the end of the body, for which the part may be empty. The
   * memory is not reused, so a view may be kept, which keeps all of `chunk`.
   */
  data(chunk: Buffer, start: number, end: number, last: boolean): void;
  /** The stream ended early: the peer reset it, violated the protocol, or disconnected. Nothing can be sent. */
  aborted(): void;
  /** Everything written so far has been sent: there is room for more. */
  drained(): void;
  /**
   * For long-lived requests: a number that identifies the part which the peer has begun and must finish; 0 if no part
   * has begun. Without it, the whole request is one part.
   */
  readonly incompletePart?: number;
  /** That part is incomplete after `read_timeout`. Returns whether the exchange refused it. */
  timedOut(): boolean;
  /**
   * The length of the body differs from `content-length`. Returns whether the exchange has answered that; otherwise the
   * stream is reset.
   */
  refuseBrokenBody?(): boolean;
}

/** A field block that is the same in every reply that contains it. Each connection encodes it once. */
export class FixedBlock {
  /** Names and values in turn, pseudo-headers first. */
  readonly fields: readonly string[];

  constructor(fields: readonly string[]) {
    this.fields = fields;
  }
}

/** An HTTP/2 stream as the exchange of its request uses it. */
export interface RequestStream {
  /** Without the port; "" on a Unix socket. */
  readonly peer: string;
  /** For TLS, the decrypted socket. */
  readonly socket: Duplex;
  /** The stream was reset, or the reply is complete: nothing more can be sent. */
  readonly localClosed: boolean;
  /**
   * Sends a whole reply: header section, `lead` and `body` as data, trailers. Copies all bytes before it returns.
   * `more` are further header fields, names and values alternating.
   */
  respond(
    head: FixedBlock,
    more: readonly string[] | undefined,
    lead: Uint8Array,
    body: Uint8Array,
    trailers: FixedBlock,
  ): void;
  /** Sends the header section, or the trailers (`last`). `fields` alternates names and values, pseudo-headers first. */
  headers(fields: readonly string[], last: boolean): void;
  /**
   * Sends part of the body. Copies or sends the bytes before it returns. If the peer accepts no more, buffers them,
   * returns false and calls `drained` later.
   */
  write(bytes: Uint8Array, last: boolean): boolean;
  /**
   * Releases `held` unless the peer takes the reply that is sent next. The peer does not take it if the stream or its
   * connection ends before the reply is complete, or if the peer resets the stream or disconnects before it has
   * confirmed the reply.
   */
  releaseIfUndelivered(held: Held): void;
  /** Resets the stream with CANCEL. */
  cancel(): void;
  /** Allows the peer to send this many more bytes of the body, at the pace of the consumer. */
  extendReceiveWindow(bytes: number): void;
  /**
   * Counts bytes that the exchange buffers (an incomplete message, or one that a handler still uses) against the limits
   * of the connection and of the process. Returns false beyond a limit: the request must then be refused. `release`
   * returns them, as does the end of the stream or of a handler that outlives it.
   */
  reserve(bytes: number): boolean;
  release(bytes: number): void;
  /**
   * Charges the connection for work that cost as much as this many broken calls; a connection without budget ends with
   * this fault. `isFault`: the work is a fault by itself and counts as one. Must not be called during `data`.
   */
  charge(calls: number, fault: Http2Fault, isFault: boolean): void;
  /**
   * A handler runs that may outlive the stream. Until `handlerFinished` it occupies one of the connection's stream
   * slots, so that calls which are started and cancelled at once do not pile up.
   */
  handlerStarted(): void;
  handlerFinished(): void;
}

/** Starts the exchange of a request whose header section has arrived. `last`: it has no body. May reply at once. */
export type RequestHandler = (stream: RequestStream, head: RequestHead, last: boolean) => Exchange;
