// What HTTP/2 and the tongues above it (gRPC, JSON) say to each other about one request. HTTP/2 knows streams,
// windows and header blocks; what a request means is the business of its Exchange.

import type { Duplex } from "node:stream";
import type { Http2Fault } from "../settings.ts";
import type { FixedBlock } from "./hpack/encoder.ts";

/**
 * Head of one request, judged by RFC 9113 §8.2 and §8.3: it has a method and a path, and nothing that could be
 * smuggled. One object for all requests whose header blocks had the same bytes, so it is never changed.
 */
export interface Head {
  readonly method: string;
  readonly path: string;
  readonly scheme: string;
  /** `:authority`, or `host` where only that was sent; "" without either. */
  readonly authority: string;
  /** Names (lower case) and values of the other fields, in turn and in order. Values are latin1: a character is a byte. */
  readonly fields: readonly string[];
  /** What its fields count by RFC 9113 §6.5.2: names, values and 32 for each. */
  readonly size: number;
  /** More fields or bytes than are taken: `fields` is not complete, the request is to be refused. */
  readonly overflow: boolean;
  /** What `content-length` announces, for comparison with the data that comes (RFC 9113 §8.1.1); -1 without it. */
  readonly contentLength: number;
  /** What the tongue above worked out about it; kept as long as the head is remembered. */
  memo: unknown;
}

/**
 * One request as the tongue above goes on with it. All calls come in the turn in which the bytes were read.
 * Nothing is called after `gone`, nor after the exchange itself reset the stream or ended its reply, except
 * `gone`, which is not called after a reply that was sent completely.
 */
export interface Exchange {
  /**
   * Part of the body, `chunk[start, end)`, and whether it is the last. The memory is not used again, so a view of
   * it may be kept, at the price of all of `chunk`. A body whose end comes later or in trailers ends with an empty
   * last part.
   */
  data(chunk: Buffer, start: number, end: number, last: boolean): void;
  /** The stream ended early: reset by the peer, broken by it, or its connection closed. Nothing can be sent. */
  gone(): void;
  /** Everything that was written is out: there is room for more. */
  drained(): void;
  /**
   * For requests that may last: which of their parts the peer has begun and is to finish, as a number that changes
   * with it; 0: none. Without it the request as a whole is the part.
   */
  readonly begun?: number;
  /** That part is not whole although it has had `read_timeout`. Whether the exchange refuses it, or lets it be. */
  slow(): boolean;
}

/** One HTTP/2 stream as its exchange uses it. */
export interface Stream {
  /** Address of the other end without its port; "" on a Unix socket. */
  readonly peer: string;
  /** The connection it runs on; for TLS, the inner socket. */
  readonly socket: Duplex;
  /** Nothing can be sent any more: reset, or the reply is complete. */
  readonly closed: boolean;
  /**
   * A whole reply at once: head, `lead` and `body` as data, trailers. All bytes are copied before it returns.
   * `more` are further fields of the head, names and values in turn.
   */
  answer(
    head: FixedBlock,
    more: readonly string[] | undefined,
    lead: Uint8Array,
    body: Uint8Array,
    trailers: FixedBlock,
  ): void;
  /** A header block: the head (first) or the trailers (`last`). `fields` are names and values in turn, the pseudo header first. */
  headers(fields: readonly string[], last: boolean): void;
  /**
   * Part of a reply's body. The bytes are copied or sent before it returns, or kept when the peer takes no more
   * now: then it returns false and `drained` follows.
   */
  write(bytes: Uint8Array, last: boolean): boolean;
  /** Ends the stream with an error code of RFC 9113 §7. */
  reset(code: number): void;
  /** This many more body bytes may come: for exchanges that read at the pace of whoever uses them. */
  credit(bytes: number): void;
  /**
   * Counts bytes that the exchange keeps (an incomplete message, one that a handler waits with) against the bounds of the connection and of
   * the process. False: too many are kept, the request is to be refused. `release` takes them back, and so does the
   * stream's end, or that of the work which outlives it.
   */
  hold(bytes: number): boolean;
  release(bytes: number): void;
  /**
   * The peer made work that cost us as much as so many broken calls, and its connection pays for it out of the same
   * budget; beyond it, it ends with this fault. `wrong`: the work alone is the fault, and is counted as such. Not to be
   * called in the turn of `data`.
   */
  charge(calls: number, fault: Http2Fault, wrong: boolean): void;
  /**
   * Work goes on that the stream's end does not end at once (a handler that waits). Until `rest` it counts as one of
   * the connection's streams, so that calls which are made and taken back do not pile up.
   */
  work(): void;
  rest(): void;
}

/** Makes the exchange of a request whose head is there; `last`: it has no body. May answer at once. */
export type Answerer = (stream: Stream, head: Head, last: boolean) => Exchange;
