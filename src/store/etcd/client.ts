// Calls to a cluster of etcd servers. One server is used until it fails, then the next one; when all have failed, the
// next round waits. Logging in is done here as well. Callers see only messages, and faults that name the server.

import { pause } from "#base/async/wait.ts";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log, LogFields } from "#base/log.ts";
import { GrpcClient } from "#client/grpc.ts";
import { type GrpcProxySettings, grpcProxy } from "#client/grpc-proxy.ts";
import { TlsFiles } from "#client/tls-files.ts";
import type { Decoded, Encodable } from "#wire/protobuf/message-types.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import { authIsOff, etcdFault, isTransient, needsToken, neverSent } from "./faults.ts";
import { type Endpoint, type EtcdSettings, endpointsOf } from "./settings.ts";

const METHODS = {
  range: ["KV/Range", "etcdserverpb.RangeRequest", "etcdserverpb.RangeResponse"],
  txn: ["KV/Txn", "etcdserverpb.TxnRequest", "etcdserverpb.TxnResponse"],
  grant: ["Lease/LeaseGrant", "etcdserverpb.LeaseGrantRequest", "etcdserverpb.LeaseGrantResponse"],
  revoke: [
    "Lease/LeaseRevoke",
    "etcdserverpb.LeaseRevokeRequest",
    "etcdserverpb.LeaseRevokeResponse",
  ],
  // On the wire, a stream with a single request is the same as a unary call.
  keepAlive: [
    "Lease/LeaseKeepAlive",
    "etcdserverpb.LeaseKeepAliveRequest",
    "etcdserverpb.LeaseKeepAliveResponse",
  ],
  authenticate: [
    "Auth/Authenticate",
    "etcdserverpb.AuthenticateRequest",
    "etcdserverpb.AuthenticateResponse",
  ],
} as const;

type Methods = typeof METHODS;
export type Method = keyof Methods;
export type Request<M extends Method> = Encodable<Methods[M][1]>;
export type Response<M extends Method> = Decoded<Methods[M][2]>;
export type WatchResponse = Decoded<"etcdserverpb.WatchResponse">;
export type KeyValue = NonNullable<WatchResponse["events"][number]["kv"]>;

export interface CallOptions {
  /**
   * True if making the call twice is harmless. Any other call is repeated only when it certainly did not reach a
   * server.
   */
  readonly repeatable: boolean;
  /** Milliseconds for all attempts together; 10 s unless given. */
  readonly timeoutMs?: number | undefined;
}

export interface EtcdClientOptions {
  readonly settings: EtcdSettings;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Log;
  /** Called when no server can be used (any more), with the reason, and with undefined when one can be used. */
  readonly reachable?: ((fault: Fault | undefined) => void) | undefined;
  readonly proxy?: GrpcProxySettings | undefined;
}

export interface WatchStream {
  send(request: Encodable<"etcdserverpb.WatchRequest">): void;
  cancel(): void;
}

interface Server extends Endpoint {
  readonly client: GrpcClient;
}

const CALL_MS = 10_000;
/** A server that does not answer for this long is given up for the next one. */
const ATTEMPT_MS = 3_000;
/** Pause between two rounds over all servers: it grows from the first to the longest, and half of it is random. */
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;
/** The largest reply that is read: lists come in pages, which are made smaller when they exceed it. */
const REPLY_BYTES = 32 * 1024 * 1024;

const HINTS = {
  forCleartext: "say http:// in etcd.endpoints, without etcd.tls",
  forTls: "say https:// in etcd.endpoints",
} as const;

const CHANNEL = {
  "grpc.use_local_subchannel_pool": 1,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 2_000,
  "grpc.max_receive_message_length": REPLY_BYTES,
  // etcd refuses clients that ping more often than every five seconds.
  "grpc.keepalive_time_ms": 7_000,
  "grpc.keepalive_timeout_ms": 4_000,
} as const;

