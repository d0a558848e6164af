// One HTTP/2 stream. It sends the reply of its exchange in one piece where the windows allow, and buffers it where they
// do not.

import type { Duplex } from "node:stream";
import type { Held } from "#base/handler.ts";
import type { Http2Fault } from "#base/server-meter.ts";
import type { Exchange, FixedBlock, RequestStream } from "../exchange.ts";
import {
  ERROR_CODE,
  FLAG,
  FRAME_TYPE,
  MAX_FRAME_SIZE,
  writeFrameHeader,
  writeFrameLength,
} from "../frames/format.ts";
import type { FrameWriter } from "../frames/frame-writer.ts";
import type { Output } from "../frames/output.ts";
import type { Encoder } from "../hpack/encoder.ts";
import { STREAM_RECEIVE_WINDOW } from "../limits.ts";

/** `answered`: the whole reply was sent; `reset`: by us; `dropped`: by the peer, or the connection is gone. */
export type StreamEnd = "answered" | "reset" | "dropped";

/** The connection as its streams use it. */
export interface StreamContext {
  readonly peer: string;
  readonly socket: Duplex;
  readonly output: Output;
  readonly frames: FrameWriter;
  readonly encoder: Encoder;
  /** Data bytes that the peer accepts on all streams together. */
  sendWindow: number;
  fault(fault: Http2Fault): void;
  reserve(bytes: number): boolean;
  release(bytes: number): void;
  /** As `RequestStream.charge`. */
  charge(calls: number, fault: Http2Fault, isFault: boolean): void;
  /** The stream waits for the connection's send window, or for its socket. */
  streamBlocked(stream: H2Stream): void;
  streamEnded(stream: H2Stream, how: StreamEnd): void;
  /** A handler that outlived its stream has finished. */
  handlerFinished(): void;
}

interface PendingData {
  readonly bytes: Uint8Array;
  at: number;
}

export class H2Stream implements RequestStream {
  readonly id: number;
  /** The part of its request that was incomplete at the last sweep, and the sweep in which it began. */
  pendingPart = 1;
  pendingSince: number;
  exchange: Exchange | undefined;
  /** Data bytes that the peer accepts on this stream. */
  sendWindow: number;
  /** Data bytes that the peer may still send on this stream. */
  receiveWindow = STREAM_RECEIVE_WINDOW;
  /** Bytes of the announced content-length that have not arrived; -1 if none was announced. */
  remainingLength: number;
  /** The peer has ended its half: the request is complete. */
  remoteClosed = false;
  /** Released unless the peer takes the reply. */
  held: Held | undefined;
  /** Number of sweeps for which a reply has waited to be read completely. */
  blockedSweeps = 0;
  readonly #connection: StreamContext;
  #localClosed = false;
  #handlerRunning = false;
  #reserved = 0;
  /** A reservation was refused and counted as a fault: the reset that follows is not a second one. */
  #overBudget = false;
  #unsentIncrement = 0;
  #pending: PendingData[] | undefined;
  /** Trailers that follow the buffered body; `[]` ends the stream without any. */
  #pendingTrailers: readonly string[] | undefined;

  constructor(
    connection: StreamContext,
    id: number,
    sweep: number,
    sendWindow: number,
    remainingLength: number,
  ) {
    this.#connection = connection;
    this.id = id;
    this.pendingSince = sweep;
    this.sendWindow = sendWindow;
    this.remainingLength = remainingLength;
  }

  get peer(): string {
    return this.#connection.peer;
  }

  get socket(): Duplex {
    return this.#connection.socket;
  }

  get localClosed(): boolean {
    return this.#localClosed;
  }

  get handlerRunning(): boolean {
    return this.#handlerRunning;
  }

  /** Part of the reply waits until the peer accepts it. */
  get hasPendingData(): boolean {
    return this.#pending !== undefined;
  }

