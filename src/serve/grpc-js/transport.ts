// HTTP/2 carried by the gRPC library: connections are injected after the listener told them apart, messages
// pass through as raw buffers.

import type { Socket } from "node:net";
import { type MethodDefinition, Server, ServerCredentials } from "@grpc/grpc-js";
import { MAX_MESSAGE, type MethodRow, rowsOf } from "../grpc/methods.ts";
import type { Service } from "../handler.ts";
import type { Transport } from "../lifetime/transport.ts";
import type { GrpcSettings } from "../settings.ts";
import { adapt, type Surroundings } from "./adapter.ts";

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
  const rows = rowsOf(service);
  server.addService(
    Object.fromEntries(rows.map((row) => [row.metered.method, definition(row)])),
    Object.fromEntries(rows.map((row) => [row.metered.method, adapt(row, around)])),
  );
}

const whole = (bytes: Buffer): Uint8Array => bytes;
const buffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

function definition(row: MethodRow): MethodDefinition<Uint8Array, Uint8Array> {
  return {
    path: row.metered.path,
    requestStream: row.client,
    responseStream: row.server,
    requestSerialize: buffer,
    requestDeserialize: whole,
    responseSerialize: buffer,
    responseDeserialize: whole,
  };
}
