// gRPC client for unary calls to another server, bytes in and bytes out: carries the JSON routes that an agent
// forwards. The gRPC library is imported with the first call, because most agents never forward.

import type { ChannelCredentials, Client, ServiceError } from "@grpc/grpc-js";
import { CODES, type Code, Fault } from "#base/fault.ts";

export interface GrpcClientSettings {
  /** `host:port` or `unix:/path`. */
  readonly address: string;
  /** PEM. Absent: cleartext. Without `ca`, the platform's certificate authorities are used. */
  readonly tls?: {
    readonly ca?: Buffer;
    readonly key?: Buffer;
    readonly cert?: Buffer;
  };
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
  #connected: Promise<Connected> | undefined;

  constructor(settings: GrpcClientSettings) {
    this.#settings = settings;
  }

  /**
   * Makes one unary call. `method` is `/package.Service/Method`.
   * @throws Fault with the server's status code, or UNAVAILABLE when the server cannot be reached
   */
  async call(method: string, message: Uint8Array, options: UnaryOptions): Promise<Uint8Array> {
    this.#connected ??= connect(this.#settings);
    const { grpc, client } = await this.#connected;
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
    const connected = this.#connected;
    if (connected !== undefined) (await connected).client.close();
  }
}

interface Connected {
  readonly grpc: typeof import("@grpc/grpc-js");
  readonly client: Client;
}

async function connect({ address, tls }: GrpcClientSettings): Promise<Connected> {
  const grpc = await import("@grpc/grpc-js");
  const credentials: ChannelCredentials =
    tls === undefined
      ? grpc.credentials.createInsecure()
      : grpc.credentials.createSsl(tls.ca ?? null, tls.key ?? null, tls.cert ?? null);
  return { grpc, client: new grpc.Client(address, credentials) };
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