  respond(
    head: FixedBlock,
    more: readonly string[] | undefined,
    lead: Uint8Array,
    body: Uint8Array,
    trailers: FixedBlock,
  ): void {
    if (this.#localClosed) return;
    const connection = this.#connection;
    const size = lead.length + body.length;
    const room = HEADERS_ROOM + (more === undefined ? 0 : connection.encoder.room(more));
    const fits = size <= this.sendWindow && size <= connection.sendWindow && size <= MAX_FRAME_SIZE;
    if (!fits || room > MAX_FRAME_SIZE || connection.output.congested) {
      this.headers(more === undefined ? head.fields : [...head.fields, ...more], false);
      this.write(lead, false);
      this.write(body, false);
      this.headers(trailers.fields, true);
      return;
    }
    const { output } = connection;
    const bytes = output.allocate(size + room);
    let at = this.#writeHeaders(bytes, output.position, head, more, FLAG.endHeaders);
    at = writeFrameHeader(bytes, at, size, FRAME_TYPE.data, 0, this.id);
    for (let index = 0; index < lead.length; index++) bytes[at + index] = lead[index] ?? 0;
    at += lead.length;
    bytes.set(body, at);
    at += body.length;
    at = this.#writeHeaders(bytes, at, trailers, undefined, FLAG.endHeaders | FLAG.endStream);
    output.advance(at);
    this.sendWindow -= size;
    connection.sendWindow -= size;
    this.#finish();
  }

  headers(fields: readonly string[], last: boolean): void {
    if (this.#localClosed) return;
    if (this.#pending !== undefined) {
      if (!last) throw new Error("a reply's head must come before its body");
      this.#pendingTrailers = fields;
      return;
    }
    const { frames, encoder } = this.#connection;
    frames.headers(this.id, encoder.block(fields), last);
    if (last) this.#finish();
  }

  write(bytes: Uint8Array, last: boolean): boolean {
    if (this.#localClosed) return true;
    let at = 0;
    if (this.#pending === undefined) {
      at = this.#sendData(bytes, 0, last);
      if (at === bytes.length) {
        if (last) this.#finish();
        return true;
      }
    }
    this.#buffer(bytes, at);
    if (last) this.#pendingTrailers = [];
    return false;
  }

  /** The peer accepts more. */
  sendPending(): void {
    const pending = this.#pending;
    if (pending === undefined) return;
    for (let next = pending[0]; next !== undefined; next = pending[0]) {
      const ends = pending.length === 1 && this.#pendingTrailers?.length === 0;
      const at = this.#sendData(next.bytes, next.at, ends);
      if (at < next.bytes.length) {
        next.at = at;
        return;
      }
      pending.shift();
      this.release(next.bytes.length);
    }
    this.#pending = undefined;
    this.blockedSweeps = 0;
    const last = this.#pendingTrailers;
    if (last === undefined) this.exchange?.drained();
    else if (last.length === 0) this.#finish();
    else this.headers(last, true);
  }

  releaseIfUndelivered(held: Held): void {
    if (this.#localClosed) held.release();
    else this.held = held;
  }

  cancel(): void {
    if (this.#localClosed) return;
    if (this.#pending !== undefined && !this.#overBudget) this.#connection.fault("slow_reader");
    this.#reset(ERROR_CODE.cancel);
  }

  /** Ends the stream without sending anything: the peer reset it or is gone. */
  closeSilently(): void {
    if (this.#localClosed) return;
    this.#close("dropped");
    this.exchange?.aborted();
  }

  /** Resets the stream for a fault of the peer. */
  abort(code: number): void {
    if (this.#localClosed) return;
    this.#reset(code);
    this.exchange?.aborted();
  }

  extendReceiveWindow(bytes: number): void {
    if (this.remoteClosed || this.#localClosed) return;
    this.#unsentIncrement += bytes;
    if (this.#unsentIncrement < STREAM_RECEIVE_WINDOW / 2) return;
    this.#connection.frames.windowUpdate(this.id, this.#unsentIncrement);
    this.receiveWindow += this.#unsentIncrement;
    this.#unsentIncrement = 0;
  }

  reserve(bytes: number): boolean {
    if (this.#localClosed && (!this.#handlerRunning || this.#overBudget)) return false;
    this.#overBudget = !this.#connection.reserve(bytes);
    if (!this.#overBudget) this.#reserved += bytes;
    return !this.#overBudget;
  }

  release(bytes: number): void {
    const released = Math.min(bytes, this.#reserved);
    this.#reserved -= released;
    this.#connection.release(released);
  }

  charge(calls: number, fault: Http2Fault, isFault: boolean): void {
    this.#connection.charge(calls, fault, isFault);
  }

  handlerStarted(): void {
    this.#handlerRunning = true;
  }

  handlerFinished(): void {
    if (!this.#handlerRunning) return;
    this.#handlerRunning = false;
    if (!this.#localClosed) return;
    this.release(this.#reserved);
    this.#connection.handlerFinished();
  }

  /** Writes a HEADERS frame of a fixed block and further fields; returns the offset after it. */
  #writeHeaders(
    bytes: Uint8Array,
    start: number,
    block: FixedBlock,
    more: readonly string[] | undefined,
    flags: number,
  ): number {
    const { encoder } = this.#connection;
    const payload = writeFrameHeader(bytes, start, 0, FRAME_TYPE.headers, flags, this.id);
    const fixed = encoder.fixed(block);
    let at = payload;
    for (let index = 0; index < fixed.length; index++) bytes[at + index] = fixed[index] ?? 0;
    at += fixed.length;
    if (more !== undefined) {
      for (let index = 0; index < more.length; index += 2) {
        at = encoder.field(bytes, at, more[index] ?? "", more[index + 1] ?? "");
      }
    }
    writeFrameLength(bytes, start, at - payload);
    return at;
  }

  /** Sends as much of `bytes` from `start` on as the windows allow; returns the offset of the first unsent byte. */
  #sendData(bytes: Uint8Array, start: number, last: boolean): number {
    const connection = this.#connection;
    const { output } = connection;
    let at = start;
    do {
      // Windows may be negative (RFC 9113 §6.9.2).
      const part = Math.max(
        0,
        Math.min(MAX_FRAME_SIZE, bytes.length - at, this.sendWindow, connection.sendWindow),
      );
      const stops = output.congested || part === 0;
      if (stops && at < bytes.length) {
        // A stream without a window of its own waits for that first.
        if (this.sendWindow > 0) connection.streamBlocked(this);
        return at;
      }
      const ends = last && at + part === bytes.length;
      if (part > 0 || ends) {
        connection.frames.data(this.id, bytes, at, at + part, ends);
        this.sendWindow -= part;
        connection.sendWindow -= part;
        at += part;
      }
    } while (at < bytes.length);
    return at;
  }

  /** Buffers bytes that the peer does not accept. A stream beyond the memory limits is reset. */
  #buffer(bytes: Uint8Array, at: number): void {
    if (at === bytes.length) return;
    // Reserve before copying: a refused reply costs nothing, however long it is.
    if (!this.reserve(bytes.length - at)) {
      this.abort(ERROR_CODE.enhanceYourCalm);
      return;
    }
    this.#pending ??= [];
    this.#pending.push({ bytes: Uint8Array.prototype.slice.call(bytes, at), at: 0 });
  }

  /** Drops the unsent part of the reply. */
  #discardPending(): void {
    if (this.#pending === undefined) return;
    for (const { bytes } of this.#pending) this.release(bytes.length);
    this.#pending = undefined;
  }

  /** The reply has been sent completely. */
  #finish(): void {
    this.#close("answered");
  }

  #reset(code: number): void {
    this.#connection.frames.rstStream(this.id, code);
    this.#close("reset");
  }

  #close(how: StreamEnd): void {
    this.#localClosed = true;
    this.#discardPending();
    // Memory that a running handler still uses stays reserved.
    if (this.#reserved > 0 && !this.#handlerRunning) this.release(this.#reserved);
    this.#connection.streamEnded(this, how);
  }
}

/** For the two header frames of a reply and the header of its DATA frame. Fixed blocks are far smaller. */
const HEADERS_ROOM = 1_024;
