// Handles the frames of a peer (RFC 9113 §5 and §6): requests and their bodies here, all others in
// `control-frames.ts`.

import type { RequestHandler, RequestHead } from "../exchange.ts";
import { FieldBlockReader, type HeaderBounds } from "../fields/block-reader.ts";
import { malformed } from "../fields/validation.ts";
import {
  ConnectionError,
  flowControlError,
  frameSizeError,
  protocolError,
} from "../frames/connection-error.ts";
import { ERROR_CODE, FLAG, FRAME_TYPE, PAYLOAD_LENGTH } from "../frames/format.ts";
import type { FrameSink } from "../frames/frame-reader.ts";
import {
  BUFFERED_PER_CALL,
  BUFFERED_PER_FIELD_BYTE,
  CONNECTION_RECEIVE_WINDOW,
} from "../limits.ts";
import { H2Stream } from "../streams/stream.ts";
import { ControlFrames } from "./control-frames.ts";
import { abortStream, type ReceiveContext, resetClosedStream } from "./receive-context.ts";

/** The part of the transport's settings that concerns receiving. */
interface ReceiverSettings extends HeaderBounds {
  readonly handleRequest: RequestHandler;
  /** True if requests with this method and path get a reply even if they are malformed. */
  readonly repliesUnread: (head: RequestHead) => boolean;
}

export class FrameReceiver implements FrameSink {
  readonly #connection: ReceiveContext;
  readonly #handleRequest: RequestHandler;
  readonly #repliesUnread: ReceiverSettings["repliesUnread"];
  readonly #blocks: FieldBlockReader;
  readonly #controlFrames: ControlFrames;
  /**
   * Data bytes that the peer may send on the connection, and those that it has sent since the last update. The window
   * is reopened whether or not the data is still buffered: `reserve` bounds that.
   */
  #receiveWindow = CONNECTION_RECEIVE_WINDOW;
  #unacknowledged = 0;
  /** The stream of the current DATA frame, and whether the frame ends the request. */
  #dataStream: H2Stream | undefined;
  /** The stream of the current DATA frame if it was answered early and its body is discarded; otherwise 0. */
  #unreadStream = 0;
  #dataEndsStream = false;
  /** Bytes of the frame that have not been passed on; at the end, its padding. */
  #dataLeft = 0;
  /** The most recently opened stream, which the next DATA frame is most likely for. */
  #newest: H2Stream | undefined;
  /** Bytes that it counts as buffered if it outlives this read. */
  #newestCost = 0;

