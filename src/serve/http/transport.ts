// HTTP/1.1 on Node's own server, which never listens: connections are injected. Judges a request by its
// headers, reads its body, asks its route, and sees to it that every request ends in time.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { HttpReply, Route } from "../handler.ts";
import type { Transport } from "../lifetime/transport.ts";
import type { HttpSettings, PortLog, ServerMeter } from "../settings.ts";
import { hasBody, judgeBody, readBody } from "./body.ts";
import { HttpCall, ReceivedRequest, readTarget } from "./call.ts";
import { faultReply, linger, refuseRaw, sendReply } from "./reply.ts";
import { type Found, Router } from "./router.ts";
import { readTimeout } from "./timeout.ts";

/**
 * More are refused (431), not dropped. Node reads twice as many before it drops any. Their size is
 * max_header_bytes' business.
 */
const MAX_HEADERS = 1_000;
const DEFAULT_MAX_HEADER_BYTES = 1024 * 1024;
/** How late a slow sender may be noticed, at most. */
const CHECK_EVERY_MS = 1_000;

export interface HttpParts {
  readonly routes: readonly Route[];
  readonly settings: HttpSettings;
  readonly clock: Clock;
  readonly log: PortLog;
  readonly meter: ServerMeter | undefined;
}

export function httpTransport(parts: HttpParts): Transport {
  return new HttpTransport(parts);
}

class HttpTransport implements Transport {
  readonly #router: Router;
  readonly #settings: HttpSettings;
  readonly #clock: Clock;
  readonly #log: PortLog;
  readonly #meter: ServerMeter | undefined;
  readonly #server: Server;
  /** The newest exchange of each connection. */
  readonly #newest = new WeakMap<object, Exchange>();
  #leaving = false;
  #draining = false;

