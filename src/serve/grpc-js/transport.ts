// HTTP/2 carried by the gRPC library: connections are injected after the listener told them apart, messages
// pass through as raw buffers.

import type { Socket } from "node:net";
import { type MethodDefinition, Server, ServerCredentials } from "@grpc/grpc-js";
import { Fault } from "#base/fault.ts";
import type { Method, Service } from "../handler.ts";
import type { Transport } from "../lifetime/transport.ts";
import type { GrpcSettings, MeteredMethod } from "../settings.ts";
import { adapt, type Surroundings } from "./adapter.ts";

/** A longer message is refused, not cut; inflated ones count by what they inflate to. */
const MAX_MESSAGE = 4 * 1024 * 1024;
/**
 * Calls at once on one connection. A proxy opens another connection beyond it, so this bounds what one
 * peer can hold open without bounding what a busy one gets through.
 */
const MAX_STREAMS = 1_000;
/** A peer that vanished without a FIN is noticed after this and one unanswered ping. */
const PING_AFTER = 5 * 60_000;
const PING_ANSWER = 20_000;

export function grpcTransport(
  services: readonly Service[],
  settings: Pick<GrpcSettings, "max_connection_age" | "max_connection_age_grace">,
  around: Surroundings,
): Transport {
  const server = new Server({
    "grpc.max_receive_message_length": MAX_MESSAGE,
    "grpc.max_send_message_length": -1,
    "grpc.max_concurrent_streams": MAX_STREAMS,
    "grpc.keepalive_time_ms": PING_AFTER,
    "grpc.keepalive_timeout_ms": PING_ANSWER,
    "grpc.enable_channelz": 0,
    // The library itself spreads the age by ±10 %.
    ...(settings.max_connection_age > 0 && {
      "grpc.max_connection_age_ms": settings.max_connection_age,
    }),
    ...(settings.max_connection_age_grace > 0 && {
      "grpc.max_connection_age_grace_ms": settings.max_connection_age_grace,
    }),
  });
  for (const service of services) addService(server, service, around);
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  return {
    inject(socket: Socket) {
      // A half-open connection would keep its session for ever.
      socket.allowHalfOpen = false;
      injector.injectConnection(socket);
    },
    leave() {},
    // The library's own orderly shutdown does not wait for injected connections: the port waits itself.
    drain: (grace) => injector.drain(grace),
    cut: () => server.forceShutdown(),
  };
}

function addService(server: Server, service: Service, around: Surroundings): void {
  const methods = Object.entries(service.methods);
  if (methods.length === 0) throw new Fault("INTERNAL", `${service.name} has no methods`);
  server.addService(
    Object.fromEntries(methods.map(([name, method]) => [name, definition(service, name, method)])),
    Object.fromEntries(
      methods.map(([name, method]) => [
        name,
        adapt(method, metered(service, name, method), around),
      ]),
    ),
  );
}

const whole = (bytes: Buffer): Uint8Array => bytes;
const buffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

function definition(
  service: Service,
  name: string,
  method: Method,
): MethodDefinition<Uint8Array, Uint8Array> {
  return {
    path: `/${service.name}/${name}`,
    requestStream: method.kind === "stream" && method.client,
    responseStream: method.kind === "stream" && method.server,
    requestSerialize: buffer,
    requestDeserialize: whole,
    responseSerialize: buffer,
    responseDeserialize: whole,
  };
}

function metered(service: Service, name: string, method: Method): MeteredMethod {
  const type =
    method.kind === "unary"
      ? "unary"
      : method.client
        ? method.server
          ? "bidi_stream"
          : "client_stream"
        : "server_stream";
  return { path: `/${service.name}/${name}`, service: service.name, method: name, type };
}
