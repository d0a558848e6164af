// The interface of transports: each carries calls over connections whose protocol the listener has detected.
// Transports of the same protocol are interchangeable without the services noticing.

import type { Socket } from "node:net";
import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import type { ServerMeter } from "#base/server-meter.ts";

/** Protocol of a connection, inside TLS where there is TLS. */
export type ApplicationProtocol = "http1" | "http2";

export interface Transport {
  /** Takes over a connection. Bytes that were read from it have been put back. */
  accept(socket: Socket): void;
  /** Whether a call has been made on this connection. */
  hasCalled(socket: Socket): boolean;
  /** Closes this connection unless a call is in progress on it, or may be. Returns whether it did. */
  closeIdle(socket: Socket): boolean;
  /** A drain is about to start: everything is still answered, but callers are asked to move on. */
  beginDrain(): void;
  /** Accepts no new work. Calls in progress have `grace` ms to end; their connections then close. */
  drain(grace: number): void;
  /** Releases everything that outlives the connections, which the port destroys itself. */
  cut(): void;
}

/** The dependencies that every transport gets from the port. */
export interface TransportContext {
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: ServerMeter | undefined;
}
