// The fast path of HTTP/1.1: a connection is served here while its requests are simple, and moves to Node's server for
// good at the first one that is not. Node's server creates a stream for each request and each reply, which costs as
// much as the whole check.

import type { Socket } from "node:net";
import type { Held, HttpRequest } from "#base/handler.ts";
import { canonicalAddress } from "#base/net/ip-address.ts";
import type { PooledBytes } from "#h2/read-buffers.ts";
import { type QueuedReader, WORK_OF_JSON_REQUEST } from "#h2/read-scheduler.ts";
import { NO_BODY } from "../body.ts";
import type { HttpContext } from "../context.ts";
import { HttpExchange } from "../exchange.ts";
import { FastReplyWriter } from "./fast-reply.ts";
import { type FastRequest, FastRequestReader } from "./fast-request.ts";
import { ReplyConfirmation } from "./reply-confirmation.ts";

/** Bytes of further requests that are read while a reply is pending. */
const MAX_READ_AHEAD = 64 * 1_024;

/** The dependencies that all connections of the fast path share. */
export class FastPath {
  readonly context: HttpContext;
  readonly requests: FastRequestReader;
  readonly replies: FastReplyWriter;
  /** Moves a connection to Node's server; its next bytes are `rest`. */
  readonly handOver: (socket: Socket, rest: Buffer) => void;
  readonly #open = new Map<Socket, FastConnection>();

  constructor(
    context: HttpContext,
    maxHeadBytes: number,
    handOver: (socket: Socket, rest: Buffer) => void,
  ) {
    this.context = context;
    this.requests = new FastRequestReader(maxHeadBytes, context.settings.max_headers);
    this.replies = new FastReplyWriter(context);
    this.handOver = handOver;
  }

  accept(socket: Socket): void {
    this.#open.set(socket, new FastConnection(this, socket));
  }

  remove(socket: Socket): void {
    this.#open.delete(socket);
  }

  /** Closes this connection if it is here and idle. Returns whether it did. */
  closeIfIdle(socket: Socket): boolean {
    return this.#open.get(socket)?.closeIfIdle() === true;
  }

