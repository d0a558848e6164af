// What both transports know about the methods that are served and about calls that fail: one row per method, the
// bound on messages, and how what a handler threw becomes a status.

import { Fault } from "#base/fault.ts";
import type { Method, Service, StreamHandler, UnaryHandler } from "../handler.ts";
import type { MeteredMethod, PortLog } from "../settings.ts";

/** A longer message is refused, not cut; inflated ones count by what they inflate to. */
export const MAX_MESSAGE = 4 * 1024 * 1024;

/**
 * By how much a caller's clock and ours may disagree about the same deadline, ms: both round timers and time to
 * whole milliseconds, each in its way.
 */
const ROUNDING_MS = 1;

/** A method that can be called. All rows have the same fields, whatever the method was made of. */
export class MethodRow {
  readonly metered: MeteredMethod;
  /** Of a unary method. */
  readonly unary: UnaryHandler | undefined;
  /** Of any other. */
  readonly stream: StreamHandler | undefined;
  /** Which side may send more or fewer messages than one. */
  readonly client: boolean;
  readonly server: boolean;

  constructor(service: Service, name: string, method: Method) {
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

export function rowsOf(service: Service): readonly MethodRow[] {
  const rows = Object.entries(service.methods).map(
    ([name, method]) => new MethodRow(service, name, method),
  );
  if (rows.length === 0) throw new Fault("INTERNAL", `${service.name} has no methods`);
  return rows;
}

/** What a handler threw, fit to be sent. Failures of our own are logged, for callers are not told their cause. */
export function failureOf(thrown: unknown, method: MeteredMethod, log: PortLog): Fault {
  const fault = Fault.from(thrown);
  if (fault.code === "INTERNAL") {
    log.error("call failed", { method: method.path, error: fault.cause ?? fault });
  }
  return fault;
}

/** How a call is counted that its caller gave up: most do so because the deadline has passed. */
export function givenUp(deadline: number, now: number): "DEADLINE_EXCEEDED" | "CANCELLED" {
  return deadline - ROUNDING_MS <= now ? "DEADLINE_EXCEEDED" : "CANCELLED";
}
