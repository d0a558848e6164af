// What a service is to the port that carries it. Handlers are written once against these shapes and never
// know which transport, TLS or protocol version brought the call.

/** One call in progress, gRPC or HTTP. */
export interface Call {
  /** `/package.Service/Method`, or the pattern of the HTTP route. */
  readonly method: string;
  /** On `Clock.now()`; Infinity when the caller set none. */
  readonly deadline: number;
  /** Address of the other end without its port; "" on a Unix socket. */
  readonly peer: string;
  /** First value of a request metadata key or header (lower case), or undefined. `-bin` values are in base64. */
  header(name: string): string | undefined;
  /** The reply is copied before the handler is called again: what it returns at once may lie in memory that it uses again. */
  readonly copiesReply?: boolean;
  /** Aborted when the caller goes away or the deadline passes. Made on first use: most checks never ask. */
  signal(): AbortSignal;
  /** Sets a reply header (gRPC: initial metadata). Lower case; `-bin` values are given in base64. */
  reply(name: string, value: string): void;
  /** Sets a field of the trailing metadata; over HTTP/1.1 and JSON, which have none, a reply header. Lower case. */
  trailer(name: string, value: string): void;
}

/** The message's bytes are borrowed until the handler returns (or its promise settles). */
export type UnaryHandler = (message: Uint8Array, call: Call) => Uint8Array | Promise<Uint8Array>;

export interface Stream {
  readonly messages: AsyncIterable<Uint8Array>;
  /** Resolves when there is room for more. */
  send(message: Uint8Array): Promise<void>;
}

export type StreamHandler = (stream: Stream, call: Call) => Promise<void>;

export type Method =
  | { readonly kind: "unary"; readonly handle: UnaryHandler }
  | {
      readonly kind: "stream";
      /** Which side may send more than one message; both true is bidirectional. */
      readonly client: boolean;
      readonly server: boolean;
      readonly handle: StreamHandler;
    };

/** A gRPC service under its full name. Handlers throw `Fault`; anything else becomes INTERNAL. */
export interface Service {
  readonly name: string;
  readonly methods: Readonly<Record<string, Method>>;
  /** Other names under which health reports the service. */
  readonly healthNames: readonly string[];
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

/** One row of the port's table of HTTP routes; the reference page and `GET /` are made from it. */
export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Literal segments, `{name}` for one, `{name...}` for the rest. */
  readonly path: string;
  readonly about: string;
  readonly handle: HttpHandler;
  /** May outlive `write_timeout`. */
  readonly stream?: boolean;
  /** Shows or changes state: named loudly when exposed without TLS. */
  readonly revealing?: boolean;
  /** Costs as much as hundreds of checks: one is begun in each turn of the event loop, and 100 wait at most. */
  readonly costly?: boolean;
  /** `json`: requires a JSON (or absent) content type and refuses `content-encoding`. */
  readonly body?: "none" | "json";
  /** Most body bytes; beyond it 413. Default 1 MiB. */
  readonly maxBody?: number;
}
