// The HTTP/2 server: it takes over sockets, and owns all connections, the memory they share, their ages and their ends.

import type { Socket } from "node:net";
import { WarningLimiter } from "#base/async/warning-limiter.ts";
import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import type { Http2Fault, ServerMeter } from "#base/server-meter.ts";
import { Connection, type ConnectionContext } from "./connection/connection.ts";
import { PacedReader } from "./connection/paced-reader.ts";
import { ConnectionMonitor, type Http2Timeouts, sweepInterval } from "./connection/timeouts.ts";
import type { RequestHandler, RequestHead } from "./exchange.ts";
import { ChunkPool } from "./frames/output.ts";
import {
  LINGER_MS,
  MAX_BUFFERED_TOTAL,
  MAX_HEADER_LIST_SIZE,
  RESERVED_FOR_LIGHT_CONNECTIONS,
} from "./limits.ts";
import type { ReadScheduler } from "./read-scheduler.ts";

/** Relative spread of connection ages, so that connections opened together do not close together. */
const AGE_SPREAD = 0.1;

/** Under their documented names in the configuration. Times are in ms; 0 = no limit. */
export interface Http2Settings {
  readonly idle_timeout: number;
  readonly max_connection_age: number;
  readonly max_connection_age_grace: number;
  readonly max_header_bytes: number;
  readonly max_headers: number;
  /** 0 = `read_timeout`. */
  readonly read_header_timeout: number;
  readonly read_timeout: number;
  readonly write_timeout: number;
}

interface Http2ServerOptions {
  readonly handleRequest: RequestHandler;
  /** True if requests with this method and path get a reply even if they are malformed. Default: none do. */
  readonly repliesUnread?: (head: RequestHead) => boolean;
  readonly settings: Http2Settings;
  readonly scheduler: ReadScheduler;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: ServerMeter | undefined;
  /** Random number from 0 to below 1, for the spread of ages. */
  readonly chance?: () => number;
}

interface OpenConnection {
  readonly socket: Socket;
  readonly monitor: ConnectionMonitor;
  readonly connection: Connection;
  cancelAlarm: () => void;
}

export class Http2Server implements ConnectionContext {
  readonly handleRequest: RequestHandler;
  readonly repliesUnread: (head: RequestHead) => boolean;
  readonly chunkPool = new ChunkPool();
  readonly maxHeaderList: number;
  readonly maxFields: number;
  readonly #options: Http2ServerOptions;
  readonly #timeouts: Http2Timeouts;
  readonly #warnings: WarningLimiter;
  readonly #sweepMs: number;
  readonly #connections = new Map<Connection, OpenConnection>();
  readonly #bySocket = new WeakMap<Socket, Connection>();
  readonly #toFlush: Connection[] = [];
  #flushScheduled = false;
  #reserved = 0;
  #cancelSweep: (() => void) | undefined;

