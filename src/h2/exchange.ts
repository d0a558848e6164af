// The interface between HTTP/2 and the protocols above it (gRPC, JSON) for one request. HTTP/2 handles streams,
// windows and field blocks; what a request means is up to its Exchange.

import type { Duplex } from "node:stream";
import type { Held } from "#base/handler.ts";
import type { Http2Fault } from "#base/server-meter.ts";
import type { FixedBlock } from "./fixed-block.ts";

/** Fields that make an HTTP/2 message malformed (RFC 9113 §8.2.2). Replies are sent without them. */
export const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);

/**
 * Header section of one request, validated by RFC 9113 §8.2 and §8.3: it has a method and a path, and unless it has a
 * flaw, nothing that could be used for request smuggling. Requests whose field blocks have the same bytes share one object, so it
 * never changes.
 */
export interface RequestHead {
  readonly method: string;
  readonly path: string;
  readonly scheme: string;
  /** `:authority`, or `host` if only that was sent; "" without either. */
  readonly authority: string;
  /**
   * Names (lower case) and values of the other fields, alternating, in order of arrival. Values are latin1: one
   * character per byte.
   */
  readonly fields: readonly string[];
  /** Size of the fields by RFC 9113 §6.5.2: the lengths of names and values, and 32 for each field. */
  readonly size: number;
  /**
   * The reason to refuse the request. `too_large`: it exceeds the bound on fields or bytes, and `fields` is incomplete.
   * `malformed` (§8.1.1): `fields` is empty, and only requests to routes that reply nevertheless get this far.
   */
  readonly flaw: "too_large" | "malformed" | undefined;
  /** Value of `content-length`, to be compared with the data that arrives (RFC 9113 §8.1.1); -1 if absent. */
  readonly contentLength: number;
  /** Whatever the protocol above derived from this head; cached together with it. */
  memo: unknown;
}

/**
 * Handles one request from its header section on. All methods are called in the turn of the event loop in which
 * the bytes were read. After the exchange itself has reset the stream or ended its reply only `aborted` may
 * follow, and not even that once the whole reply was sent. Nothing follows `aborted`.
 */
export interface Exchange {
  /**
   * Delivers `chunk[start, end)` of the body; `last` marks its end. The chunk's memory is not reused, so a view
   * may be kept, at the price of keeping all of `chunk`. A body that ends later or with trailers ends with an
   * empty last part.
   */
  data(chunk: Buffer, start: number, end: number, last: boolean): void;
  /**
   * The stream ended early: the peer reset it, violated the protocol, or its connection closed. Nothing can be
   * sent.
   */
  aborted(): void;
  /** Everything written so far has been sent: there is room for more. */
  drained(): void;
  /**
   * For long-lived requests: identifies the part that the peer has started and must finish, as a number that
   * changes from part to part; 0 if no part has started. Without it, the whole request counts as one part.
   */
  readonly incompletePart?: number;
  /** Called when that part is still incomplete after `read_timeout`. Returns whether the exchange refused it. */
  timedOut(): boolean;
  /**
   * Called when the body has another length than `content-length` says. Returns whether the exchange has answered that;
   * otherwise the stream is reset.
   */
  refuseBrokenBody?(): boolean;
}

/** An HTTP/2 stream as the exchange of its request uses it. */
export interface RequestStream {
  /** Address of the peer without its port; "" on a Unix socket. */
  readonly peer: string;
  /** The connection's socket; for TLS, the decrypted one. */
  readonly socket: Duplex;
  /** Nothing more can be sent: the stream was reset or the reply is complete. */
  readonly localClosed: boolean;
  /**
   * Sends a whole reply: header section, `lead` and `body` as data, trailers. Copies all bytes before it returns.
   * `more` holds further header fields, names and values alternating.
   */
  respond(
    head: FixedBlock,
    more: readonly string[] | undefined,
    lead: Uint8Array,
    body: Uint8Array,
    trailers: FixedBlock,
  ): void;
  /**
   * Sends a field block: the header section first, or the trailers (`last`). `fields` alternates names and values,
   * pseudo-headers first.
   */
  headers(fields: readonly string[], last: boolean): void;
  /**
   * Sends part of a reply's body. Copies or sends the bytes before it returns; if the peer accepts no more,
   * buffers them, returns false and calls `drained` later.
   */
  write(bytes: Uint8Array, last: boolean): boolean;
  /**
   * Releases `held` unless the peer takes the reply, which is sent next: not if the stream or its connection ends before
   * the reply is complete, nor if the peer resets the stream or closes the connection before it has confirmed the reply.
   */
  releaseIfUndelivered(held: Held): void;
  /** Resets the stream with CANCEL. */
  cancel(): void;
  /**
   * Allows the peer to send this many more bytes of the body, for exchanges that read at the pace of their
   * consumer.
   */
  extendReceiveWindow(bytes: number): void;
  /**
   * Counts bytes that the exchange buffers (an incomplete message, or one that a handler still uses) against the
   * limits of the connection and of the process. Returns false if that exceeds a limit: the request must then be
   * refused. `release` returns them; so does the end of the stream, or of a handler that outlives it.
   */
  reserve(bytes: number): boolean;
  release(bytes: number): void;
  /**
   * Charges the connection for work that cost as much as so many broken calls; when its budget is used up, the
   * connection ends with this fault. `wrong`: the work by itself is a fault and is counted as one. Must not be
   * called during `data`.
   */
  charge(calls: number, fault: Http2Fault, wrong: boolean): void;
  /**
   * A handler runs that may outlive the stream. Until `handlerFinished` it occupies one of the connection's stream
   * slots, so that calls which are started and cancelled at once cannot pile up.
   */
  handlerStarted(): void;
  handlerFinished(): void;
}

/** Starts the exchange of a request whose header section has arrived; `last`: it has no body. May reply at once. */
export type RequestHandler = (stream: RequestStream, head: RequestHead, last: boolean) => Exchange;
