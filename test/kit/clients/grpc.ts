// Calls gRPC methods with raw message bytes through grpc-js, so that tests see what an unmodified client sends.

import type { TestContext } from "node:test";
import {
  ChannelCredentials,
  Client,
  type ClientDuplexStream,
  type ClientOptions,
  type ClientReadableStream,
  Metadata,
  type ServiceError,
} from "@grpc/grpc-js";

const buffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes);
const bytes = (buffer: Buffer): Uint8Array => buffer;

export interface Reply {
  readonly code: number;
  readonly details: string;
  readonly message: Uint8Array | undefined;
  /** Initial metadata, and the trailers of an error status. */
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Metadata that came with the status. */
  readonly trailers: Readonly<Record<string, unknown>>;
}

export interface CallOptions {
  /** Names that end in `-bin` take buffers. */
  readonly metadata?: Readonly<Record<string, string | Buffer>>;
  /** Deadline in milliseconds from now. */
  readonly timeout?: number;
  readonly signal?: AbortSignal;
}

export interface TestClient {
  unary(path: string, message: Uint8Array, options?: CallOptions): Promise<Reply>;
  serverStream(path: string, message: Uint8Array): ClientReadableStream<Uint8Array>;
  clientStream(path: string, messages: readonly Uint8Array[]): Promise<Reply>;
  bidirectional(path: string): ClientDuplexStream<Uint8Array, Uint8Array>;
  close(): void;
}

/** A client of `host:port` or `unix:/path`, closed when the test ends. */
export function grpcClient(
  test: TestContext,
  target: string,
  credentials = ChannelCredentials.createInsecure(),
  options: ClientOptions = {},
): TestClient {
  const client = new Client(target, credentials, {
    "grpc.use_local_subchannel_pool": 1,
    "grpc.max_send_message_length": -1,
    ...options,
  });
  test.after(() => client.close());
  return {
    unary: (path, message, { metadata = {}, timeout, signal } = {}) =>
      collect((done) => {
        const headers = new Metadata();
        for (const [name, value] of Object.entries(metadata)) headers.set(name, value);
        const deadline = timeout === undefined ? {} : { deadline: Date.now() + timeout };
        const call = client.makeUnaryRequest(path, buffer, bytes, message, headers, deadline, done);
        signal?.addEventListener("abort", () => call.cancel());
        return call;
      }),
    serverStream: (path, message) => client.makeServerStreamRequest(path, buffer, bytes, message),
    clientStream: (path, messages) =>
      collect((done) => {
        const call = client.makeClientStreamRequest(path, buffer, bytes, done);
        for (const message of messages) call.write(message);
        call.end();
        return call;
      }),
    bidirectional: (path) => client.makeBidiStreamRequest(path, buffer, bytes),
    close: () => client.close(),
  };
}

interface Answering {
  on(event: "metadata", listener: (metadata: Metadata) => void): unknown;
  on(event: "status", listener: (status: { metadata: Metadata }) => void): unknown;
}

type Done = (error: ServiceError | null, message?: Uint8Array) => void;

function collect(start: (done: Done) => Answering): Promise<Reply> {
  return new Promise((resolve) => {
    let initial: Metadata | undefined;
    let reply: Omit<Reply, "trailers">;
    const call = start((error, message) => {
      reply = {
        code: error?.code ?? 0,
        details: error?.details ?? "",
        message,
        metadata: { ...initial?.getMap(), ...error?.metadata?.getMap() },
      };
    });
    // "status" is emitted after the message or error.
    call.on("status", ({ metadata }) => resolve({ ...reply, trailers: metadata.getMap() }));
    call.on("metadata", (metadata) => {
      initial = metadata;
    });
  });
}
