// gRPC client, bytes in and bytes out: JSON routes that an agent forwards, calls between agents, and calls to etcd. The
// gRPC library is imported with the first call, because many processes never make one.

import type { ChannelOptions, Client, Metadata, ServiceError, StatusObject } from "@grpc/grpc-js";
import { Fault } from "#base/fault.ts";
import type { PreSharedKey } from "#base/net/pre-shared-key.ts";
import { faultOf, type GrpcPath, type TlsHints } from "./grpc-faults.ts";
import { grpcRoute } from "./grpc-proxy.ts";
import {
  type Grpc,
  type GrpcTlsOptions,
  secureCredentials,
  sharedKeyCredentials,
} from "./grpc-tls.ts";
import type { TlsFiles, TlsMaterial } from "./tls-files.ts";

export interface GrpcClientSettings {
  /** `host:port` or `unix:/path`. */
  readonly address: string;
  /** Absent: cleartext. When the files change, new connections use them. Closed with the client. */
  readonly tls?: TlsFiles;
  readonly tlsOptions?: GrpcTlsOptions;
  /** In place of certificates. */
  readonly sharedKey?: PreSharedKey;
  /** Options of the channel, under the names of the gRPC library. */
  readonly channel?: ChannelOptions;
  /** An HTTP proxy that tunnels to the server. Without one, the server is called directly. */
  readonly proxy?: URL | undefined;
  /** Names the setting to change when only one of client and server speaks TLS. */
  readonly hints?: TlsHints;
}

interface UnaryOptions {
  /** Milliseconds until the deadline; Infinity when there is none. */
  readonly timeoutMs: number;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** Called with the first value of each text header of the response. */
  readonly onHeader?: (name: string, value: string) => void;
}

export interface StreamOptions {
  readonly metadata?: Readonly<Record<string, string>>;
  /** Called with each message. An exception ends the stream with a fault. */
  readonly received: (message: Uint8Array) => void;
  /** Called once at the end. The fault is undefined if the server ended the stream with OK. */
  readonly ended: (fault: Fault | undefined) => void;
}

/** A call whose two sides send any number of messages. */
export interface GrpcStream {
  send(message: Uint8Array): void;
  /** Ends the call with CANCELLED. */
  cancel(): void;
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
    const { connected, metadata } = await this.#begin(options.metadata);
    const { client } = connected;
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
          this.#over(connected);
          if (reply !== undefined && error === null) resolve(reply);
          else reject(faultOf(error, this.#path));
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

  /** Opens a stream in both directions. `method` is `/package.Service/Method`. */
  async stream(method: string, options: StreamOptions): Promise<GrpcStream> {
    const { connected, metadata } = await this.#begin(options.metadata);
    const same = (bytes: Buffer) => bytes;
    const call = connected.client.makeBidiStreamRequest(method, same, same, metadata, {});
    let over = false;
    const end = (fault: Fault | undefined) => {
      if (over) return;
      over = true;
      this.#over(connected);
      options.ended(fault);
    };
    call.on("data", (message: Buffer) => {
      if (over) return;
      try {
        options.received(message);
      } catch (thrown) {
        // An exception in an event listener would end the process.
        call.cancel();
        const why = `a message of the server cannot be read: ${Fault.from(thrown).message}`;
        end(new Fault("INTERNAL", why, { cause: thrown }));
      }
    });
    // The status follows every error and says the same.
    call.on("error", () => undefined);
    call.on("status", (status: StatusObject) => {
      end(
        status.code === 0 ? undefined : faultOf({ ...status, name: "", message: "" }, this.#path),
      );
    });
    return {
      send: (message) => void call.write(Buffer.from(message)),
      cancel: () => call.cancel(),
    };
  }

  async #begin(
    entries: Readonly<Record<string, string>> = {},
  ): Promise<{ connected: Connected; metadata: Metadata }> {
    this.#grpc ??= loadGrpc();
    const grpc = await this.#grpc;
    if (this.#closed) throw new Fault("CANCELLED", "the gRPC client was closed");
    const connected = this.#connect(grpc);
    connected.calls += 1;
    const metadata = new grpc.Metadata();
    for (const [name, value] of Object.entries(entries)) metadata.set(name, value);
    return { connected, metadata };
  }

  get #path(): GrpcPath {
    const { tls, sharedKey, proxy, hints } = this.#settings;
    return { isSecure: tls !== undefined || sharedKey !== undefined, proxy, hints };
  }

  /** A call has ended. Replaced connections are closed with their last call. */
  #over(connected: Connected): void {
    connected.calls -= 1;
    if (connected !== this.#connected && connected.calls === 0) connected.client.close();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#settings.tls?.close();
    this.#connected?.client.close();
    this.#connected = undefined;
  }

  /** The connections for the next call: new ones if the TLS files have changed. */
  #connect(grpc: Grpc): Connected {
    const { address, tls, tlsOptions = {}, sharedKey, proxy } = this.#settings;
    const { target, channel: routed } = grpcRoute(address, proxy);
    const channel = { ...this.#settings.channel, ...routed };
    const material = tls?.current;
    const before = this.#connected;
    if (before !== undefined && before.material === material) return before;
    const credentials =
      sharedKey !== undefined
        ? sharedKeyCredentials(grpc, sharedKey)
        : material === undefined
          ? grpc.credentials.createInsecure()
          : secureCredentials(grpc, material, address, tlsOptions);
    const client = new grpc.Client(target, credentials, channel);
    this.#connected = { client, material, calls: 0 };
    if (before?.calls === 0) before.client.close();
    return this.#connected;
  }
}

interface Connected {
  readonly client: Client;
  readonly material: TlsMaterial | undefined;
  /** Calls that have no reply yet. */
  calls: number;
}

/** The library logs each failed attempt through a proxy to stderr. Our faults say the same, once per call. */
async function loadGrpc(): Promise<Grpc> {
  const grpc = await import("@grpc/grpc-js");
  grpc.setLogger({ error: () => undefined });
  return grpc;
}
