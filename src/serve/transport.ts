// The interface of transports. Each carries calls over connections whose protocol the listener has detected; services
// do not notice which one does.

import type { Socket } from "node:net";
import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import type { ServerMeter } from "#base/server-meter.ts";

/** Protocol of a connection, inside TLS where there is TLS. */
export type ApplicationProtocol = "http1" | "http2";

export interface Transport {
  /** Takes over a connection. Bytes that were read from it have been put back. */
  accept(socket: Socket): void;
  /** True if a call has been made on this connection. */
  hasCalled(socket: Socket): boolean;
  /** Closes this connection unless a call is, or may be, in progress on it. Returns whether it did. */
  closeIdle(socket: Socket): boolean;
  /** A drain is about to start: everything is answered, but callers are asked to move to another connection. */
  beginDrain(): void;
  /** Accepts no new work. Calls in progress have `grace` ms to end; their connections then close. */
  drain(grace: number): void;
  /** Releases everything except the connections, which the port destroys. */
  cut(): void;
}

/** The dependencies that every transport gets from the port. */
export interface TransportContext {
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: ServerMeter | undefined;
}
