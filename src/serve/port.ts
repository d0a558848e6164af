// The one port: a listener that tells cleartext HTTP/2, HTTP/1.1 and TLS apart and hands each connection to
// the transport that speaks its tongue. Bytes in, handler out; it knows no flow.

import { createServer, type Server, type Socket } from "node:net";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Descriptors } from "#wire/descriptors.ts";
import { grpcAnswerer } from "./grpc/answerer.ts";
import type { Answerer } from "./h2/exchange.ts";
import { h2Transport } from "./h2/transport.ts";
import type { Route, Service } from "./handler.ts";
import { frontPage } from "./http/front-page.ts";
import { httpTransport } from "./http/transport.ts";
import { Closing } from "./lifetime/closing.ts";
import { type Binding, isLocal, readAddress, showAddress } from "./listen/address.ts";
import { bind } from "./listen/bind.ts";
import { type Carriers, http2Of, makesFor } from "./listen/carrier.ts";
import { Reception } from "./listen/reception.ts";
import type { PortLog, PortSettings, RefusedConnection, ServerMeter } from "./settings.ts";
import { healthOf } from "./standard/health.ts";
import { reflectionOf } from "./standard/reflection.ts";
import { openTlsDoor, type TlsDoor } from "./tls/door.ts";

/**
 * Far above what a sidecar or a fleet's controller sees, and below the usual limit on open files together
 * with everything else that a process opens.
 */
const MAX_CONNECTIONS = 10_000;
/** Refused connections are reported once per this time. */
const REPORT_EVERY_MS = 60_000;

export interface PortOptions {
  readonly settings: PortSettings;
  readonly services: readonly Service[];
  readonly routes: readonly Route[];
  readonly clock: Clock;
  readonly log: PortLog;
  readonly meter?: ServerMeter;
  /** Describes the services of these names; asked at the first question. Needed for reflection. */
  readonly descriptors?: (services: readonly string[]) => Promise<Descriptors>;
  /** Connections at once; further ones are closed. */
  readonly maxConnections?: number;
}

export interface Port {
  /** What is really bound, in the form of `listener.addr`. */
  readonly address: string;
  /** A service by its real name, or "" for the process. */
  readonly health: { set(service: string, serving: boolean): void };
  /** Routes that show or change state and that other machines reach without TLS. */
  readonly exposed: readonly Route[];
  /** Stops in order: refuse health, still accept for a while, then finish what is in hand within the grace time. */
  drain(): Promise<void>;
  /** Ends everything at once, also in the middle of a drain. */
  cut(): Promise<void>;
}

/** Opens the port, or throws a Fault that says which setting stands in the way. */
export async function openPort(options: PortOptions): Promise<Port> {
  const { settings, clock, log, meter } = options;
  const binding = await readAddress(settings.listener);
  const health = healthOf(options.services);
  const described = [...options.services, health.service];
  const services = [...described, ...reflection(options, described)];
  const routes = withFrontPage(options.routes, services);
  const http1 = httpTransport({ routes, settings: settings.http, clock, log, meter });
  const carriers = await carriersFor(options, services, http1.answerer, binding);
  const http2 = http2Of(carriers, binding.kind);
  const transports = [http1, ...http2.transports];
  const refused = (why: RefusedConnection) => meter?.connectionRefused(why);
  const reception = new Reception({ settings, clock, http1, http2: http2.carrierOf, refused });
  const listener = listenerOf(options, reception);
  let tls: TlsDoor | undefined;
  const release = () => {
    tls?.close();
    health.close();
    for (const transport of transports) transport.cut();
  };
  try {
    if (settings.tls.enabled) {
      tls = await openTlsDoor({
        settings: settings.tls,
        handshakeTimeout: settings.grpc.connection_timeout,
        clock,
        log,
        prefers: http2.prefers,
        admitted: (inner, tongue) => reception.admit(inner, tongue),
        refused,
      });
      reception.useTls(tls);
    }
    await bind(listener, binding);
  } catch (thrown) {
    release();
    throw thrown;
  }
  listener.on("error", (error) => log.error("listener failed", { error }));
  const bound = listener.address();
  const guarded = isLocal(bound) || settings.tls.enabled;
  const closing = new Closing({ listener, reception, health, transports, release });
  return {
    address: showAddress(bound),
    health,
    exposed: guarded ? [] : options.routes.filter(({ revealing }) => revealing === true),
    drain: () => closing.drain(settings.drain, clock, log),
    cut: () => closing.cut(),
  };
}

/** Makes the HTTP/2 transports that the listener needs. */
async function carriersFor(
  { settings, clock, log, meter }: PortOptions,
  services: readonly Service[],
  http: Answerer,
  binding: Binding,
): Promise<Carriers> {
  const makes = makesFor(settings.grpc.transport, binding);
  const ownOf = () => {
    const grpc = grpcAnswerer(services, { clock, log, meter });
    const answer: Answerer = (stream, head, last) =>
      (grpc.answers(head) ? grpc.answer : http)(stream, head, last);
    return h2Transport({ answer, grpc: settings.grpc, http: settings.http, clock, log, meter });
  };
  if (makes === "own") return { own: ownOf(), library: undefined };
  // Loaded where strangers can come only: it takes time and memory that a sidecar need not spend.
  const { grpcTransport } = await import("./grpc-js/transport.ts");
  const library = grpcTransport(services, settings.grpc, { clock, log, meter });
  return { own: makes === "both" ? ownOf() : undefined, library };
}

function reflection(
  { settings, descriptors }: PortOptions,
  served: readonly Service[],
): readonly Service[] {
  if (!settings.grpc.enable_reflection) return [];
  if (descriptors === undefined) {
    throw new Fault("INTERNAL", "grpc.enable_reflection needs descriptors");
  }
  return reflectionOf(
    served.map(({ name }) => name),
    descriptors,
  );
}

function withFrontPage(routes: readonly Route[], services: readonly Service[]): readonly Route[] {
  return routes.some(({ path }) => path === "/")
    ? routes
    : [...routes, frontPage(routes, services)];
}

function listenerOf(
  { settings, clock, log, meter, maxConnections = MAX_CONNECTIONS }: PortOptions,
  reception: Reception,
): Server {
  const { keep_alive } = settings.listener;
  const listener = createServer({
    // HTTP/1.1 callers may close their half while replies that are already written are on their way to them.
    allowHalfOpen: true,
    noDelay: true,
    keepAlive: keep_alive >= 0,
    // Whole seconds are kept, and 0 means the system's default: a short time may not become that.
    keepAliveInitialDelay: Math.ceil(Math.max(0, keep_alive) / 1_000) * 1_000,
  });
  listener.maxConnections = maxConnections;
  let reported = Number.NEGATIVE_INFINITY;
  listener.on("drop", () => {
    meter?.connectionRefused("too_many");
    if (clock.now() - reported < REPORT_EVERY_MS) return;
    reported = clock.now();
    log.warn("refused connections: too many are open", { most: maxConnections });
  });
  listener.on("connection", (socket: Socket) => reception.receive(socket));
  return listener;
}
