// The HTTP door: one table of routes, answered over HTTP/1.1 on Node's own server, which never listens
// (connections are injected), and over streams of the own HTTP/2 that are not gRPC.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "#base/clock.ts";
import type { Answerer } from "../h2/exchange.ts";
import type { Route } from "../handler.ts";
import type { Transport } from "../lifetime/transport.ts";
import type { HttpSettings, PortLog, ServerMeter } from "../settings.ts";
import type { Surroundings } from "./exchange.ts";
import { Http1Exchange, type Pipeline } from "./http1.ts";
import { answererOf } from "./http2.ts";
import { PlainLane } from "./plain.ts";
import { refuseRaw } from "./reply.ts";
import { Router } from "./router.ts";
import { Turns } from "./turns.ts";

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

/** Takes connections of HTTP/1.1, and single requests that came over HTTP/2. */
export interface HttpTransport extends Transport {
  readonly answerer: Answerer;
}

export function httpTransport(parts: HttpParts): HttpTransport {
  return new NodeTransport(parts);
}

class NodeTransport implements HttpTransport {
  readonly answerer: Answerer;
  readonly #around: Surroundings;
  readonly #server: Server;
  readonly #plain: PlainLane;
  /** Connections that are Node's. */
  readonly #given = new Map<Socket, Pipeline>();

  constructor({ routes, settings, clock, log, meter }: HttpParts) {
    const router = new Router(routes);
    this.#around = {
      ...{ router, settings, clock, log, meter },
      ...{ leaving: false, draining: false, turns: new Turns(), unsent: 0 },
    };
    this.answerer = answererOf(this.#around);
    this.#server = createServer(serverOptions(settings));
    this.#server.on("request", (request, response) => this.#answer(request, response, false));
    this.#server.on("checkContinue", (request, response) => this.#answer(request, response, true));
    // What else is expected of us may be ignored (RFC 9110 §10.1.1).
    this.#server.on("checkExpectation", (request, response) =>
      this.#answer(request, response, false),
    );
    this.#server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
      if (socket.writable) this.#refuse(socket, error.code ?? "");
      else socket.destroy();
    });
    this.#server.on("connect", ({ socket }: IncomingMessage) => {
      // It is no more Node's: nobody reads from it, nor would anybody end the replies that wait on it if its caller
      // left. No honest one asks for a tunnel before it has them.
      socket.on("error", () => socket.destroy());
      const open = [...(this.#given.get(socket)?.open ?? [])];
      if (open.length === 0) this.#refuse(socket, "CONNECT");
      for (const each of open) each.abandon();
    });
    this.#plain = new PlainLane(this.#around, mostHead(settings), (socket, rest) => {
      this.#give(socket);
      socket.emit("data", rest);
    });
    // Without it a server that does not listen enforces none of its timeouts.
    this.#server.emit("listening");
  }

  inject(socket: Socket): void {
    // Node's server says when it closes a connection, and that it does.
    if (this.#around.settings.disable_http_keep_alives) this.#give(socket);
    else this.#plain.enter(socket);
  }

  leave(): void {
    this.#around.leaving = true;
  }

  drain(): void {
    this.#around.leaving = true;
    this.#around.draining = true;
    this.#plain.closeIdle();
    // Node's own way takes a connection for idle whose reply is still on its way. One without request has begun one.
    for (const { newest } of [...this.#given.values()]) newest?.close();
  }

  cut(): void {
    // It never listened, so all that this ends is the timer that checks for slow senders.
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** To Node's server. */
  #give(socket: Socket): void {
    const pipeline = {
      newest: undefined,
      open: new Set<Http1Exchange>(),
      working: 0,
      refused: false,
    };
    this.#given.set(socket, pipeline);
    socket.once("close", () => this.#given.delete(socket));
    this.#server.emit("connection", socket);
  }

  /** Ends a connection with a reply to what is no request for us. */
  #refuse(socket: Socket, reason: string): void {
    const pipeline = this.#given.get(socket);
    if (pipeline === undefined || pipeline.refused) return;
    pipeline.refused = true;
    const { newest } = pipeline;
    const refuse = () => {
      // A drain may have made it the last one meanwhile.
      if (newest?.last === true || !socket.writable) return;
      const status = refuseRaw(socket, reason);
      // A request that broke off in its body counts by itself.
      if (newest?.whole ?? true) this.#around.meter?.httpRequest("", status, "", 0);
    };
    // A refusal may not run into the reply to an earlier request of the connection, nor take its place.
    if (newest === undefined) refuse();
    else newest.afterReply(refuse);
  }

  #answer(request: IncomingMessage, response: ServerResponse, expects100: boolean): void {
    const pipeline = this.#given.get(request.socket);
    // What comes behind the last reply is nobody's request (RFC 9112 §9.6), least of all one to decide about.
    if (pipeline === undefined || pipeline.newest?.last === true) {
      ignore(request.socket);
      return;
    }
    new Http1Exchange(this.#around, pipeline, request, response, expects100);
  }
}

/** Takes what else comes on a connection from Node's parser: a queue would grow of what nobody answers. */
function ignore(socket: Socket): void {
  socket.removeAllListeners("data");
  socket.on("data", () => undefined);
}

function mostHead({ max_header_bytes }: HttpSettings): number {
  return max_header_bytes || DEFAULT_MAX_HEADER_BYTES;
}

function serverOptions(settings: HttpSettings) {
  // Node takes whole milliseconds only.
  const whole = Math.ceil(settings.read_timeout);
  const head = settings.read_header_timeout === 0 ? whole : Math.ceil(settings.read_header_timeout);
  const headers = whole === 0 ? head : Math.min(head, whole);
  const shortest = Math.min(...[headers, whole].filter((ms) => ms > 0), CHECK_EVERY_MS * 4);
  return {
    maxHeaderSize: mostHead(settings),
    headersTimeout: headers,
    requestTimeout: whole,
    keepAliveTimeout: Math.ceil(settings.idle_timeout),
    keepAliveTimeoutBuffer: 0,
    connectionsCheckingInterval: Math.max(20, Math.ceil(shortest / 4)),
    noDelay: true,
    // We look at it ourselves: what Node refuses nobody counts.
    requireHostHeader: false,
  };
}
