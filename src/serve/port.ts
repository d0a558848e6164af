// A port: one listener that distinguishes TLS, HTTP/1.1 and cleartext HTTP/2 and hands each connection to the server of
// its protocol.

import { createServer, type Server, type Socket } from "node:net";
import { WarningLimiter } from "#base/async/warning-limiter.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { GrpcService, Route } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import type { PreSharedKey } from "#base/net/pre-shared-key.ts";
import type { RefusedConnection, ServerMeter } from "#base/server-meter.ts";
import type { RequestHandler } from "#h2/exchange.ts";
import { Http2Server, type Http2Settings } from "#h2/http2-server.ts";
import type { ReadScheduler } from "#h2/read-scheduler.ts";
import type { Descriptors } from "#wire/protobuf/descriptors.ts";
import type { AccessControl } from "./administration.ts";
import { grpcRequestHandler } from "./grpc/request-handler.ts";
import { frontPage } from "./http/front-page.ts";
import { HttpServer } from "./http/http-server.ts";
import { ConnectionAcceptor, type OpenConnection } from "./listen/acceptor.ts";
import { isLocal, readAddress, showAddress } from "./listen/address.ts";
import { bind } from "./listen/bind.ts";
import { ConnectionSlots } from "./listen/connection-slots.ts";
import { Shutdown } from "./listen/shutdown.ts";
import { type TlsMismatch, TlsMismatches } from "./listen/tls-mismatch.ts";
import type { PortSettings } from "./settings.ts";
import { healthService } from "./standard/health.ts";
import { reflectionOf } from "./standard/reflection.ts";
import {
  openSharedKeyTerminator,
  openTlsTerminator,
  type TlsTerminator,
} from "./tls/terminator.ts";
import type { Transport } from "./transport.ts";

/**
 * Far more than a sidecar or a controller needs, and with the other files of a process below the usual limit on open
 * files.
 */
const MAX_CONNECTIONS = 10_000;

export interface PortOptions {
  readonly settings: PortSettings;
  readonly services: readonly GrpcService[];
  readonly routes: readonly Route[];
  /** Checks routes and services of administration, including those of the port itself. */
  readonly accessControl: AccessControl;
  /** One for all ports of the process. */
  readonly readScheduler: ReadScheduler;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter?: ServerMeter;
  /** Loads the descriptors of these services at the first reflection call. Required for reflection. */
  readonly descriptors?: (services: readonly GrpcService[]) => Promise<Descriptors>;
  /** In place of `settings.tls`: callers must know this key. Called for each handshake; without a key none succeeds. */
  readonly sharedKey?: () => PreSharedKey | undefined;
  /** Further connections are closed. */
  readonly maxConnections?: number;
}

export interface Port {
  /** The bound address, in the form of `listener.addr`. */
  readonly address: string;
  /** `service` is the full name of a service, or "" for the process. */
  readonly health: {
    set(service: string, serving: boolean): void;
    /** Sets the process and every service. */
    setAll(serving: boolean): void;
  };
  /** Other machines can connect. */
  readonly remote: boolean;
  /** Open connections, the oldest first. */
  connections(): readonly OpenConnection[];
  /** The last client that spoke TLS where it is off, or cleartext where TLS is on. */
  tlsMismatch(): TlsMismatch | undefined;
  /**
   * Stops in order: report NOT_SERVING, keep accepting for a while, then finish the calls in progress within the
   * grace time.
   */
  drain(): Promise<void>;
  /** Closes everything at once, even during a drain. */
  cut(): Promise<void>;
}

