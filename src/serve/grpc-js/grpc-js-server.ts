// HTTP/2 by the gRPC library: the listener injects connections after it has detected their protocol, and messages
// pass through as raw buffers.

import type { Socket } from "node:net";
import { type MethodDefinition, Server, ServerCredentials } from "@grpc/grpc-js";
import type { GrpcService } from "#base/handler.ts";
import { MAX_CONCURRENT_CALLS, PING_AFTER_MS, PING_TIMEOUT_MS } from "#h2/limits.ts";
import { type MethodRow, methodRows } from "../grpc/methods.ts";
import type { GrpcSettings } from "../settings.ts";
import type { Transport, TransportContext } from "../transport.ts";
import { libraryHandler } from "./adapter.ts";

export function grpcJsServer(
  services: readonly GrpcService[],
  settings: Pick<
    GrpcSettings,
    "max_connection_age" | "max_connection_age_grace" | "max_message_bytes"
  >,
  context: TransportContext,
): Transport {
  const server = new Server({
    "grpc.max_receive_message_length": settings.max_message_bytes,
    "grpc.max_send_message_length": -1,
    "grpc.max_concurrent_streams": MAX_CONCURRENT_CALLS,
    "grpc.keepalive_time_ms": PING_AFTER_MS,
    "grpc.keepalive_timeout_ms": PING_TIMEOUT_MS,
    "grpc.enable_channelz": 0,
    // The library itself spreads the age by ±10 %.
    ...(settings.max_connection_age > 0 && {
      "grpc.max_connection_age_ms": settings.max_connection_age,
    }),
    ...(settings.max_connection_age_grace > 0 && {
      "grpc.max_connection_age_grace_ms": settings.max_connection_age_grace,
    }),
  });
  for (const service of services) addService(server, service, context);
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  return {
    accept(socket: Socket) {
      // A half-open connection would keep its session forever.
      socket.allowHalfOpen = false;
      injector.injectConnection(socket);
    },
    // The library says neither whether a call has been made, nor whether one is in progress.
    hasCalled: () => true,
    closeIdle: () => false,
    beginDrain() {},
    // The library's graceful shutdown does not wait for injected connections: the port waits itself.
    drain: (grace) => injector.drain(grace),
    cut: () => server.forceShutdown(),
  };
}

function addService(server: Server, service: GrpcService, context: TransportContext): void {
  const rows = methodRows(service);
  server.addService(
    Object.fromEntries(rows.map((row) => [row.metered.method, definition(row)])),
    Object.fromEntries(rows.map((row) => [row.metered.method, libraryHandler(row, context)])),
  );
}

const asIs = (bytes: Buffer): Uint8Array => bytes;
const buffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

function definition(row: MethodRow): MethodDefinition<Uint8Array, Uint8Array> {
  return {
    path: row.metered.path,
    requestStream: row.client,
    responseStream: row.server,
    requestSerialize: buffer,
    requestDeserialize: asIs,
    responseSerialize: buffer,
    responseDeserialize: asIs,
  };
}
