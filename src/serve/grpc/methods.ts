// For both gRPC transports: the table of methods, and the conversion of a handler's exception to a status.

import { Fault } from "#base/fault.ts";
import type { GrpcService, Method, StreamHandler, UnaryHandler } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import type { MeteredMethod } from "#base/server-meter.ts";

/**
 * Milliseconds between a caller's deadline and ours at most: both round timers to whole milliseconds in their own ways.
 */
const ROUNDING_MS = 1;

/** A method that can be called. All rows have the same shape, whatever kind of method they describe. */
export class MethodRow {
  readonly metered: MeteredMethod;
  /** The handler of a unary method. */
  readonly unary: UnaryHandler | undefined;
  /** The handler of any other method. */
  readonly stream: StreamHandler | undefined;
  /** The sides that may send any number of messages instead of exactly one. */
  readonly client: boolean;
  readonly server: boolean;

  constructor(service: GrpcService, name: string, method: Method) {
    const unary = method.kind === "unary";
    this.unary = unary ? method.handle : undefined;
    this.stream = unary ? undefined : method.handle;
    this.client = !unary && method.client;
    this.server = !unary && method.server;
    this.metered = {
      path: `/${service.name}/${name}`,
      service: service.name,
      method: name,
      type: this.client
        ? this.server
          ? "bidi_stream"
          : "client_stream"
        : this.server
          ? "server_stream"
          : "unary",
    };
  }
}

export function methodRows(service: GrpcService): readonly MethodRow[] {
  const rows = Object.entries(service.methods).map(
    ([name, method]) => new MethodRow(service, name, method),
  );
  if (rows.length === 0) throw new Fault("INTERNAL", `${service.name} has no methods`);
  return rows;
}

/**
 * Converts an exception of a handler to a fault that can be sent. INTERNAL ones are logged, since callers do not
 * see their cause.
 */
export function failureOf(thrown: unknown, method: MeteredMethod, log: Log): Fault {
  const fault = Fault.from(thrown);
  if (fault.code === "INTERNAL") {
    log.error({ method: method.path, error: fault.cause ?? fault }, "call failed");
  }
  return fault;
}

/** The status of a call that its caller abandoned: most callers do so because the deadline has passed. */
export function abandonedCode(deadline: number, now: number): "DEADLINE_EXCEEDED" | "CANCELLED" {
  return deadline - ROUNDING_MS <= now ? "DEADLINE_EXCEEDED" : "CANCELLED";
}
