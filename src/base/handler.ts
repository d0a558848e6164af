// Calls, services and HTTP routes as their handlers see them, whatever the transport, TLS setting or protocol version.

import type { Refusal } from "./http/refusal.ts";

/** Slots that stay taken after a reply until its caller returns them, which only a caller that got the reply can do. */
export interface Held {
  /** Approximate bytes of memory. */
  readonly size: number;
  /** Returns the slots. Called once, if the reply did not reach its caller. */
  release(): void;
}

/** One call in progress, gRPC or HTTP. */
export interface Call {
  /** `/package.Service/Method`, or the pattern of the HTTP route. */
  readonly method: string;
  /** On `Clock.now()`; Infinity when the caller set none. */
  readonly deadline: number;
  /** IP address of the caller, without its port; "" on a Unix socket. */
  readonly peer: string;
  /** First value of a request header or metadata key (lower case), or undefined. `-bin` values are in base64. */
  header(name: string): string | undefined;
  /**
   * The transport copies a reply before it calls the handler again: a reply that is returned synchronously may then lie
   * in a reused buffer.
   */
  readonly copiesReply?: boolean;
  /** Aborted when the caller leaves or the deadline passes. Created on first use, because it is costly. */
  signal(): AbortSignal;
  /**
   * Calls `left` when the caller leaves or the deadline passes, immediately if it has, at a small part of the cost of a
   * signal. Supports one listener.
   */
  whenCallerLeaves(left: () => void): void;
  /**
   * Releases `held` unless the reply reaches the caller: the caller resets the call or disconnects before it has taken
   * the reply, or its deadline passes before the reply is sent. At most once per call.
   */
  releaseIfUndelivered(held: Held): void;
  /** Sets a reply header (gRPC: initial metadata). Lower case; `-bin` values are given in base64. */
  reply(name: string, value: string): void;
  /** Sets a field of the trailing metadata, or a reply header for HTTP routes, which have no trailers. Lower case. */
  trailer(name: string, value: string): void;
}

/** Answers one message. Its bytes are valid until the handler returns or, for a promise, until it settles. */
export type UnaryHandler = (message: Uint8Array, call: Call) => Uint8Array | Promise<Uint8Array>;

export interface Stream {
  readonly messages: AsyncIterable<Uint8Array>;
  /** Sends a message; resolves when there is room for another. */
  send(message: Uint8Array): Promise<void>;
}

export type StreamHandler = (stream: Stream, call: Call) => Promise<void>;

export type Method =
  | { readonly kind: "unary"; readonly handle: UnaryHandler }
  | {
      readonly kind: "stream";
      /** The sides that may send more than one message; both true is bidirectional. */
      readonly client: boolean;
      readonly server: boolean;
      readonly handle: StreamHandler;
    };

/**
 * The callers that may use a route or a service:
 *
 * - `open`: everyone who reaches the port, such as probes and metrics collectors.
 * - `data`: callers that have flows judged or report about them. They need no credential, but the log warns where other
 * machines reach them without TLS.
 * - `administration`: those who may see and change what the process does. `serve/administration.ts` checks them.
 */
export type Access = "open" | "data" | "administration";

/** True if only administration may use it, which is the default. */
export function isAdministration({ access }: { readonly access?: Access }): boolean {
  return access === undefined || access === "administration";
}

/** A gRPC service under its full name. Handlers throw `Fault`; anything else becomes INTERNAL. */
export interface GrpcService {
  readonly name: string;
  /** Left out, it is administration. */
  readonly access?: Access;
  readonly methods: Readonly<Record<string, Method>>;
  /** Other names under which health reports the service. */
  readonly healthNames?: readonly string[];
  /**
   * Ends calls that would last as long as their callers. Called when the port drains and accepts no new connections.
   */
  drain?(): void;
}

export interface HttpRequest {
  readonly method: string;
  /** Path without query, as received. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Values of `{name}` and `{name...}` segments of the route, percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Uint8Array;
}

export interface HttpReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | string;
}

export type HttpHandler = (request: HttpRequest, call: Call) => HttpReply | Promise<HttpReply>;

/** One row of the table of HTTP routes. The reference page and the reply to `GET /` are generated from it. */
export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Literal segments, `{name}` for one, `{name...}` for the rest. */
  readonly path: string;
  readonly about: string;
  readonly handle: HttpHandler;
  /** May outlive `write_timeout`. */
  readonly stream?: boolean;
  /** Left out, it is administration. */
  readonly access?: Access;
  /**
   * Callers are gateways that forward the headers of their clients and let a request pass on any error. So no header
   * causes an error: content type and encoding, `host` and a malformed `grpc-timeout` are ignored, and a deadline only
   * bounds how long the handler waits.
   */
  readonly forwarded?: boolean;
  /**
   * Replies to a request that is not read: its header section is malformed or too large, or its body is larger than
   * `maxBody` or not framed as announced. Default: the reply is an error.
   */
  readonly unread?: (call: Call, refusal: Refusal) => HttpReply;
  /** Throws a Fault to refuse a request by its header section, before its body is read. */
  readonly admit?: (call: Call) => void;
  /** Costs as much as hundreds of checks: each turn of the event loop starts one such request, and 100 may wait. */
  readonly costly?: boolean;
  /** `json`: requires a JSON (or absent) content type and refuses `content-encoding`, unless headers are forwarded. */
  readonly body?: "none" | "json";
  /** Largest body in bytes, above which the reply is 413. Default 1 MiB. */
  readonly maxBody?: number;
}
