// gRPC client for unary calls to another server, bytes in and bytes out: carries the JSON routes that an agent
// forwards. The gRPC library is imported with the first call, because most agents never forward.

import type { Client, ServiceError } from "@grpc/grpc-js";
import { CODES, type Code, Fault } from "#base/fault.ts";
import type { TlsFiles, TlsMaterial } from "./tls-files.ts";

export interface GrpcClientSettings {
  /** `host:port` or `unix:/path`. */
  readonly address: string;
  /** Absent: cleartext. When the files change, new connections use them. Closed with the client. */
  readonly tls?: TlsFiles;
}

export interface UnaryOptions {
  /** Milliseconds until the deadline; Infinity when there is none. */
  readonly timeoutMs: number;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** Called with the first value of each text header of the response. */
  readonly onHeader?: (name: string, value: string) => void;
}

export class GrpcClient {
  readonly #settings: GrpcClientSettings;
  #grpc: Promise<Grpc> | undefined;
  #connected: Connected | undefined;
  #closed = false;

  constructor(settings: GrpcClientSettings) {
    this.#settings = settings;
  }

  /**
   * Makes one unary call. `method` is `/package.Service/Method`.
   * @throws Fault with the server's status code, or UNAVAILABLE when the server cannot be reached
   */
  async call(method: string, message: Uint8Array, options: UnaryOptions): Promise<Uint8Array> {
    this.#grpc ??= import("@grpc/grpc-js");
    const grpc = await this.#grpc;
    if (this.#closed) throw new Fault("CANCELLED", "the gRPC client was closed");
    const connected = this.#connect(grpc);
    const { client } = connected;
    connected.calls += 1;
    const metadata = new grpc.Metadata();
    for (const [name, value] of Object.entries(options.metadata ?? {})) metadata.set(name, value);
    const { timeoutMs, signal } = options;
    const deadline = Number.isFinite(timeoutMs) ? Date.now() + timeoutMs : Infinity;
    return new Promise((resolve, reject) => {
      const cancel = () => call.cancel();
      const call = client.makeUnaryRequest(
        method,
        Buffer.from,
        (bytes: Buffer) => bytes,
        message,
        metadata,
        { deadline },
        (error: ServiceError | null, reply?: Buffer) => {
          signal?.removeEventListener("abort", cancel);
          connected.calls -= 1;
          if (connected !== this.#connected && connected.calls === 0) client.close();
          if (reply !== undefined && error === null) resolve(reply);
          else reject(faultOf(error));
        },
      );
      call.on("metadata", (received) => {
        for (const [name, value] of Object.entries(received.getMap())) {
          if (typeof value === "string") options.onHeader?.(name, value);
        }
      });
      signal?.addEventListener("abort", cancel, { once: true });
      if (signal?.aborted === true) cancel();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#settings.tls?.close();
    this.#connected?.client.close();
    this.#connected = undefined;
  }

  /** The connections for the next call: other ones when the TLS files have changed. */
  #connect(grpc: Grpc): Connected {
    const { address, tls } = this.#settings;
    const material = tls?.current;
    const before = this.#connected;
    if (before !== undefined && before.material === material) return before;
    const credentials =
      material === undefined
        ? grpc.credentials.createInsecure()
        : grpc.credentials.createSsl(
            material.ca ?? null,
            material.key ?? null,
            material.cert ?? null,
          );
    const client = new grpc.Client(address, credentials);
    this.#connected = { client, material, calls: 0 };
    if (before?.calls === 0) before.client.close();
    return this.#connected;
  }
}

type Grpc = typeof import("@grpc/grpc-js");

interface Connected {
  readonly client: Client;
  readonly material: TlsMaterial | undefined;
  /** Calls that have no reply yet. */
  calls: number;
}

const BY_NUMBER: ReadonlyMap<number, Code> = new Map(
  Object.entries(CODES).map(([code, { number }]) => [number, code as Code]),
);

/** The server's status as a Fault. Its message is meant for callers, so it is passed on as it is. */
function faultOf(error: ServiceError | null): Fault {
  if (error === null) return new Fault("INTERNAL", "the server sent no response");
  const code = BY_NUMBER.get(error.code) ?? "UNKNOWN";
  if (code === "UNAVAILABLE") {
    return new Fault(code, "the gRPC server behind this route is unavailable", { cause: error });
  }
  return new Fault(code, error.details, { cause: error });
}
