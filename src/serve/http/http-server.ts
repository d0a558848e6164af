// The HTTP server: one table of routes, served over HTTP/1.1 (the fast path, or Node's server, which never listens:
// connections are injected) and over the HTTP/2 streams that are not gRPC.

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Route } from "#base/handler.ts";
import { REFUSALS, type Refusal } from "#base/http/refusal.ts";
import type { RequestHandler, RequestHead } from "#h2/exchange.ts";
import { type ReadScheduler, WORK_OF_JSON_REQUEST } from "#h2/read-scheduler.ts";
import { createServer } from "#runtime/life/node-http.ts";
import type { HttpSettings } from "../settings.ts";
import type { Transport, TransportContext } from "../transport.ts";
import type { HttpContext } from "./context.ts";
import { CostlyQueue } from "./costly-queue.ts";
import { Http1Exchange, type Pipeline } from "./http1/exchange.ts";
import { FastPath } from "./http1/fast-path.ts";
import { HeadStart } from "./http1/head-start.ts";
import { PacedParser } from "./http1/paced-parser.ts";
import { SharedReplyMemory } from "./http1/reply-confirmation.ts";
import { answerUnparsed, type ParserError } from "./http1/unparsed-exchange.ts";
import { http2RequestHandler } from "./http2/exchange.ts";
import { refuseRaw } from "./reply.ts";
import { readTarget } from "./request.ts";
import { Router } from "./router.ts";

const DEFAULT_MAX_HEADER_BYTES = 1024 * 1024;
/** Interval of checks for slow senders: one is noticed at most this late. */
const CHECK_EVERY_MS = 1_000;

interface HttpServerOptions extends TransportContext {
  readonly routes: readonly Route[];
  readonly settings: HttpSettings;
  readonly scheduler: ReadScheduler;
}

/** Takes HTTP/1.1 connections, and single requests that arrive over HTTP/2. */
export class HttpServer implements Transport {
  readonly handleRequest: RequestHandler;
  /** True if there is a reply to a request with this method and path even if it is malformed. */
  readonly repliesUnread: (head: Pick<RequestHead, "method" | "path">) => boolean;
  readonly #context: HttpContext;
  readonly #server: Server;
  readonly #fastPath: FastPath;
  /** On Node's server. */
  readonly #pipelines = new Map<Socket, Pipeline>();