export class EtcdClient {
  readonly #options: EtcdClientOptions;
  readonly #log: Log;
  readonly #servers: readonly Server[];
  readonly #closed = new AbortController();
  /** The server in use. */
  #at = 0;
  /** Failures since a server last answered. */
  #failures = 0;
  /** True if a server can be used; undefined before the first answer or failure. */
  #reachable: boolean | undefined;
  #token: Promise<string> | undefined;

  /** Throws a Fault for endpoints or TLS files that cannot be used. */
  constructor(options: EtcdClientOptions) {
    const { settings, clock, log, proxy } = options;
    this.#options = options;
    this.#log = log.child("etcd", levelOf(settings));
    const endpoints = endpointsOf(settings);
    const files = endpoints.some(({ tls }) => tls)
      ? new TlsFiles(settings.tls, { clock, log: this.#log, key: "etcd.tls" })
      : undefined;
    this.#servers = endpoints.map((endpoint) => {
      const { address, tls } = endpoint;
      const via = proxy && grpcProxy(address, tls, proxy);
      const secure = tls && files !== undefined ? { tls: files, tlsOptions: settings.tls } : {};
      return {
        ...endpoint,
        client: new GrpcClient({ address, proxy: via, channel: CHANNEL, hints: HINTS, ...secure }),
      };
    });
  }

