// An exchange over HTTP/1.1, carried by Node's own server.

import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { Fault } from "#base/fault.ts";
import { hostLike } from "../h2/head.ts";
import { MAX_FIELDS, MAX_STREAMS } from "../h2/limits.ts";
import type { HttpRequest } from "../handler.ts";
import { plainAddress } from "../listen/address.ts";
import { HttpExchange, type Surroundings, tooManyHeaders } from "./exchange.ts";
import { linger } from "./reply.ts";

/** The requests of one connection. */
export interface Pipeline {
  newest: Http1Exchange | undefined;
  /** Handlers at work. */
  working: number;
  /** A refusal of what is no request stands at its end. */
  refused: boolean;
  /** Those that are not over: their replies leave one after the other. */
  readonly open: Set<Http1Exchange>;
}

export class Http1Exchange extends HttpExchange {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #expects100: boolean;
  readonly #pipeline: Pipeline;
  /** Bytes that had come on the connection with the end of the request. */
  #heard: number;
  #watched = false;

  constructor(
    around: Surroundings,
    pipeline: Pipeline,
    request: IncomingMessage,
    response: ServerResponse,
    expects100: boolean,
  ) {
    super(around);
    this.#request = request;
    this.#response = response;
    this.#expects100 = expects100;
    this.#pipeline = pipeline;
    pipeline.newest = this;
    pipeline.open.add(this);
    this.#heard = request.socket.bytesRead;
    // Behind a request to go on in another protocol, which we never do, Node's server drops what it has read already:
    // where the next request would begin is not known.
    if (request.headers.upgrade !== undefined) response.shouldKeepAlive = false;
    this.begin();
  }

  get httpMethod(): string {
    return this.#request.method ?? "";
  }

  get headers(): HttpRequest["headers"] {
    return this.#request.headers;
  }

  get peer(): string {
    return plainAddress(this.#request.socket.remoteAddress ?? "");
  }

  protected get requestTarget(): string {
    return this.#request.url ?? "";
  }

  /** Node reads what is left by itself. */
  protected get unfinished(): boolean {
    return false;
  }

  protected override get answered(): boolean {
    return super.answered || this.#response.destroyed;
  }

  /** The request is here whole: what goes wrong on its connection is no more about it. */
  get whole(): boolean {
    return this.#request.complete;
  }

  /** Its reply, sent or to come, says that nothing follows it on the connection (RFC 9112 §9.6). */
  get last(): boolean {
    const { shouldKeepAlive, headersSent } = this.#response;
    return !shouldKeepAlive && (headersSent || this.#request.complete);
  }

  /** Ends the connection: with the reply where one is still to come or on its way, else unless more has come. */
  close(): void {
    const { socket } = this.#request;
    const response = this.#response;
    if (!response.writableFinished) response.once("finish", () => socket.destroySoon());
    else if (socket.bytesRead === this.#heard) socket.destroy();
  }

  /** Does `then` when the reply is out, where one is still to come or on its way; else at once. */
  afterReply(then: () => void): void {
    const request = this.#request;
    const response = this.#response;
    const pending = !response.writableFinished && (response.headersSent || request.complete);
    if (pending) response.once("finish", then);
    else then();
  }

  /** Nobody is there any more who could be told anything. */
  abandon(): void {
    this.#response.destroy();
    this.ended(false);
  }

  protected override ended(whole: boolean): void {
    super.ended(whole);
    this.#pipeline.open.delete(this);
  }

  protected judgeHead(): void {
    if (this.around.draining) throw new Fault("UNAVAILABLE", "shutting down");
    if (this.#pipeline.working >= MAX_STREAMS) {
      throw this.#last(new Fault("RESOURCE_EXHAUSTED", "too many requests at once", { http: 503 }));
    }
    const { httpVersion, rawHeaders } = this.#request;
    if (!VERSIONS.has(httpVersion)) {
      const spoken = "HTTP/1.0 and HTTP/1.1 are spoken here";
      throw this.#last(new Fault("INVALID_ARGUMENT", spoken, { http: 505 }));
    }
    // More are refused, not dropped. Their size is max_header_bytes' business.
    if (rawHeaders.length > 2 * MAX_FIELDS) throw tooManyHeaders();
    // RFC 9112 §3.2: which server is meant must be no question.
    const hosts = timesNamed(rawHeaders, "host");
    const { host = "" } = this.#request.headers;
    if (hosts === 0 ? httpVersion === "1.0" : hosts === 1 && hostLike(host)) return;
    const wanted = "a request must have one host header, without blanks";
    throw this.#last(new Fault("INVALID_ARGUMENT", wanted));
  }

  /** A refusal that ends the connection. */
  #last(fault: Fault): Fault {
    this.#response.shouldKeepAlive = false;
    return fault;
  }

  protected collect(): void {
    if (this.#expects100) this.#response.writeContinue();
    if (!hasBody(this.#request)) {
      this.complete();
      return;
    }
    this.#request.on("data", (chunk: Buffer) => this.part(chunk, 0, chunk.length, true));
    this.#request.on("end", () => {
      this.#heard = this.#request.socket.bytesRead;
      this.complete();
    });
    // The caller left. Told so, it costs no listener for the end of the response.
    this.#request.on("error", () => this.ended(false));
  }

  protected transmit(
    status: number,
    fields: readonly string[],
    body: Uint8Array | string,
  ): boolean {
    const { around } = this;
    const response = this.#response;
    // Asked when the reply leaves: a drain may have begun since the request came.
    if (around.leaving || around.settings.disable_http_keep_alives)
      response.shouldKeepAlive = false;
    // The reason, too: what stands there may be of a reply that could not be sent.
    response.writeHead(status, STATUS_CODES[status] ?? "", fields as string[]);
    response.end(body);
    if (response.socket !== null && response.socket.writableLength === 0) return true;
    this.#await();
    return false;
  }

  protected refuseRest(): void {
    const request = this.#request;
    if (!hasBody(request) || request.complete) return;
    this.#response.shouldKeepAlive = false;
    linger(request.socket, this.around.clock);
  }

  protected cut(): void {
    this.#response.destroy();
  }

  protected waits(reply: Promise<unknown>): void {
    const pipeline = this.#pipeline;
    pipeline.working++;
    const rest = () => {
      pipeline.working--;
    };
    reply.then(rest, rest);
    this.#await();
  }

  #await(): void {
    this.#watch();
  }

  #watch(): void {
    if (this.#watched) return;
    this.#watched = true;
    const response = this.#response;
    response.once("close", () => this.ended(response.writableFinished));
  }
}

const VERSIONS: ReadonlySet<string> = new Set(["1.0", "1.1"]);

/** How many of the fields, names and values in turn, have that name. */
function timesNamed(fields: readonly string[], name: string): number {
  let times = 0;
  for (let at = 0; at < fields.length; at += 2) {
    const field = fields[at] ?? "";
    if (field.length === name.length && field.toLowerCase() === name) times++;
  }
  return times;
}

/** Does the message announce any body? */
function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0");
}