/** Opens the port, or throws a Fault that names the setting at fault. */
export async function openPort(options: PortOptions): Promise<Port> {
  const { settings, readScheduler: scheduler, clock, log, meter } = options;
  const binding = await readAddress(settings.listener);
  const health = healthService(options.services);
  const described = [...options.services, health.service];
  const services = [...described, ...reflection(options, described)].map(
    options.accessControl.service,
  );
  const routes = withFrontPage(options.routes, services).map(options.accessControl.route);
  const http1 = new HttpServer({ routes, settings: settings.http, scheduler, clock, log, meter });
  const http2 = await http2Transport(options, services, http1);
  const transports = [http1, http2];
  const refused = (why: RefusedConnection) => meter?.connectionRefused(why);
  const mismatches = new TlsMismatches(clock, log);
  const warnings = new WarningLimiter(clock, log);
  const acceptor = new ConnectionAcceptor({
    settings,
    clock,
    http1,
    http2,
    slots: new ConnectionSlots(options.maxConnections ?? MAX_CONNECTIONS),
    refused,
    mismatches,
    log,
  });
  const listener = listenerOf(options, acceptor, warnings);
  let tls: TlsTerminator | undefined;
  const release = () => {
    tls?.close();
    health.close();
    for (const transport of transports) transport.cut();
  };
  try {
    if (options.sharedKey !== undefined) {
      tls = openSharedKeyTerminator({
        sharedKey: options.sharedKey,
        handshakeTimeout: settings.grpc.connection_timeout,
        accept: (inner, protocol) => acceptor.acceptDecrypted(inner, protocol),
        refused: (why) => acceptor.refuseHandshake(why),
        keyNotProved: () =>
          warnings.warn(
            "refused a connection: it did not prove that it knows the shared key",
            () => ({}),
          ),
      });
    } else if (settings.tls.enabled) {
      tls = openTlsTerminator({
        settings: settings.tls,
        handshakeTimeout: settings.grpc.connection_timeout,
        clock,
        log,
        // The library carries gRPC only, and gRPC clients offer only h2: a client that also offers HTTP/1.1 wants JSON.
        preferredProtocol: settings.grpc.transport === "grpc-js" ? "http1" : "http2",
        accept: (inner, protocol) => acceptor.acceptDecrypted(inner, protocol),
        refused: (why) => acceptor.refuseHandshake(why),
        meter,
      });
    }
    if (tls !== undefined) acceptor.useTls(tls);
    await bind(listener, binding);
  } catch (thrown) {
    release();
    throw thrown;
  }
  listener.on("error", (error) => log.error({ error }, "listener failed"));
  const bound = listener.address();
  const shutdown = new Shutdown({
    listener,
    acceptor,
    health,
    services: options.services,
    transports,
    scheduler,
    release,
  });
  return {
    address: showAddress(bound),
    health,
    remote: !isLocal(bound),
    connections: () => acceptor.connections(),
    tlsMismatch: () => mismatches.last,
    drain: () => shutdown.drain(settings.drain, clock, log),
    cut: () => shutdown.cut(),
  };
}

/** Sluice's HTTP/2, which carries gRPC and JSON, or on request the gRPC library, which carries gRPC only. */
async function http2Transport(
  { settings, readScheduler: scheduler, clock, log, meter }: PortOptions,
  services: readonly GrpcService[],
  http: HttpServer,
): Promise<Transport> {
  if (settings.grpc.transport === "grpc-js") {
    // Loaded only on request: it takes time and memory.
    const { grpcJsServer } = await import("./grpc-js/grpc-js-server.ts");
    return grpcJsServer(services, settings.grpc, { clock, log, meter });
  }
  const { repliesUnread } = http;
  const grpc = grpcRequestHandler(services, settings.grpc, { clock, log, meter }, repliesUnread);
  const handleRequest: RequestHandler = (stream, head, last) =>
    (grpc.accepts(head) ? grpc.handle : http.handleRequest)(stream, head, last);
  return new Http2Server({
    handleRequest,
    repliesUnread,
    settings: http2Settings(settings),
    scheduler,
    clock,
    log,
    meter,
  });
}

/** Named one by one, because a copy of all keys would read those that have no effect on this port. */
function http2Settings({ http, grpc }: PortSettings): Http2Settings {
  const { idle_timeout, max_header_bytes, max_headers } = http;
  const { read_header_timeout, read_timeout, write_timeout } = http;
  const { max_connection_age, max_connection_age_grace } = grpc;
  return {
    idle_timeout,
    max_connection_age,
    max_connection_age_grace,
    max_header_bytes,
    max_headers,
    read_header_timeout,
    read_timeout,
    write_timeout,
  };
}

function reflection(
  { settings, descriptors }: PortOptions,
  served: readonly GrpcService[],
): readonly GrpcService[] {
  if (!settings.grpc.enable_reflection) return [];
  if (descriptors === undefined) {
    throw new Fault("INTERNAL", "grpc.enable_reflection needs descriptors");
  }
  return reflectionOf(served, descriptors);
}

function withFrontPage(
  routes: readonly Route[],
  services: readonly GrpcService[],
): readonly Route[] {
  return routes.some(({ path }) => path === "/")
    ? routes
    : [...routes, frontPage(routes, services)];
}

function listenerOf(
  { settings, readScheduler, meter, maxConnections = MAX_CONNECTIONS }: PortOptions,
  acceptor: ConnectionAcceptor,
  warnings: WarningLimiter,
): Server {
  const { keep_alive } = settings.listener;
  const listener = createServer({
    // HTTP/1.1 callers may close their sending half before they have received their replies.
    allowHalfOpen: true,
    noDelay: true,
    keepAlive: keep_alive >= 0,
    // Node keeps whole seconds, and 0 means the system's default: a short time must not become 0.
    keepAliveInitialDelay: Math.ceil(Math.max(0, keep_alive) / 1_000) * 1_000,
  });
  listener.maxConnections = maxConnections;
  listener.on("drop", () => {
    meter?.connectionRefused("too_many");
    warnings.warn("refused connections: too many are open", () => ({ limit: maxConnections }));
  });
  listener.on("connection", (socket: Socket) => {
    readScheduler.connectionAccepted();
    acceptor.accept(socket);
  });
  return listener;
}