  /**
   * Makes a call, at one server after the other until one answers or the time is up.
   * @throws Fault that names the server: UNAVAILABLE when no server answered; UNAUTHENTICATED, PERMISSION_DENIED,
   * RESOURCE_EXHAUSTED and others as the server decided
   */
  async call<M extends Method>(
    method: M,
    request: Request<M>,
    { repeatable, timeoutMs = CALL_MS }: CallOptions,
  ): Promise<Response<M>> {
    const until = this.#options.clock.now() + timeoutMs;
    let renewed = false;
    let known: Fault | undefined;
    for (let attempt = 1; ; attempt++) {
      const server = this.#server();
      const token = this.#token;
      try {
        return await this.#attempt(server, method, request, until);
      } catch (thrown) {
        const raw = Fault.from(thrown);
        if (needsToken(raw) && !renewed && this.#options.settings.username !== "") {
          renewed = true;
          if (this.#token === token) this.#token = undefined;
          this.#log.debug?.({ server: server.address }, "asking etcd for another token");
          continue;
        }
        const fault = etcdFault(server, raw);
        this.#closed.signal.throwIfAborted();
        if (!isTransient(raw)) {
          this.#answered();
          throw fault;
        }
        this.#failed(server, fault);
        if (!repeatable && !neverSent(raw)) throw fault;
        // The end of the time says less than a failure before it.
        if (raw.code !== "DEADLINE_EXCEEDED") known = fault;
        if (this.#options.clock.now() >= until) throw known ?? fault;
        if (attempt % this.#servers.length === 0) await this.pause(attempt / this.#servers.length);
      }
    }
  }

  /** Opens a stream of watches at the server in use. `ended` is called once, when it no longer delivers anything. */
  async watch(
    received: (response: WatchResponse) => void,
    ended: (fault: Fault) => void,
  ): Promise<WatchStream> {
    const server = this.#server();
    const until = this.#options.clock.now() + ATTEMPT_MS;
    let cancelled = false;
    const stream = await server.client.stream("/etcdserverpb.Watch/Watch", {
      // A member that is cut off from the others ends the stream instead of being silent.
      metadata: { ...(await this.#credentials(server, until)), hasleader: "true" },
      received: (bytes) => {
        this.#answered();
        received(decode("etcdserverpb.WatchResponse", bytes));
      },
      ended: (thrown) => {
        const raw = thrown ?? new Fault("UNAVAILABLE", "the server ended the watch");
        const fault = etcdFault(server, raw);
        // A stream that was cancelled here says nothing about its server.
        if (!cancelled && !this.#closed.signal.aborted && isTransient(raw)) {
          this.#failed(server, fault);
        }
        ended(fault);
      },
    });
    return {
      send: (request) => stream.send(encode("etcdserverpb.WatchRequest", request)),
      cancel: () => {
        cancelled = true;
        stream.cancel();
      },
    };
  }

  /** True if it is known that no server can be used at present. */
  get isAway(): boolean {
    return this.#reachable === false;
  }

  /** Gives up the server in use for the next one. */
  moveOn(fault: Fault): void {
    this.#failed(this.#server(), fault);
  }

  /** The token in use may have been refused: the next call asks for another one. */
  forgetToken(): void {
    this.#token = undefined;
  }

  /** Waits before the next round of attempts, counted from 1. Rejects when the client is closed. */
  async pause(round: number): Promise<void> {
    const { clock, chance } = this.#options;
    const longest = Math.min(FIRST_PAUSE_MS * 2 ** (round - 1), LONGEST_PAUSE_MS);
    const { signal } = this.#closed;
    await pause((longest * (1 + chance())) / 2, clock, signal);
    signal.throwIfAborted();
  }

  async close(): Promise<void> {
    this.#closed.abort(new Fault("CANCELLED", "the store was closed"));
    await Promise.all(this.#servers.map(({ client }) => client.close()));
  }

  #server(): Server {
    const server = this.#servers[this.#at];
    if (server === undefined) throw new Error("there is always a server in use");
    return server;
  }

  async #attempt<M extends Method>(
    server: Server,
    method: M,
    request: Request<M>,
    until: number,
  ): Promise<Response<M>> {
    this.#closed.signal.throwIfAborted();
    const metadata =
      method === "authenticate" ? {} : await this.#credentials(server, until, method);
    const [path, input, output] = METHODS[method];
    const started = this.#options.clock.now();
    const left = Math.max(1, until - started);
    const options = {
      timeoutMs: Math.min(left, ATTEMPT_MS),
      metadata,
      signal: this.#closed.signal,
    };
    const logResult = (result: LogFields) => {
      const line = method === "keepAlive" ? this.#log.trace : this.#log.debug;
      const ms = Math.round(this.#options.clock.now() - started);
      line?.({ server: server.address, call: path, ms, ...result }, "called etcd");
    };
    const call = server.client.call(`/etcdserverpb.${path}`, encode(input, request), options);
    const reply = await call.catch((thrown: unknown) => {
      logResult({ error: thrown });
      throw thrown;
    });
    logResult({ bytes: reply.length });
    this.#answered();
    return decode(output, reply) as Response<M>;
  }

  async #credentials(
    server: Server,
    until: number,
    method?: Method,
  ): Promise<Readonly<Record<string, string>>> {
    const { username } = this.#options.settings;
    const leader = method === "keepAlive" ? { hasleader: "true" } : {};
    if (username === "") return leader;
    this.#token ??= this.#logIn(server, until);
    const asked = this.#token;
    try {
      const token = await asked;
      return token === "" ? leader : { ...leader, token };
    } catch (thrown) {
      if (this.#token === asked) this.#token = undefined;
      throw thrown;
    }
  }

  async #logIn(server: Server, until: number): Promise<string> {
    const { username, password } = this.#options.settings;
    try {
      const request = { name: username, password };
      return (await this.#attempt(server, "authenticate", request, until)).token;
    } catch (thrown) {
      if (!authIsOff(Fault.from(thrown))) throw thrown;
      const message = `etcd at ${server.address} has no authentication: etcd.username is not used`;
      this.#log.warn({}, message);
      return "";
    }
  }

  #answered(): void {
    this.#failures = 0;
    if (this.#reachable === true) return;
    this.#reachable = true;
    this.#log.info({}, `etcd at ${this.#server().address} answers`);
    this.#options.reachable?.(undefined);
  }

  #failed(server: Server, fault: Fault): void {
    this.#failures += 1;
    if (this.#servers[this.#at] === server) this.#at = (this.#at + 1) % this.#servers.length;
    if (this.#failures < this.#servers.length || this.#reachable === false) return;
    this.#reachable = false;
    this.#log.error({}, `no etcd server can be used: ${fault.message}`);
    this.#options.reachable?.(fault);
  }
}

/** `etcd.log_level`, in any case of letters. Empty means error; so does every level above it. */
function levelOf({ log_level }: EtcdSettings): string {
  const level = log_level.toLowerCase();
  return ["debug", "info", "warn"].includes(level) ? level : "error";
}