  closeIdle(): void {
    for (const connection of [...this.#open.values()]) connection.closeIfIdle();
  }
}

class FastConnection implements QueuedReader {
  since = 0;
  readonly socket: Socket;
  readonly fastPath: FastPath;
  /** The exchange whose reply is not complete. */
  #exchange: FastExchange | undefined;
  /** Bytes that arrived while a reply was pending. */
  #rest: Buffer | undefined;
  /** Bytes that were read and wait in the scheduler. */
  #unhandled: PooledBytes | undefined;
  /** Nothing has been handled yet. */
  #isNew = true;
  /** The caller has closed its half. */
  #ended = false;
  #handedOver = false;
  #closing = false;
  #replyConfirmation: ReplyConfirmation | undefined;
  readonly #read = (chunk: Buffer) => this.#receive(chunk);
  readonly #written = () => this.#exchange?.written();
  /** As in Node's server: a caller that closes its half does not get replies that are not ready. */
  readonly #end = () => {
    this.#ended = true;
    // A request that came with the end is answered.
    if (this.#unhandled !== undefined) return;
    const close = () => this.socket.destroySoon();
    if (this.#replyConfirmation === undefined) close();
    else this.#replyConfirmation.whenEnded(close);
  };
  readonly #idleTimeout = () => this.closeIfIdle();
  readonly #closed = () => {
    this.fastPath.remove(this.socket);
    this.#exchange?.socketClosed();
  };

  constructor(fastPath: FastPath, socket: Socket) {
    this.fastPath = fastPath;
    this.socket = socket;
    socket.setTimeout(Math.ceil(fastPath.context.settings.idle_timeout));
    socket.on("timeout", this.#idleTimeout);
    socket.on("close", this.#closed);
    socket.on("end", this.#end);
    socket.on("data", this.#read);
  }

  closeIfIdle(): boolean {
    const idle = this.#exchange === undefined && this.#unhandled === undefined;
    if (idle) this.socket.destroy();
    return idle;
  }

  /**
   * Sends a whole reply. Returns true if the system has accepted all of it; otherwise `written` is called when it has.
   */
  send(head: string, body: Uint8Array | string, length: number): boolean {
    const { socket } = this;
    if (this.fastPath.replies.send(socket, head, body, length)) return true;
    // Written after the reply: a callback of the reply itself would cost a turn of Node's queue of ticks.
    socket.write(NO_BODY, this.#written);
    return false;
  }

  /** Releases `held` unless the caller takes the reply that is sent next. */
  releaseUnlessTaken(held: Held): void {
    this.#replyConfirmation ??= new ReplyConfirmation(this.socket, this.fastPath.context);
    this.#replyConfirmation.add(held);
  }

  /** The current request is the last. */
  close(): void {
    this.#closing = true;
  }

  /** The exchange has finished. */
  exchangeFinished(): void {
    this.#exchange = undefined;
    const { socket } = this;
    // A further request could not be answered.
    if (!socket.writable) return;
    if (this.#closing || this.fastPath.context.draining) socket.destroySoon();
    else if (this.#rest !== undefined) {
      this.#handOver(this.#rest);
      socket.resume();
    }
  }

  #receive(chunk: Buffer): void {
    const { scheduler } = this.fastPath.context;
    if (this.#unhandled === undefined && scheduler.startSlice()) {
      scheduler.spend(WORK_OF_JSON_REQUEST);
      this.#handle(chunk);
      return;
    }
    // A paused socket may deliver one more read.
    if (this.#unhandled === undefined) {
      this.since = scheduler.now();
      scheduler.enqueue(this, this.#isNew);
    }
    const before = this.#takeUnhandled();
    const all = before === undefined ? chunk : Buffer.concat([before, chunk]);
    this.#unhandled = scheduler.buffers.store(all);
    this.socket.pause();
  }

  work(): boolean {
    const chunk = this.#takeUnhandled();
    if (chunk === undefined || this.socket.destroyed) return false;
    this.fastPath.context.scheduler.spend(WORK_OF_JSON_REQUEST);
    this.socket.resume();
    this.#handle(chunk);
    if (this.#ended && !this.#handedOver) this.#end();
    return false;
  }

  #takeUnhandled(): Buffer | undefined {
    const chunk = this.#unhandled?.copy();
    this.#unhandled?.release();
    this.#unhandled = undefined;
    return chunk;
  }

  #handle(chunk: Buffer): void {
    this.#isNew = false;
    if (this.#exchange !== undefined) {
      this.#rest = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk]);
      // Reading on shows whether the caller is still there.
      if (this.#rest.length > MAX_READ_AHEAD) this.socket.pause();
      return;
    }
    this.#replyConfirmation?.requestArrived();
    const { context, requests } = this.fastPath;
    const request = context.closeAfterReply ? undefined : requests.read(chunk);
    if (request === undefined) {
      this.#handOver(chunk);
      return;
    }
    this.#exchange = new FastExchange(context, this, request);
    this.#exchange.begin();
  }

  #handOver(rest: Buffer): void {
    const { socket, fastPath } = this;
    socket.setTimeout(0);
    socket.off("timeout", this.#idleTimeout);
    socket.off("close", this.#closed);
    socket.off("end", this.#end);
    socket.off("data", this.#read);
    fastPath.remove(socket);
    this.#handedOver = true;
    fastPath.handOver(socket, rest);
    // Node's server has not seen it. It closes at the end, but replies first, which it does in this turn.
    if (this.#ended) setImmediate(() => socket.emit("end"));
  }
}

/** A request that could be refused because of its header section does not take the fast path. */
class FastExchange extends HttpExchange {
  readonly httpMethod = "POST";
  readonly copiesReply = true;
  readonly #connection: FastConnection;
  readonly #request: FastRequest;
  /** The handler has not replied at once. */
  #waited = false;
  #finished = false;

  constructor(context: HttpContext, connection: FastConnection, request: FastRequest) {
    super(context);
    this.#connection = connection;
    this.#request = request;
  }

  get headers(): HttpRequest["headers"] {
    return this.#request.headers;
  }

  get peer(): string {
    return canonicalAddress(this.#connection.socket.remoteAddress ?? "");
  }

  /** Everything written has been sent. */
  written(): void {
    if (super.answered) this.finished(true);
  }

  /** The connection has closed. */
  socketClosed(): void {
    this.finished(false);
  }

  protected get requestTarget(): string {
    return this.#request.target;
  }

  protected override get answered(): boolean {
    return super.answered || this.#connection.socket.destroyed;
  }

  protected override get announcedLength(): number {
    const { chunk, bodyStart } = this.#request;
    return chunk.length - bodyStart;
  }

  protected override get timeoutHeader(): string | undefined {
    return this.#request.timeout;
  }

  protected receiveBody(): void {
    const { chunk, bodyStart } = this.#request;
    this.completeBody(chunk.subarray(bodyStart));
  }

  protected sendReply(
    status: number,
    fields: readonly string[],
    body: Uint8Array | string,
    length: number,
  ): boolean {
    const connection = this.#connection;
    const { closeAfterReply: leaving } = this.context;
    if (leaving) connection.close();
    const now = this.#waited ? this.context.clock.now() : this.started;
    const head = connection.fastPath.replies.head(status, fields, now, leaving);
    return connection.send(head, body, length);
  }

  protected releaseUnlessTaken(held: Held): void {
    this.#connection.releaseUnlessTaken(held);
  }

  protected abortReply(): void {
    this.#connection.socket.destroy();
  }

  protected override handlerPending(): void {
    this.#waited = true;
  }

  protected override finished(whole: boolean): void {
    super.finished(whole);
    if (this.#finished) return;
    this.#finished = true;
    this.#connection.exchangeFinished();
  }
}
