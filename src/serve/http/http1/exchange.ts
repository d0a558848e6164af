// An exchange over HTTP/1.1 on Node's server.

import type { IncomingMessage, ServerResponse } from "node:http";
import { Fault } from "#base/fault.ts";
import type { Held, HttpRequest } from "#base/handler.ts";
import { isHost } from "#base/http/host.ts";
import { REFUSALS, type Refusal } from "#base/http/refusal.ts";
import { canonicalAddress } from "#base/net/ip-address.ts";
import { MAX_CONCURRENT_CALLS } from "#h2/limits.ts";
import { STATUS_CODES } from "#runtime/life/node-http.ts";
import type { HttpContext } from "../context.ts";
import { HttpExchange } from "../exchange.ts";
import { linger } from "../reply.ts";
import type { HeadStart } from "./head-start.ts";
import type { PacedParser } from "./paced-parser.ts";
import { ReplyConfirmation } from "./reply-confirmation.ts";

/** The requests of one connection. */
export interface Pipeline {
  newest: Http1Exchange | undefined;
  readonly headStart: HeadStart;
  readonly parser: PacedParser;
  /** Running handlers. */
  running: number;
  /** An invalid request has been refused at the end. */
  refused: boolean;
  /** Unfinished requests. Their replies are sent in order. */
  readonly open: Set<Http1Exchange>;
  /** Created with the first reply that holds a slot. */
  replyConfirmation: ReplyConfirmation | undefined;
}

export class Http1Exchange extends HttpExchange {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #expects100: boolean;
  readonly #pipeline: Pipeline;
  /** Bytes of the connection that were parsed up to the end of the request. */
  #parsedAtEnd: number;
  #awaitingClose = false;
  #headRefusal: Refusal | undefined;

  constructor(
    context: HttpContext,
    pipeline: Pipeline,
    request: IncomingMessage,
    response: ServerResponse,
    expects100: boolean,
  ) {
    super(context);
    this.#request = request;
    this.#response = response;
    this.#expects100 = expects100;
    this.#pipeline = pipeline;
    pipeline.newest = this;
    pipeline.open.add(this);
    pipeline.replyConfirmation?.requestArrived();
    this.#parsedAtEnd = this.#bytesParsed;
    // Node's server discards the rest of a read after a request to upgrade, which we never do: the start of the next
    // request is unknown.
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
    return canonicalAddress(this.#request.socket.remoteAddress ?? "");
  }

  protected get requestTarget(): string {
    return this.#request.url ?? "";
  }

  protected override get answered(): boolean {
    return super.answered || this.#response.destroyed;
  }

  /** Later errors of the connection do not concern a complete request. */
  get requestComplete(): boolean {
    return this.#request.complete;
  }

  /** The reply says, or will say, that nothing follows it on the connection (RFC 9112 §9.6). */
  get closesConnection(): boolean {
    const { shouldKeepAlive, headersSent } = this.#response;
    return !shouldKeepAlive && (headersSent || this.#request.complete);
  }

  /**
   * Closes the connection, after the reply if one is due or being sent. Without a reply, it stays open if more has
   * arrived.
   */
  close(): void {
    const { socket } = this.#request;
    const response = this.#response;
    if (!response.writableFinished) response.once("finish", () => socket.destroySoon());
    else this.closeIfIdle();
  }

  /** Closes the connection if the reply has been sent and nothing has arrived since. Returns whether it did. */
  closeIfIdle(): boolean {
    const { socket } = this.#request;
    const idle = this.#response.writableFinished && socket.bytesRead === this.#parsedAtEnd;
    if (idle) socket.destroy();
    return idle;
  }

  get #bytesParsed(): number {
    return this.#request.socket.bytesRead - this.#pipeline.parser.heldBytes;
  }

  /** Calls `then` after the reply if one is due or being sent, otherwise at once. */
  afterReply(then: () => void): void {
    const request = this.#request;
    const response = this.#response;
    const pending = !response.writableFinished && (response.headersSent || request.complete);
    if (pending) response.once("finish", then);
    else then();
  }

  /** Gives up the exchange: its caller is gone. */
  abandon(): void {
    this.#response.destroy();
    this.finished(false);
  }

  protected override finished(whole: boolean): void {
    super.finished(whole);
    this.#pipeline.open.delete(this);
  }

  protected override validateHead(): void {
    if (this.context.draining) throw new Fault("UNAVAILABLE", "shutting down");
    if (this.#pipeline.running >= MAX_CONCURRENT_CALLS) {
      throw this.#closing(
        new Fault("RESOURCE_EXHAUSTED", "too many requests at once", { http: 503 }),
      );
    }
    const { httpVersion, rawHeaders } = this.#request;
    if (!VERSIONS.has(httpVersion)) {
      const spoken = "this server speaks HTTP/1.0 and HTTP/1.1";
      throw this.#closing(new Fault("INVALID_ARGUMENT", spoken, { http: 505 }));
    }
    if (rawHeaders.length > 2 * this.context.settings.max_headers) {
      // The host may be one of those that are lost.
      this.#headRefusal = REFUSALS.headTooLarge;
      return;
    }
    // RFC 9112 §3.2: a request must name exactly one host.
    const hosts = countNamed(rawHeaders, "host");
    if (hosts === 0 && httpVersion !== "1.0") throw this.#closing(badHost());
    if (hosts <= 1) return;
    // A gateway that forwards headers may have added a host of its client to its own.
    this.#headRefusal = REFUSALS.malformedHead;
    this.#response.shouldKeepAlive = false;
  }

