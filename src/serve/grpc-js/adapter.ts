// Turns our methods into handlers of the gRPC library: bytes in, bytes out, faults to statuses, counted.

import type {
  handleBidiStreamingCall,
  handleClientStreamingCall,
  handleServerStreamingCall,
  handleUnaryCall,
  Metadata,
  sendUnaryData,
  UntypedHandleCall,
} from "@grpc/grpc-js";
import type { Clock } from "#base/clock.ts";
import { CODES, type Code, Fault } from "#base/fault.ts";
import { failureOf, givenUp, type MethodRow } from "../grpc/methods.ts";
import type { StreamHandler, UnaryHandler } from "../handler.ts";
import type { MeteredMethod, PortLog, ServerMeter } from "../settings.ts";
import { GrpcCall, type Surface } from "./call.ts";

export interface Surroundings {
  readonly clock: Clock;
  readonly log: PortLog;
  readonly meter: ServerMeter | undefined;
}

interface Status {
  readonly code: number;
  readonly details: string;
  readonly metadata?: Metadata;
}

export function adapt(row: MethodRow, around: Surroundings): UntypedHandleCall {
  const { metered, stream } = row;
  if (row.unary !== undefined) return unary(row.unary, metered, around);
  if (stream === undefined) throw new Fault("INTERNAL", `${metered.path} has no handler`);
  if (!row.client) return serverStream(stream, metered, around);
  return row.server
    ? bidirectional(stream, metered, around)
    : clientStream(stream, metered, around);
}

/** A call's bookkeeping from its first message to its status. */
class Progress {
  readonly call: GrpcCall;
  readonly #method: MeteredMethod;
  readonly #around: Surroundings;
  readonly #started: number;

  constructor(method: MeteredMethod, surface: Surface, around: Surroundings) {
    this.call = new GrpcCall(method.path, surface, around.clock);
    this.#method = method;
    this.#around = around;
    this.#started = around.clock.now();
    around.meter?.grpcStarted(method);
  }

  received(): void {
    this.#around.meter?.grpcReceived(this.#method);
  }

  sent(): void {
    this.#around.meter?.grpcSent(this.#method);
  }

  succeeded(): void {
    this.#count("OK");
  }

  failed(thrown: unknown): Status {
    // What the library throws into a handler whose caller has left is no failure of the handler.
    const fault = this.call.cancelled
      ? new Fault("CANCELLED", "the caller went away", { cause: thrown })
      : failureOf(thrown, this.#method, this.#around.log);
    this.#count(fault.code);
    const metadata = this.call.lastFields();
    return {
      code: CODES[fault.code].number,
      // A lone surrogate would make the library throw while it encodes the status.
      details: fault.message.toWellFormed(),
      ...(metadata !== undefined && { metadata }),
    };
  }

  /** What the caller saw: a call that was given up meanwhile is counted as that. */
  #count(code: Code): void {
    this.call.end();
    const { meter, clock } = this.#around;
    if (meter === undefined) return;
    const now = clock.now();
    const seen = this.call.cancelled ? givenUp(this.call.deadline, now) : code;
    meter.grpcHandled(this.#method, seen, now - this.#started);
  }
}

function unary(
  handle: UnaryHandler,
  method: MeteredMethod,
  around: Surroundings,
): handleUnaryCall<Uint8Array, Uint8Array> {
  return (surface, callback) => {
    const progress = new Progress(method, surface, around);
    progress.received();
    let reply: Uint8Array | Promise<Uint8Array>;
    try {
      reply = handle(surface.request, progress.call);
    } catch (thrown) {
      callback(progress.failed(thrown));
      return;
    }
    if (reply instanceof Uint8Array) finish(progress, reply, callback);
    else {
      reply.then(
        (late) => finish(progress, late, callback),
        (thrown) => callback(progress.failed(thrown)),
      );
    }
  };
}

function finish(progress: Progress, reply: Uint8Array, callback: sendUnaryData<Uint8Array>): void {
  progress.succeeded();
  progress.call.sendReplies();
  progress.sent();
  callback(null, reply, progress.call.trailers);
}

interface Writable {
  readonly cancelled: boolean;
  write(message: Uint8Array): boolean;
  once(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
}

/** Writes and waits for room; a caller that went away ends the wait. */
async function write(to: Writable, progress: Progress, message: Uint8Array): Promise<void> {
  if (to.cancelled) throw new Fault("CANCELLED", "the caller went away");
  progress.call.sendReplies();
  progress.sent();
  if (to.write(message)) return;
  await new Promise<void>((resolve) => {
    const done = () => {
      to.off("drain", done);
      to.off("cancelled", done);
      resolve();
    };
    to.once("drain", done);
    to.once("cancelled", done);
  });
}

async function* counted(messages: AsyncIterable<Uint8Array>, progress: Progress) {
  for await (const message of messages) {
    progress.received();
    yield message;
  }
}

async function* just(message: Uint8Array) {
  yield message;
}

function serverStream(
  handle: StreamHandler,
  method: MeteredMethod,
  around: Surroundings,
): handleServerStreamingCall<Uint8Array, Uint8Array> {
  return (surface) => {
    const progress = new Progress(method, surface, around);
    const stream = {
      messages: counted(just(surface.request), progress),
      send: (message: Uint8Array) => write(surface, progress, message),
    };
    handle(stream, progress.call).then(
      () => {
        progress.succeeded();
        if (!surface.cancelled) surface.end(progress.call.trailers);
      },
      (thrown) => {
        const status = progress.failed(thrown);
        if (!surface.cancelled) surface.emit("error", status);
      },
    );
  };
}

function clientStream(
  handle: StreamHandler,
  method: MeteredMethod,
  around: Surroundings,
): handleClientStreamingCall<Uint8Array, Uint8Array> {
  return (surface, callback) => {
    const progress = new Progress(method, surface, around);
    let reply: Uint8Array | undefined;
    const stream = {
      messages: counted(surface.iterator({ destroyOnReturn: false }), progress),
      async send(message: Uint8Array) {
        if (reply !== undefined)
          throw new Fault("INTERNAL", "one reply is all a client stream gets");
        reply = message;
      },
    };
    handle(stream, progress.call).then(
      () => {
        if (reply === undefined) {
          callback(progress.failed(new Error(`${method.path} ended without a reply`)));
          return;
        }
        progress.succeeded();
        progress.call.sendReplies();
        progress.sent();
        callback(null, reply, progress.call.trailers);
      },
      (thrown) => callback(progress.failed(thrown)),
    );
  };
}

function bidirectional(
  handle: StreamHandler,
  method: MeteredMethod,
  around: Surroundings,
): handleBidiStreamingCall<Uint8Array, Uint8Array> {
  return (surface) => {
    const progress = new Progress(method, surface, around);
    const stream = {
      messages: counted(surface.iterator({ destroyOnReturn: false }), progress),
      send: (message: Uint8Array) => write(surface, progress, message),
    };
    handle(stream, progress.call).then(
      () => {
        progress.succeeded();
        if (!surface.cancelled) surface.end(progress.call.trailers);
      },
      (thrown) => {
        const status = progress.failed(thrown);
        if (!surface.cancelled) surface.emit("error", status);
      },
    );
  };
}