  constructor({ routes, settings, scheduler, clock, log, meter }: HttpServerOptions) {
    this.#context = {
      router: new Router(routes),
      settings,
      maxBody: settings.max_body_bytes,
      scheduler,
      clock,
      log,
      meter,
      closeAfterReply: false,
      draining: false,
      costlyQueue: new CostlyQueue(),
      unsentBytes: 0,
      replyMemory: new SharedReplyMemory(),
    };
    this.handleRequest = http2RequestHandler(this.#context);
    this.repliesUnread = ({ method, path }) =>
      this.#context.router.repliesUnread(method, readTarget(path).path);
    this.#server = createServer(serverOptions(settings));
    // Beyond its own bound Node refuses a request itself, whatever its route. Below it, the exchange does.
    this.#server.maxHeadersCount = Math.max(settings.max_headers + 1, MAX_PARSED_HEADERS);
    this.#server.on("request", (request, response) => this.#answer(request, response, false));
    this.#server.on("checkContinue", (request, response) => this.#answer(request, response, true));
    // Other expectations may be ignored (RFC 9110 §10.1.1).
    this.#server.on("checkExpectation", (request, response) =>
      this.#answer(request, response, false),
    );
    this.#server.on("clientError", (error: ParserError, socket: Socket) => {
      if (socket.writable) this.#refuse(socket, error);
      else socket.destroy();
    });
    this.#server.on("connect", ({ socket }: IncomingMessage) => {
      // Node has detached the socket: nothing reads from it, and nothing would end the replies that wait on it if its
      // caller left. No honest caller asks for a tunnel before it has received them.
      socket.removeAllListeners("data");
      socket.on("error", () => socket.destroy());
      const open = [...(this.#pipelines.get(socket)?.open ?? [])];
      if (open.length === 0) this.#refuse(socket, { code: "CONNECT" });
      for (const each of open) each.abandon();
    });
    this.#fastPath = new FastPath(this.#context, maxHeadBytes(settings), (socket, rest) => {
      // The fast path has waited for its turn.
      this.#handToNode(socket)(rest);
    });
    // Without this event a server that does not listen enforces none of its timeouts.
    this.#server.emit("listening");
  }

  accept(socket: Socket): void {
    // Node's server announces that it closes a connection, and closes it.
    if (this.#context.settings.disable_http_keep_alives) this.#handToNode(socket);
    else this.#fastPath.accept(socket);
  }

  hasCalled(socket: Socket): boolean {
    return socket.bytesWritten > 0;
  }

  closeIdle(socket: Socket): boolean {
    const pipeline = this.#pipelines.get(socket);
    if (pipeline === undefined) return this.#fastPath.closeIfIdle(socket);
    const { newest, headStart } = pipeline;
    if (newest !== undefined) return newest.closeIfIdle();
    // Without any request, an incomplete header section is no call.
    if (headStart.begun) socket.destroy();
    return headStart.begun;
  }

  beginDrain(): void {
    this.#context.closeAfterReply = true;
  }

  drain(): void {
    this.#context.closeAfterReply = true;
    this.#context.draining = true;
    this.#fastPath.closeIdle();
    // Node's own method treats a connection as idle while its reply is being sent. A connection without a complete
    // request has begun one.
    for (const { newest } of [...this.#pipelines.values()]) newest?.close();
  }

  cut(): void {
    // The server never listened: this only stops the timer that checks for slow senders.
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** Hands a connection to Node's server. Returns the function that parses its bytes. */
  #handToNode(socket: Socket): (chunk: Buffer) => void {
    const others = socket.listeners("end");
    this.#server.emit("connection", socket);
    const nodeParses = socket.listeners("data") as ((chunk: Buffer) => void)[];
    const nodeEnds = socket.listeners("end").filter((each) => !others.includes(each));
    for (const each of nodeParses) socket.off("data", each);
    for (const each of nodeEnds) socket.off("end", each as () => void);
    const parse = (chunk: Buffer) => {
      followHead(pipeline, chunk);
      for (const each of nodeParses) each.call(socket, chunk);
    };
    const end = () => {
      for (const each of nodeEnds) each.call(socket);
    };
    const parser = new PacedParser(socket, this.#context.scheduler, { parse, end });
    const pipeline: Pipeline = {
      newest: undefined,
      headStart: new HeadStart(),
      parser,
      open: new Set(),
      running: 0,
      refused: false,
      replyConfirmation: undefined,
    };
    this.#pipelines.set(socket, pipeline);
    socket.once("close", () => this.#pipelines.delete(socket));
    return (chunk) => parser.parse(chunk);
  }

  /** Replies to something that is not a valid request, and closes the connection. */
  #refuse(socket: Socket, error: ParserError): void {
    const pipeline = this.#pipelines.get(socket);
    if (pipeline === undefined || pipeline.refused) return;
    pipeline.refused = true;
    const { newest } = pipeline;
    const { code = "" } = error;
    const refuse = () => {
      const refusal = refusalFor(code);
      if (refusal !== undefined && newest?.refuseBrokenBody(refusal) === true) return;
      // A drain may have made that reply the last one meanwhile.
      if (newest?.closesConnection === true || !socket.writable) return;
      if (answerUnparsed(this.#context, socket, pipeline.headStart, error)) return;
      const status = refuseRaw(socket, code);
      // A request that failed within its body is counted by its own exchange.
      if (newest?.requestComplete ?? true) this.#context.meter?.httpRequest("", status, "", 0);
    };
    // A refusal must not overtake or break into the reply to an earlier request of the connection.
    if (newest === undefined) refuse();
    else newest.afterReply(refuse);
  }

  #answer(request: IncomingMessage, response: ServerResponse, expects100: boolean): void {
    const pipeline = this.#pipelines.get(request.socket);
    // Bytes after the last request are not a request (RFC 9112 §9.6) and are ignored.
    if (pipeline === undefined || pipeline.newest?.closesConnection === true) {
      discardInput(request.socket);
      return;
    }
    pipeline.headStart.clear();
    this.#context.scheduler.spend(WORK_OF_JSON_REQUEST);
    new Http1Exchange(this.#context, pipeline, request, response, expects100);
  }
}

/**
 * Header fields that are parsed, so that a check with too many of them gets a decision instead of an error. Gateways
 * forward at most 32 KiB of headers by default, four bytes each or more.
 */
const MAX_PARSED_HEADERS = 10_000;

/** The refusal for a body on which Node's parser gave up; undefined for other errors. */
function refusalFor(code: string): Refusal | undefined {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return REFUSALS.lateBody;
  return code.startsWith("HPE_") ? REFUSALS.framing : undefined;
}

/** Keeps the start of each request while its header section is incomplete. */
function followHead({ newest, headStart }: Pipeline, chunk: Buffer): void {
  if (newest === undefined || newest.requestComplete) headStart.add(chunk);
}

/** Discards further bytes: otherwise requests that are never answered would pile up. */
function discardInput(socket: Socket): void {
  socket.removeAllListeners("data");
  socket.on("data", () => undefined);
}

function maxHeadBytes({ max_header_bytes }: HttpSettings): number {
  return max_header_bytes || DEFAULT_MAX_HEADER_BYTES;
}

function serverOptions(settings: HttpSettings) {
  // Node only takes whole milliseconds.
  const whole = Math.ceil(settings.read_timeout);
  const head = settings.read_header_timeout === 0 ? whole : Math.ceil(settings.read_header_timeout);
  const headers = whole === 0 ? head : Math.min(head, whole);
  const shortest = Math.min(...[headers, whole].filter((ms) => ms > 0), CHECK_EVERY_MS * 4);
  return {
    maxHeaderSize: maxHeadBytes(settings),
    headersTimeout: headers,
    requestTimeout: whole,
    keepAliveTimeout: Math.ceil(settings.idle_timeout),
    keepAliveTimeoutBuffer: 0,
    connectionsCheckingInterval: Math.max(20, Math.ceil(shortest / 4)),
    noDelay: true,
    // We validate it: requests that Node refuses would not be counted.
    requireHostHeader: false,
  };
}