  constructor(options: Http2ServerOptions) {
    this.#options = options;
    this.handleRequest = options.handleRequest;
    this.repliesUnread = options.repliesUnread ?? (() => false);
    this.#warnings = new WarningLimiter(options.clock, options.log);
    const { idle_timeout, max_header_bytes, read_header_timeout, read_timeout, write_timeout } =
      options.settings;
    this.maxHeaderList = Math.min(max_header_bytes || MAX_HEADER_LIST_SIZE, MAX_HEADER_LIST_SIZE);
    this.maxFields = options.settings.max_headers;
    this.#timeouts = {
      frame: read_header_timeout || read_timeout,
      request: read_timeout,
      reply: write_timeout,
      idle: idle_timeout,
    };
    this.#sweepMs = sweepInterval(this.#timeouts);
  }

  accept(socket: Socket): void {
    // HTTP/2 needs both directions, but the reader handles the bytes before the end first.
    socket.allowHalfOpen = true;
    const connection = new Connection(socket, this);
    const monitor = new ConnectionMonitor(connection, this.#timeouts, this.#sweepMs);
    const entry: OpenConnection = {
      socket,
      monitor,
      connection,
      cancelAlarm: () => undefined,
    };
    this.#connections.set(connection, entry);
    this.#bySocket.set(socket, connection);
    const reader = new PacedReader(socket, connection, this.#options.scheduler);
    socket.on("drain", () => {
      if (!connection.open) return;
      connection.flush();
      reader.resume();
    });
    socket.once("close", () => {
      entry.cancelAlarm();
      this.#connections.delete(connection);
      connection.socketClosed();
      if (this.#connections.size === 0) this.#stopSweeps();
    });
    this.#limitAge(entry);
    this.#cancelSweep ??= this.#options.clock.alarm(this.#sweepMs, () => this.#sweep());
  }

  hasCalled(socket: Socket): boolean {
    return (this.#bySocket.get(socket)?.streams.highestId ?? 0) > 0;
  }

  closeIdle(socket: Socket): boolean {
    const connection = this.#bySocket.get(socket);
    if (connection === undefined || !connection.streams.empty || connection.awaitsTurn)
      return false;
    connection.completeGoAway();
    connection.flush();
    socket.destroySoon();
    return true;
  }

  /** Connected callers stay until the drain itself. */
  beginDrain(): void {}

  drain(): void {
    for (const { connection } of this.#connections.values()) connection.beginGoAway();
  }

  cut(): void {
    this.#stopSweeps();
  }

  // ConnectionContext

  fault(fault: Http2Fault, peer: string): void {
    this.#options.meter?.http2Fault(fault);
    this.#warnings.warn("a peer violated a rule or limit of HTTP/2", (count) => ({
      fault,
      peer: peer === "" ? "a Unix socket" : peer,
      faults_since_last_line: count,
    }));
  }

  internalError(thrown: unknown): void {
    this.#options.log.error({ error: thrown }, "an HTTP/2 connection failed");
  }

  reserve(bytes: number, light: boolean): boolean {
    const limit = light ? MAX_BUFFERED_TOTAL : MAX_BUFFERED_TOTAL - RESERVED_FOR_LIGHT_CONNECTIONS;
    if (this.#reserved + bytes > limit) return false;
    this.#reserved += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#reserved -= bytes;
  }

  scheduleFlush(connection: Connection): void {
    if (connection.flushScheduled) return;
    connection.flushScheduled = true;
    this.#toFlush.push(connection);
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    setImmediate(() => this.#flush());
  }

  finished(connection: Connection, failed: boolean): void {
    const entry = this.#connections.get(connection);
    if (entry === undefined) return;
    const { socket } = entry;
    const linger = () => {
      entry.cancelAlarm();
      entry.cancelAlarm = this.#options.clock.alarm(LINGER_MS, () => socket.destroy());
    };
    // Stop reading from a peer that floods us; it may still read the error. Others are read to their end.
    if (failed) socket.pause();
    else socket.resume();
    // Replies in progress have their own limits: write_timeout, the grace of connection age, the drain's grace.
    if (failed || socket.writableLength === 0) linger();
    else socket.once("finish", linger);
    socket.end();
  }

  #flush(): void {
    this.#flushScheduled = false;
    for (const connection of this.#toFlush.splice(0)) {
      connection.flushScheduled = false;
      connection.flush();
    }
  }

  #limitAge(entry: OpenConnection): void {
    const { clock, chance = Math.random, settings } = this.#options;
    const { max_connection_age, max_connection_age_grace } = settings;
    if (max_connection_age <= 0) return;
    const age = max_connection_age * (1 - AGE_SPREAD + 2 * AGE_SPREAD * chance());
    entry.cancelAlarm = clock.alarm(age, () => {
      entry.connection.beginGoAway();
      if (max_connection_age_grace <= 0) return;
      entry.cancelAlarm = clock.alarm(max_connection_age_grace, () => entry.socket.destroy());
    });
  }

  #sweep(): void {
    for (const { monitor, socket } of this.#connections.values())
      if (!monitor.sweep()) socket.destroy();
    this.#cancelSweep = this.#options.clock.alarm(this.#sweepMs, () => this.#sweep());
  }

  #stopSweeps(): void {
    this.#cancelSweep?.();
    this.#cancelSweep = undefined;
  }
}
