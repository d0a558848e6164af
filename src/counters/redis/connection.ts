// The connection to Redis or Valkey: one server, the master that Sentinels name, or a cluster. Loaded only where counters
// are kept there, because the client library takes time and memory.

import { Cluster, Redis, type RedisOptions } from "ioredis";
import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault, systemErrorText } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { splitHostPort, withoutBrackets } from "#base/net/host-port.ts";
import { TlsFiles, type TlsMaterial } from "#client/tls-files.ts";
import {
  type Channel,
  type ReplyReceiver,
  type Requests,
  receiveAll,
  UNDECIDABLE,
} from "../requests.ts";
import type { RedisSettings } from "../settings.ts";
import { Batches } from "./batches.ts";
import {
  FOREIGN,
  type KeySpace,
  limiterOf,
  probeKey,
  type Script,
  type ScriptRequest,
} from "./keys.ts";
import { explained, isMisconfigured, unreached } from "./refusals.ts";

/** Time limit for connecting and for the handshake after it, ms. */
const CONNECT_MS = 2_000;
/** The error of a server that stays silent for this time. */
const NO_REPLY = `no reply in ${CONNECT_MS} ms`;
/** Least time between two log lines about keys that hold no counter, ms. */
const REPORT_MS = 60_000;
/** Time between two attempts to connect, ms. */
const RETRY_MS = 500;
export const DEFAULT_PORT = 6379;
const SENTINEL_PORT = 26379;

/**
 * A probe runs every command of the other scripts, including writes, so that a missing permission is found at once. It
 * leaves no key behind.
 */
const PROBE = `
redis.call('TIME')
redis.call('SET', KEYS[1], '1', 'PX', 60000)
redis.call('GET', KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('ZADD', KEYS[1], 1, 'a', 2, 'b')
redis.call('PEXPIRE', KEYS[1], 60000)
redis.call('ZSCORE', KEYS[1], 'a')
redis.call('ZCARD', KEYS[1])
redis.call('ZCOUNT', KEYS[1], 0, 1)
redis.call('ZRANGEBYSCORE', KEYS[1], 0, 1)
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, 1)
return redis.call('ZREM', KEYS[1], 'b')
`;

/** The requests of all limiters to Redis. */
export type ScriptRequests = Requests<ScriptRequest, string>;

/** The dependencies of one limiter in Redis. */
export interface RedisLimiter {
  readonly requests: ScriptRequests;
  readonly clock: Clock;
  readonly keys: KeySpace;
  /** Called for each request that is undecided because its key may not be created. */
  readonly noRoom: () => void;
}

export interface ConnectionOptions {
  readonly settings: RedisSettings;
  readonly clock: Clock;
  readonly log: Log;
  /** A connection that was in use is lost. */
  readonly lost: (reason: string) => void;
}

type Client = Redis | Cluster;

export class RedisConnection implements Channel<ScriptRequest, string> {
  readonly #client: Client;
  readonly #files: TlsFiles | undefined;
  readonly #settings: RedisSettings;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #lost: (reason: string) => void;
  readonly #batches = new Batches((script, keys, args) => this.#call(script, keys, args));
  /** The last error of the connection, which says more than that of a request without a connection. */
  #error: string | undefined;
  /** Why the configured database could not be selected. The client library would continue in database 0. */
  #wrongDatabase: string | undefined;
  #stopHandshake: (() => void) | undefined;
  /** `connect` has reported how the first attempt went. */
  #attempted = false;
  #closing = false;
  #reportAt = Number.NEGATIVE_INFINITY;