  protected override get headRefusal(): Refusal | undefined {
    return this.#headRefusal;
  }

  protected override headFault(refusal: Refusal): Fault {
    return refusal === REFUSALS.malformedHead ? badHost() : super.headFault(refusal);
  }

  protected override validateHost(): void {
    if (!isHost(this.header("host") ?? "")) throw this.#closing(badHost());
  }

  /** Makes a refusal close the connection. */
  #closing(fault: Fault): Fault {
    this.#response.shouldKeepAlive = false;
    return fault;
  }

  protected receiveBody(): void {
    if (this.#expects100) this.#response.writeContinue();
    if (!hasBody(this.#request)) {
      this.completeBody();
      return;
    }
    this.#request.on("data", (chunk: Buffer) => this.addBodyPart(chunk, 0, chunk.length, true));
    this.#request.on("end", () => {
      this.#parsedAtEnd = this.#bytesParsed;
      this.completeBody();
    });
    // The caller left. This event spares a listener for the end of the response.
    this.#request.on("error", () => this.finished(false));
  }

  protected sendReply(
    status: number,
    fields: readonly string[],
    body: Uint8Array | string,
  ): boolean {
    const { context } = this;
    const response = this.#response;
    // Checked when the reply is sent: a drain may have started since the request arrived.
    if (context.closeAfterReply || context.settings.disable_http_keep_alives)
      response.shouldKeepAlive = false;
    // With the reason phrase, since the response may still have that of an invalid reply.
    response.writeHead(status, STATUS_CODES[status] ?? "", fields as string[]);
    response.end(body);
    if (response.socket !== null && response.socket.writableLength === 0) return true;
    this.#awaitClose();
    return false;
  }

  protected releaseUnlessTaken(held: Held): void {
    const pipeline = this.#pipeline;
    pipeline.replyConfirmation ??= new ReplyConfirmation(this.#request.socket, this.context);
    pipeline.replyConfirmation.add(held);
  }

  protected override discardRest(): void {
    const request = this.#request;
    if (!hasBody(request) || request.complete) return;
    this.#response.shouldKeepAlive = false;
    linger(request.socket, this.context.clock);
  }

  protected abortReply(): void {
    this.#response.destroy();
  }

  protected override handlerPending(reply: Promise<unknown>): void {
    const pipeline = this.#pipeline;
    pipeline.running++;
    const handlerDone = () => {
      pipeline.running--;
    };
    reply.then(handlerDone, handlerDone);
    this.#awaitClose();
  }

  #awaitClose(): void {
    if (this.#awaitingClose) return;
    this.#awaitingClose = true;
    const response = this.#response;
    response.once("close", () => this.finished(response.writableFinished));
  }
}

function badHost(): Fault {
  const wanted = "a request must have exactly one host header without blanks";
  return new Fault("INVALID_ARGUMENT", wanted);
}

const VERSIONS: ReadonlySet<string> = new Set(["1.0", "1.1"]);

/** Number of fields of that name; `fields` alternates names and values. */
function countNamed(fields: readonly string[], name: string): number {
  let times = 0;
  for (let at = 0; at < fields.length; at += 2) {
    const field = fields[at] ?? "";
    if (field.length === name.length && field.toLowerCase() === name) times++;
  }
  return times;
}

/** True if the message announces a body. */
function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0");
}
