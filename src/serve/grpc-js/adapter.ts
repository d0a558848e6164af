// Turns methods into handlers of the gRPC library: passes raw messages, converts faults to statuses, and counts.

import type {
  handleClientStreamingCall,
  handleUnaryCall,
  Metadata,
  ServerDuplexStream,
  ServerWritableStream,
  sendUnaryData,
  UntypedHandleCall,
} from "@grpc/grpc-js";
import { CODES, type Code, Fault } from "#base/fault.ts";
import type { StreamHandler, UnaryHandler } from "#base/handler.ts";
import type { MeteredMethod } from "#base/server-meter.ts";
import { abandonedCode, failureOf, type MethodRow } from "../grpc/methods.ts";
import type { TransportContext } from "../transport.ts";
import { GrpcCall, type LibraryCall } from "./call.ts";

interface Status {
  readonly code: number;
  readonly details: string;
  readonly metadata?: Metadata;
}

export function libraryHandler(row: MethodRow, context: TransportContext): UntypedHandleCall {
  const { metered, stream } = row;
  if (row.unary !== undefined) return unary(row.unary, metered, context);
  if (stream === undefined) throw new Fault("INTERNAL", `${metered.path} has no handler`);
  if (!row.client) {
    return manyReplies(stream, metered, context, ({ request }: WritableCall) => single(request));
  }
  return row.server
    ? manyReplies(stream, metered, context, messagesOf<DuplexCall>)
    : oneReply(stream, metered, context);
}

/** Tracks a call from its first message to its status. */
class CallProgress {
  readonly call: GrpcCall;
  readonly #method: MeteredMethod;
  readonly #context: TransportContext;
  readonly #started: number;

  constructor(method: MeteredMethod, libraryCall: LibraryCall, context: TransportContext) {
    this.call = new GrpcCall(method.path, libraryCall, context.clock);
    this.#method = method;
    this.#context = context;
    this.#started = context.clock.now();
    context.meter?.grpcStarted(method);
  }

  received(): void {
    this.#context.meter?.grpcReceived(this.#method);
  }

  sent(): void {
    this.#context.meter?.grpcSent(this.#method);
  }

  succeeded(): void {
    this.#count("OK");
  }

  failed(thrown: unknown): Status {
    // Exceptions that the library throws into the handler of a cancelled call are no failure of the handler.
    const fault = this.call.cancelled
      ? new Fault("CANCELLED", "the caller went away", { cause: thrown })
      : failureOf(thrown, this.#method, this.#context.log);
    this.#count(fault.code);
    const metadata = this.call.finalFields();
    return {
      code: CODES[fault.code].number,
      // A lone surrogate would make the library throw while it encodes the status.
      details: fault.message.toWellFormed(),
      ...(metadata !== undefined && { metadata }),
    };
  }

  /** Counts the status that the caller saw: that of an abandoned call if it was abandoned meanwhile. */
  #count(code: Code): void {
    this.call.end(code === "OK" && !this.call.cancelled);
    const { meter, clock } = this.#context;
    if (meter === undefined) return;
    const now = clock.now();
    const seen = this.call.cancelled ? abandonedCode(this.call.deadline, now) : code;
    meter.grpcHandled(this.#method, seen, now - this.#started);
  }
}

function unary(
  handle: UnaryHandler,
  method: MeteredMethod,
  context: TransportContext,
): handleUnaryCall<Uint8Array, Uint8Array> {
  return (libraryCall, callback) => {
    const progress = new CallProgress(method, libraryCall, context);
    progress.received();
    let reply: Uint8Array | Promise<Uint8Array>;
    try {
      reply = handle(libraryCall.request, progress.call);
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

function finish(
  progress: CallProgress,
  reply: Uint8Array,
  callback: sendUnaryData<Uint8Array>,
): void {
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

type WritableCall = ServerWritableStream<Uint8Array, Uint8Array>;
type DuplexCall = ServerDuplexStream<Uint8Array, Uint8Array>;

function messagesOf<T extends Pick<DuplexCall, "iterator">>(call: T): AsyncIterable<Uint8Array> {
  return call.iterator({ destroyOnReturn: false });
}

/** Runs a handler that may send any number of messages. */
function manyReplies<T extends WritableCall | DuplexCall>(
  handle: StreamHandler,
  method: MeteredMethod,
  context: TransportContext,
  messagesFrom: (call: T) => AsyncIterable<Uint8Array>,
): (call: T) => void {
  return (libraryCall) => {
    const progress = new CallProgress(method, libraryCall, context);
    const stream = {
      messages: counted(messagesFrom(libraryCall), progress),
      send: (message: Uint8Array) => write(libraryCall, progress, message),
    };
    handle(stream, progress.call).then(
      () => {
        progress.succeeded();
        if (!libraryCall.cancelled) libraryCall.end(progress.call.trailers);
      },
      (thrown) => {
        const status = progress.failed(thrown);
        if (!libraryCall.cancelled) libraryCall.emit("error", status);
      },
    );
  };
}

/** Writes and waits for room; the wait also ends if the call is cancelled. */
async function write(to: Writable, progress: CallProgress, message: Uint8Array): Promise<void> {
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

async function* counted(messages: AsyncIterable<Uint8Array>, progress: CallProgress) {
  for await (const message of messages) {
    progress.received();
    yield message;
  }
}

async function* single(message: Uint8Array) {
  yield message;
}

/** Runs a handler that reads any number of messages and sends one. */
function oneReply(
  handle: StreamHandler,
  method: MeteredMethod,
  context: TransportContext,
): handleClientStreamingCall<Uint8Array, Uint8Array> {
  return (libraryCall, callback) => {
    const progress = new CallProgress(method, libraryCall, context);
    let reply: Uint8Array | undefined;
    const stream = {
      messages: counted(messagesOf(libraryCall), progress),
      async send(message: Uint8Array) {
        if (reply !== undefined)
          throw new Fault("INTERNAL", "a client-streaming method sends exactly one reply");
        reply = message;
      },
    };
    handle(stream, progress.call).then(
      () => {
        if (reply === undefined) {
          callback(progress.failed(new Error(`${method.path} ended without a reply`)));
          return;
        }
        finish(progress, reply, callback);
      },
      (thrown) => callback(progress.failed(thrown)),
    );
  };
}