  constructor({ routes, settings, clock, log, meter }: HttpParts) {
    this.#router = new Router(routes);
    this.#settings = settings;
    this.#clock = clock;
    this.#log = log;
    this.#meter = meter;
    this.#server = createServer(serverOptions(settings));
    this.#server.on("request", (request, response) => this.#answer(request, response, false));
    this.#server.on("checkContinue", (request, response) => this.#answer(request, response, true));
    this.#server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
      const refuse = () => refuseRaw(socket as Socket, error.code ?? "");
      const newest = this.#newest.get(socket);
      if (!socket.writable) socket.destroy();
      // A refusal may not run into the reply to an earlier request of the connection, nor take its place.
      else if (newest !== undefined && answerPending(newest))
        newest.response.once("finish", refuse);
      else refuse();
    });
    // Without it a server that does not listen enforces none of its timeouts.
    this.#server.emit("listening");
  }

  inject(socket: Socket): void {
    this.#server.emit("connection", socket);
  }

  leave(): void {
    this.#leaving = true;
  }

  drain(): void {
    this.#leaving = true;
    this.#draining = true;
    this.#server.closeIdleConnections();
  }

  cut(): void {
    // It never listened, so all that this ends is the timer that checks for slow senders.
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #answer(request: IncomingMessage, response: ServerResponse, expects100: boolean): void {
    const started = this.#clock.now();
    let found: Found | undefined;
    this.#newest.set(request.socket, { request, response });
    if (this.#meter !== undefined) {
      response.once("close", () => {
        const status = response.headersSent ? response.statusCode : 0;
        const ms = this.#clock.now() - started;
        this.#meter?.httpRequest(request.method ?? "", status, found?.route.path ?? "", ms);
      });
    }
    const fail = (thrown: unknown) => this.#fail(thrown, request, response, found);
    try {
      if (this.#draining) throw new Fault("UNAVAILABLE", "shutting down");
      if (request.rawHeaders.length > 2 * MAX_HEADERS) throw tooManyHeaders();
      const target = readTarget(request.url ?? "");
      const route = this.#router.find(request.method ?? "", target.path);
      found = route;
      const deadline = started + readTimeout(request.headers["grpc-timeout"]);
      const run = (body: Uint8Array) => {
        const call = new HttpCall(route, deadline, request, response);
        const received = new ReceivedRequest(request, target, route, body);
        this.#run(route.route, received, call, response, fail);
      };
      const takesBody = (route.route.body ?? bodyOf(route.route)) !== "none";
      if (!takesBody) {
        run(NO_BODY);
        return;
      }
      judgeBody(request, route.route);
      if (expects100) response.writeContinue();
      if (hasBody(request)) readBody(request, route.route, run, fail);
      else run(NO_BODY);
    } catch (thrown) {
      fail(thrown);
    }
  }

  #run(
    route: Route,
    received: ReceivedRequest,
    call: HttpCall,
    response: ServerResponse,
    fail: (thrown: unknown) => void,
  ): void {
    const now = this.#clock.now();
    const late = () => {
      fail(new Fault("DEADLINE_EXCEEDED", "the deadline passed before the reply"));
      call.expire();
    };
    if (call.deadline <= now) {
      late();
      return;
    }
    const finish = (reply: HttpReply) => {
      if (response.headersSent || response.destroyed) return;
      this.#judgeKeepAlive(response);
      sendReply(response, reply, call.replies);
      if (!flushed(response)) this.#limitWriting(route, response);
    };
    let reply: HttpReply | Promise<HttpReply>;
    try {
      reply = route.handle(received, call);
    } catch (thrown) {
      fail(thrown);
      return;
    }
    if (!(reply instanceof Promise)) {
      try {
        finish(reply);
      } catch (thrown) {
        fail(thrown);
      }
      return;
    }
    this.#limitWriting(route, response, fail);
    if (call.deadline !== Number.POSITIVE_INFINITY) {
      const forget = this.#clock.alarm(call.deadline - now, late);
      response.once("close", forget);
    }
    reply.then(finish).catch(fail);
  }

  /** Asked when the reply leaves: a drain may have begun since the request came. */
  #judgeKeepAlive(response: ServerResponse): void {
    if (this.#leaving || this.#settings.disable_http_keep_alives) response.shouldKeepAlive = false;
  }

  /** `write_timeout`: a reply that is not out by then is answered 503 or, when it has begun, cut. */
  #limitWriting(route: Route, response: ServerResponse, fail?: (thrown: unknown) => void): void {
    const { write_timeout } = this.#settings;
    if (route.stream === true || write_timeout <= 0) return;
    const forget = this.#clock.alarm(write_timeout, () => {
      if (response.headersSent || fail === undefined) response.destroy();
      else fail(new Fault("UNAVAILABLE", "the reply took longer than this server allows"));
    });
    response.once("close", forget);
  }

  #fail(
    thrown: unknown,
    request: IncomingMessage,
    response: ServerResponse,
    found: Found | undefined,
  ): void {
    const fault = Fault.from(thrown);
    if (fault.code === "INTERNAL") {
      const route = found?.route.path ?? "";
      this.#log.error("request failed", { route, error: fault.cause ?? fault });
    }
    if (response.headersSent || response.destroyed) return;
    this.#judgeKeepAlive(response);
    if (hasBody(request) && !request.complete) {
      response.shouldKeepAlive = false;
      linger(request.socket, this.#clock);
    }
    sendReply(response, faultReply(fault), undefined);
    if (!flushed(response) && found !== undefined) this.#limitWriting(found.route, response);
  }
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

function answerPending(newest: Exchange): boolean {
  if (newest.response.writableFinished) return false;
  return newest.response.headersSent || newest.request.complete;
}

const NO_BODY = new Uint8Array(0);

function bodyOf(route: Route): "none" | "raw" {
  return route.method === "GET" || route.method === "DELETE" ? "none" : "raw";
}

function tooManyHeaders(): Fault {
  return new Fault("RESOURCE_EXHAUSTED", `at most ${MAX_HEADERS} headers`, { http: 431 });
}

/** Has the system taken every byte of the reply? */
function flushed(response: ServerResponse): boolean {
  return response.socket !== null && response.socket.writableLength === 0;
}

function serverOptions(settings: HttpSettings) {
  // Node takes whole milliseconds only.
  const whole = Math.ceil(settings.read_timeout);
  const head = settings.read_header_timeout === 0 ? whole : Math.ceil(settings.read_header_timeout);
  const headers = whole === 0 ? head : Math.min(head, whole);
  const shortest = Math.min(...[headers, whole].filter((ms) => ms > 0), CHECK_EVERY_MS * 4);
  return {
    maxHeaderSize: settings.max_header_bytes || DEFAULT_MAX_HEADER_BYTES,
    headersTimeout: headers,
    requestTimeout: whole,
    keepAliveTimeout: Math.ceil(settings.idle_timeout),
    keepAliveTimeoutBuffer: 0,
    connectionsCheckingInterval: Math.max(20, Math.ceil(shortest / 4)),
    noDelay: true,
  };
}