  /** Throws a Fault when a file for TLS cannot be used. Connects at `connect`. */
  constructor({ settings, clock, log, lost }: ConnectionOptions) {
    this.#settings = settings;
    this.#clock = clock;
    this.#log = log;
    this.#lost = lost;
    this.#files = settings.url.startsWith("rediss:")
      ? new TlsFiles(settings.tls, { clock, log, key: "counters.redis.tls" })
      : undefined;
    const files = this.#files;
    const client = clientOf(settings, files);
    const server = URL.parse(settings.url)?.host;
    this.#client = client;
    client.on("error", (error: Error & { command?: { name: string } }) => {
      this.#error = textOf(error);
      if (error.command?.name === "select") this.#wrongDatabase = `SELECT: ${error.message}`;
    });
    client.on("connect", () => {
      this.#wrongDatabase = undefined;
      this.#stopHandshake?.();
      // A frozen server accepts connections but does not answer.
      this.#stopHandshake = clock.alarm(CONNECT_MS, () => {
        if (client.status === "ready") return;
        this.#error ??= NO_REPLY;
        client.disconnect(true);
      });
    });
    client.on("ready", () => {
      this.#error = undefined;
      this.#stopHandshake?.();
      log.debug?.({ server }, "connected to Redis");
    });
    client.on("close", () => {
      this.#stopHandshake?.();
      log.debug?.({ server, reason: this.#error }, "the connection to Redis is closed");
      // The next attempt uses the files as they are then.
      if (files !== undefined) adoptTls(client, tlsOptions(files.current, settings));
      if (this.#attempted && !this.#closing)
        this.#lost(this.#explained(this.#error ?? "the connection was closed"));
    });
  }

  /**
   * Resolves with undefined when the server can count, otherwise with the reason why not; the client then keeps trying to
   * connect. Throws a Fault if the configuration is wrong, so that further attempts cannot succeed.
   */
  async connect(): Promise<string | undefined> {
    const reason = await this.#attempt();
    this.#attempted = true;
    if (reason === undefined) return undefined;
    if (!isMisconfigured(reason)) return unreached(reason, this.#settings);
    const wanted = "counters.redis: wanted a server that accepts these settings";
    throw new Fault("FAILED_PRECONDITION", `${wanted}, but ${this.#explained(reason)}`);
  }

  #explained(said: string): string {
    return explained(said, this.#settings);
  }

  async #attempt(): Promise<string | undefined> {
    const attempt = this.#client.connect().then(
      () => this.#probe("{start}").then(() => undefined, textOf),
      (thrown: unknown) => this.#error ?? textOf(thrown),
    );
    const late = () => this.#error ?? NO_REPLY;
    return within(CONNECT_MS, this.#clock, attempt, late);
  }

  run(request: ScriptRequest, receiver: ReplyReceiver<string>): void {
    // In a cluster, keys are in different hash slots, and a call may use only one. The client pipelines calls to a node.
    if (this.#client instanceof Cluster) {
      const { script, key, args } = request;
      void receiveAll([receiver], () => this.#call(script, [key], [args]));
    } else this.#batches.add(request, receiver);
  }

  /** Runs a script. A key whose value is not a counter gets UNDECIDABLE; the others get their replies. */
  async #call(script: Script, keys: readonly string[], args: readonly string[]) {
    const replies = await this.#eval(script, keys, args);
    if (!replies.includes(FOREIGN)) return replies;
    return replies.map((reply, at) => {
      if (reply !== FOREIGN) return reply;
      this.#reportForeign(keys[at] ?? "");
      return UNDECIDABLE;
    });
  }

  /** Logs such keys rarely, because any flow may ask about one. */
  #reportForeign(key: string): void {
    const now = this.#clock.now();
    if (now < this.#reportAt) return;
    this.#reportAt = now + REPORT_MS;
    const what = "holds a value of something else, on_failure of its component answers for it";
    this.#log.error({}, `shared counters: a key of Redis below ${limiterOf(key)} ${what}`);
  }

  async #eval(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
  ): Promise<readonly string[]> {
    try {
      return repliesOf(script, keys.length, await this.#run(script, keys, args));
    } catch (thrown) {
      throw this.#explainedError(thrown);
    }
  }

  /** Sends the hash of the script, or the whole script if the server does not know it. */
  async #run({ text, sha }: Script, keys: readonly string[], args: readonly string[]) {
    const all = [...keys, ...args];
    try {
      return await this.#client.evalsha(sha, keys.length, ...all);
    } catch (thrown) {
      if (!textOf(thrown).includes("NOSCRIPT")) throw thrown;
    }
    return this.#client.eval(text, keys.length, ...all);
  }

  #explainedError(thrown: unknown): Error {
    return new Error(this.#explained(textOf(thrown)), { cause: thrown });
  }

  async probe(request: ScriptRequest | undefined): Promise<void> {
    try {
      await this.#probe(request?.key ?? "");
    } catch (thrown) {
      throw this.#explainedError(thrown);
    }
  }

  async #probe(key: string): Promise<void> {
    if (this.#client.status !== "ready") throw new Error(this.#error ?? "not connected");
    if (this.#wrongDatabase !== undefined) {
      // The next connection selects the database again.
      this.reset();
      throw new Error(this.#wrongDatabase);
    }
    try {
      await this.#client.eval(PROBE, 1, probeKey(this.#settings.namespace, key));
    } catch (thrown) {
      // A server that is out of memory still counts existing keys.
      if (!textOf(thrown).includes("OOM")) throw thrown;
    }
  }

  reset(): void {
    this.#client.disconnect(true);
  }

  close(): void {
    this.#closing = true;
    this.#stopHandshake?.();
    this.#client.disconnect();
    this.#files?.close();
  }
}

/** Throws if the replies are not those of the script, for example because the server is not Redis. */
function repliesOf({ isReply }: Script, count: number, received: unknown): readonly string[] {
  const wanted = `wanted ${count} replies of a script of Sluice`;
  if (!Array.isArray(received) || received.length !== count)
    throw new Error(`${wanted}, got ${shapeOf(received)}`);
  for (const reply of received) {
    if (typeof reply !== "string" || (reply !== FOREIGN && !isReply(reply)))
      throw new Error(`${wanted}, got ${shapeOf(reply)} among them`);
  }
  return received;
}

/** Describes a reply without its content, which may be private. */
function shapeOf(received: unknown): string {
  if (Array.isArray(received)) return `${received.length} of them`;
  return typeof received === "string" ? `a text of ${received.length} characters` : typeof received;
}

/** Makes further connections use these options. */
function adoptTls(client: Client, tls: ReturnType<typeof tlsOptions>): void {
  if (client instanceof Redis) client.options.tls = tls;
  else if (client.options.redisOptions !== undefined) client.options.redisOptions.tls = tls;
}

function clientOf(settings: RedisSettings, files: TlsFiles | undefined): Client {
  const { cluster, nodes, sentinel, username, password, url } = settings;
  const { hostname, port, pathname } = new URL(url);
  const tls = files === undefined ? undefined : tlsOptions(files.current, settings);
  const common = {
    ...(username === "" ? {} : { username }),
    ...(password === "" ? {} : { password }),
    ...(tls === undefined ? {} : { tls }),
    connectTimeout: CONNECT_MS,
    // Requests that cannot be sent or answered now are decided without Redis, not queued.
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    enableOfflineQueue: false,
    // The master has become a replica.
    reconnectOnError: (error: Error) => error.message.includes("READONLY"),
    lazyConnect: true,
  } satisfies RedisOptions;
  const first = { host: withoutBrackets(hostname), port: Number(port || DEFAULT_PORT) };
  const database = Number(pathname.slice(1) || 0);
  if (cluster) {
    if (database > 0) {
      const wanted = "counters.redis.url: wanted no database, because a cluster has only one";
      throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${database}`);
    }
    return new Cluster([first, ...nodes.map((node) => addressOf(node, DEFAULT_PORT))], {
      redisOptions: common,
      clusterRetryStrategy: () => RETRY_MS,
      clusterNodeRetryStrategy: () => RETRY_MS,
      slotsRefreshTimeout: CONNECT_MS,
      enableOfflineQueue: false,
      // Pipelines the calls of one turn of the event loop to one node.
      enableAutoPipelining: true,
      lazyConnect: true,
    });
  }
  const single = {
    ...common,
    db: database,
    retryStrategy: () => RETRY_MS,
  } satisfies RedisOptions;
  if (sentinel.master === "") return new Redis({ ...single, ...first });
  return new Redis({
    ...single,
    name: sentinel.master,
    sentinels: sentinel.addresses.map((address) => addressOf(address, SENTINEL_PORT)),
    ...(sentinel.username === "" ? {} : { sentinelUsername: sentinel.username }),
    ...(sentinel.password === "" ? {} : { sentinelPassword: sentinel.password }),
    ...(tls === undefined ? {} : { enableTLSForSentinelMode: true, sentinelTLS: tls }),
    sentinelCommandTimeout: CONNECT_MS,
    sentinelRetryStrategy: () => RETRY_MS,
  });
}

/** Options of a TLS connection. Servers are verified by their names, unless that is turned off. */
function tlsOptions({ ca, cert, key }: TlsMaterial, { tls }: RedisSettings) {
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    rejectUnauthorized: !tls.insecure_skip_verify,
  };
}

/** The parts of `host:port` or `[host]:port`. */
function addressOf(text: string, defaultPort: number): { host: string; port: number } {
  const { host, port } = splitHostPort(text);
  return { host, port: Number(port || defaultPort) };
}

/**
 * A cluster reports that all nodes failed; the error of the last node says why. The client library's own timeout, which
 * has a field `errorno`, says "connect ETIMEDOUT" even if the server accepted the connection but not the TLS handshake.
 */
function textOf(thrown: unknown): string {
  if (thrown instanceof Error) {
    if ("errorno" in thrown && thrown.errorno === "ETIMEDOUT") return NO_REPLY;
    if ("lastNodeError" in thrown && thrown.lastNodeError instanceof Error)
      return textOf(thrown.lastNodeError);
  }
  return systemErrorText(thrown) || "the connection failed";
}