  constructor(connection: ReceiveContext, settings: ReceiverSettings) {
    this.#connection = connection;
    this.#handleRequest = settings.handleRequest;
    this.#repliesUnread = settings.repliesUnread;
    this.#controlFrames = new ControlFrames(connection);
    this.#blocks = new FieldBlockReader(
      settings,
      (stream, ends, block, start, end) => this.#fieldBlock(stream, ends, block, start, end),
      (stream, ends, head) => this.#oversized(stream, ends, head),
      connection,
    );
  }

  /** Stream id of an incomplete field block, or 0. */
  get openBlockStream(): number {
    return this.#blocks.openStream;
  }

  /** The connection has closed. */
  socketClosed(): void {
    this.#blocks.discard();
  }

  /** Ends the handling of one read. */
  endRead(): void {
    this.#reserveNewest();
    if (this.#unacknowledged < CONNECTION_RECEIVE_WINDOW / 2) return;
    this.#connection.frames.windowUpdate(0, this.#unacknowledged);
    this.#receiveWindow += this.#unacknowledged;
    this.#unacknowledged = 0;
  }

  reserve(bytes: number): boolean {
    return this.#connection.reserve(bytes);
  }

  release(bytes: number): void {
    this.#connection.release(bytes);
  }

  beginData(id: number, flags: number, length: number): void {
    if (this.#blocks.openStream !== 0) throw protocolError("a frame inside a field block");
    const { streams, budget } = this.#connection;
    if (streams.isIdle(id)) throw protocolError("DATA on an idle stream");
    this.#receiveWindow -= length;
    if (this.#receiveWindow < 0) {
      throw flowControlError("more data than the window");
    }
    this.#unacknowledged += length;
    const stream = streams.get(id);
    const ends = (flags & FLAG.endStream) !== 0;
    if (stream === undefined || stream.localClosed) {
      this.#dataStream = undefined;
      this.#unreadStream = 0;
      budget.controlFrame();
      if (streams.hasEarlyReply(id)) this.#beginUnread(id, length, ends);
      else if (!streams.wasResetBeforeEnd(id))
        resetClosedStream(this.#connection, id, ERROR_CODE.streamClosed, "stream");
      return;
    }
    this.#dataStream = stream;
    this.#dataEndsStream = ends;
    this.#dataLeft = length;
    stream.receiveWindow -= length;
    if (stream.remoteClosed)
      abortStream(this.#connection, stream, ERROR_CODE.streamClosed, "stream");
    else if (stream.receiveWindow < 0)
      abortStream(this.#connection, stream, ERROR_CODE.flowControl, "stream");
  }

  data(chunk: Buffer, start: number, end: number, last: boolean): void {
    const stream = this.#dataStream;
    if (last) this.#dataStream = undefined;
    const endsRequest = last && this.#dataEndsStream;
    if (stream === undefined || stream.localClosed) {
      // The request, or an earlier part of this frame, was answered or broke the stream.
      this.#discardBody(stream?.id ?? this.#unreadStream, end - start, endsRequest);
      return;
    }
    this.#dataLeft -= end - start;
    if (last && !endsRequest) {
      if (start === end) this.#connection.budget.controlFrame();
      // Only padding is left, which counts against the window although it is never read.
      if (this.#dataLeft > 0) stream.extendReceiveWindow(this.#dataLeft);
    }
    if (endsRequest) stream.remoteClosed = true;
    if (stream.remainingLength >= 0) {
      stream.remainingLength -= end - start;
      if (stream.remainingLength < 0 || (endsRequest && stream.remainingLength > 0)) {
        this.#brokenBody(stream);
        return;
      }
    }
    stream.exchange?.data(chunk, start, end, endsRequest);
  }

  frame(type: number, flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (this.#blocks.openStream !== 0 && type !== FRAME_TYPE.continuation) {
      throw protocolError("a frame inside a field block");
    }
    switch (type) {
      case FRAME_TYPE.headers:
        if (id === 0) throw protocolError("HEADERS on stream 0");
        this.#blocks.headers(flags, id, bytes, start, end);
        return;
      case FRAME_TYPE.continuation:
        this.#blocks.continuation(flags, id, bytes, start, end);
        return;
      case FRAME_TYPE.rstStream:
        this.#reset(id, bytes, start, end);
        return;
      case FRAME_TYPE.pushPromise:
        throw protocolError("PUSH_PROMISE from a client");
      default:
        this.#controlFrames.receive(type, flags, id, bytes, start, end);
    }
  }

  /** Handles a complete field block: a new request, or trailers. */
  #fieldBlock(id: number, ends: boolean, block: Buffer, start: number, end: number): void {
    const { streams } = this.#connection;
    if (id > streams.highestId) {
      this.#openStream(id, ends, block, start, end);
      return;
    }
    const stream = streams.get(id);
    if (stream !== undefined) this.#trailers(stream, ends, block, start, end);
    else if (streams.hasEarlyReply(id) || streams.wasResetBeforeEnd(id))
      this.#unreadTrailers(id, ends, block, start, end);
    else if (streams.wasOpen(id)) {
      throw new ConnectionError(ERROR_CODE.streamClosed, "protocol", "HEADERS on a closed stream");
    } else throw protocolError("stream ids must increase");
  }

  #openStream(id: number, ends: boolean, block: Buffer, start: number, end: number): void {
    if ((id & 1) === 0) throw protocolError("stream ids of a client must be odd");
    const connection = this.#connection;
    const { streams } = connection;
    const head = this.#blocks.request(block, start, end);
    streams.highestId = id;
    if (id > connection.lastStreamId) {
      // The request crossed our GOAWAY: the peer knows that it was not processed. Its data is ignored, too.
      streams.recordClosed(id, !ends);
      return;
    }
    if (head === undefined || this.#blocks.selfDependent) {
      this.#resetMalformed(id, ends);
      return;
    }
    if (head.flaw === "malformed" || (ends && head.contentLength > 0)) {
      this.#malformed(id, ends, head);
      return;
    }
    this.#handle(id, ends, head);
  }

  /** A server may answer a malformed request (RFC 9113 §8.1.1), but it must treat it as an error. */
  #malformed(id: number, ends: boolean, head: RequestHead): void {
    const connection = this.#connection;
    if (!this.#repliesUnread(head)) {
      this.#resetMalformed(id, ends);
      return;
    }
    connection.fault("malformed_request");
    this.#handle(id, ends, malformed(head));
  }

  #resetMalformed(id: number, ends: boolean): void {
    resetClosedStream(this.#connection, id, ERROR_CODE.protocol, "malformed_request");
    if (ends) this.#connection.streams.recordRemoteClosed(id);
  }

  /**
   * The connection ends after this request, whose block is too large to be read. Some requests get a reply
   * nevertheless.
   */
  #oversized(id: number, ends: boolean, head: RequestHead): void {
    const { streams, lastStreamId } = this.#connection;
    const opens = id > streams.highestId && (id & 1) === 1 && id <= lastStreamId;
    if (!opens || !this.#repliesUnread(head)) return;
    streams.highestId = id;
    this.#handle(id, ends, head);
  }

  #handle(id: number, ends: boolean, head: RequestHead): void {
    const connection = this.#connection;
    const { streams } = connection;
    this.#reserveNewest();
    const cost = BUFFERED_PER_CALL + head.size * BUFFERED_PER_FIELD_BYTE;
    // A header section that is too large is answered at once, and nothing of it is kept.
    const hasRoom = head.flaw === "too_large" || connection.hasRoomForCall(cost);
    if (streams.full || !hasRoom) {
      // An honest peer may exceed our settings before it has received them. It may call again.
      connection.fault(streams.full ? "too_many_streams" : "too_many_bytes");
      if (!streams.full) connection.limitCalls();
      connection.frames.rstStream(id, ERROR_CODE.refusedStream);
      streams.recordClosed(id, !ends);
      connection.budget.controlFrame();
      return;
    }
    const stream = new H2Stream(
      connection,
      id,
      connection.sweep,
      streams.initialSendWindow,
      head.contentLength,
    );
    stream.remoteClosed = ends;
    streams.add(stream);
    this.#newest = stream;
    this.#newestCost = cost;
    if (head.flaw === "too_large") connection.fault("header_list");
    stream.exchange = this.#handleRequest(stream, head, ends);
  }

  /** The length of the body is not the announced one (RFC 9113 §8.1.1). */
  #brokenBody(stream: H2Stream): void {
    const connection = this.#connection;
    if (stream.exchange?.refuseBrokenBody?.() !== true) {
      abortStream(connection, stream, ERROR_CODE.protocol, "malformed_request");
      return;
    }
    connection.fault("malformed_request");
  }

  /** Counts the newest call as buffered if it is still open. Most calls arrive complete and are answered at once. */
  #reserveNewest(): void {
    const newest = this.#newest;
    this.#newest = undefined;
    if (newest === undefined || newest.reserve(this.#newestCost) || newest.localClosed) return;
    newest.abort(ERROR_CODE.enhanceYourCalm);
    this.#connection.budget.streamError();
  }

  #trailers(stream: H2Stream, ends: boolean, block: Buffer, start: number, end: number): void {
    const found = this.#blocks.trailers(block, start, end);
    const valid = found === "good" && ends && !this.#blocks.selfDependent;
    if (stream.remoteClosed)
      abortStream(this.#connection, stream, ERROR_CODE.streamClosed, "stream");
    else if (found === "too_long")
      abortStream(this.#connection, stream, ERROR_CODE.enhanceYourCalm, "header_list");
    else if (!valid || stream.remainingLength > 0) {
      abortStream(this.#connection, stream, ERROR_CODE.protocol, "malformed_request");
    } else {
      stream.remoteClosed = true;
      stream.exchange?.data(Buffer.alloc(0), 0, 0, true);
    }
  }

  #reset(id: number, bytes: Buffer, start: number, end: number): void {
    if (end - start !== PAYLOAD_LENGTH.rstStream)
      throw frameSizeError("a RST_STREAM frame must have 4 bytes");
    const { streams, budget } = this.#connection;
    if (streams.isIdle(id)) throw protocolError("RST_STREAM on an idle stream");
    const stream = streams.get(id);
    if (stream === undefined) {
      // The peer now knows that the stream has ended, whatever we sent.
      if (streams.hasEarlyReply(id) || streams.wasResetBeforeEnd(id))
        streams.recordRemoteClosed(id);
      if (bytes.readUInt32BE(start) !== ERROR_CODE.noError) this.#connection.replyRejected(id);
      budget.controlFrame();
    } else {
      stream.closeSilently();
      budget.resetReceived();
    }
  }

  /** A DATA frame of a request that was answered early begins. */
  #beginUnread(id: number, length: number, ends: boolean): void {
    if (!this.#connection.streams.receiveUnread(id, length)) {
      resetClosedStream(this.#connection, id, ERROR_CODE.flowControl, "stream");
      return;
    }
    this.#unreadStream = id;
    this.#dataEndsStream = ends;
  }

  /** Discards a part of a body that is not read any more, or its end. */
  #discardBody(id: number, bytes: number, ends: boolean): void {
    if (id !== 0 && !this.#connection.streams.discardBody(id, bytes, ends))
      this.#resetMalformed(id, ends);
  }

  #unreadTrailers(id: number, ends: boolean, block: Buffer, start: number, end: number): void {
    const { budget, streams } = this.#connection;
    budget.controlFrame();
    const found = this.#blocks.trailers(block, start, end);
    if (!streams.hasEarlyReply(id)) {
      if (ends) streams.recordRemoteClosed(id);
    } else if (found === "malformed" || !ends) this.#resetMalformed(id, ends);
    else this.#discardBody(id, 0, true);
  }
}
