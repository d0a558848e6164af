// One unary call to another gRPC server, bytes in and out: what the JSON routes use when they forward.
// The library is imported with the first call, since most agents never forward.

import type { ChannelCredentials, Client, ServiceError } from "@grpc/grpc-js";
import { CODES, type Code, Fault } from "#base/fault.ts";

export interface GrpcClientSettings {
  /** `host:port` or `unix:/path`. */
  readonly address: string;
  /** Absent: cleartext. Certificates in PEM; without a CA those of the system count. */
  readonly tls?: {
    readonly ca?: Buffer;
    readonly key?: Buffer;
    readonly cert?: Buffer;
  };
}

export interface UnaryOptions {
  /** Time left, ms; Infinity when the caller set none. */
  readonly timeoutMs: number;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** Hears the first value of each header of the reply that is text. */
  readonly header?: (name: string, value: string) => void;
}

export class GrpcClient {
  readonly #settings: GrpcClientSettings;
  #connected: Promise<Connected> | undefined;

  constructor(settings: GrpcClientSettings) {
    this.#settings = settings;
  }

  /** `method` is `/package.Service/Method`. Throws Fault with the server's code, or UNAVAILABLE. */
  async call(method: string, message: Uint8Array, options: UnaryOptions): Promise<Uint8Array> {
    this.#connected ??= connect(this.#settings);
    const { grpc, client } = await this.#connected;
    const metadata = new grpc.Metadata();
    for (const [name, value] of Object.entries(options.metadata ?? {})) metadata.set(name, value);
    const { timeoutMs, signal } = options;
    const deadline = Number.isFinite(timeoutMs) ? Date.now() + timeoutMs : Infinity;
    return new Promise((resolve, reject) => {
      const leave = () => call.cancel();
      const call = client.makeUnaryRequest(
        method,
        Buffer.from,
        (bytes: Buffer) => bytes,
        message,
        metadata,
        { deadline },
        (error: ServiceError | null, reply?: Buffer) => {
          signal?.removeEventListener("abort", leave);
          if (reply !== undefined && error === null) resolve(reply);
          else reject(faultOf(error));
        },
      );
      call.on("metadata", (received) => {
        for (const [name, value] of Object.entries(received.getMap())) {
          if (typeof value === "string") options.header?.(name, value);
        }
      });
      signal?.addEventListener("abort", leave, { once: true });
      if (signal?.aborted === true) leave();
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

/** The server's refusal as it is; its message is a Sluice's own or another server's, fit to be passed on. */
function faultOf(error: ServiceError | null): Fault {
  if (error === null) return new Fault("INTERNAL", "the server sent no reply");
  const code = BY_NUMBER.get(error.code) ?? "UNKNOWN";
  if (code === "UNAVAILABLE") {
    return new Fault(code, "the gRPC server behind this route is not there", { cause: error });
  }
  return new Fault(code, error.details, { cause: error });
}
