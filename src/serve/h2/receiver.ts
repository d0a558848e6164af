// What the frames of a peer bring (RFC 9113 §5 and §6): calls and their bodies; frames that carry none go on to
// `control.ts`.

import { Control } from "./control.ts";
import type { Answerer } from "./exchange.ts";
import { ConnectionFault, protocolFault, sizeFault } from "./fault.ts";
import type { FrameSink } from "./frame-reader.ts";
import { ERROR, FLAG, FRAME, PAYLOAD } from "./frames.ts";
import { HeadReader } from "./heads.ts";
import { CALL_HELD, CONNECTION_WINDOW, HELD_PER_HEAD_BYTE } from "./limits.ts";
import { breakOff, type Receiving, refuse } from "./receiving.ts";
import { H2Stream } from "./stream.ts";

export class Receiver implements FrameSink {
  readonly #connection: Receiving;
  readonly #answer: Answerer;
  readonly #heads: HeadReader;
  readonly #control: Control;
  /**
   * How much more data the peer may send, and what it sent since it was told so. It has it back however much of it is
   * kept: what bounds that is `hold`.
   */
  #allowance = CONNECTION_WINDOW;
  #received = 0;
  /** Of the data frame at hand: its stream, and whether it is the last one there. */
  #target: H2Stream | undefined;
  #targetEnds = false;
  /** Bytes of its frame that have not been handed on; in the end, its padding. */
  #targetLeft = 0;
  /** The stream that a head came for last, which the next data frame is mostly for. */
  #newest: H2Stream | undefined;
  /** What it counts as kept if it outlives this read. */
  #newestHeld = 0;

  constructor(connection: Receiving, answer: Answerer, maxHeaderList: number) {
    this.#connection = connection;
    this.#answer = answer;
    this.#control = new Control(connection);
    this.#heads = new HeadReader(
      maxHeaderList,
      (stream, ends, block, start, end) => this.#block(stream, ends, block, start, end),
      connection,
    );
  }

  /** Stream whose header block is not whole, or 0. */
  get midBlock(): number {
    return this.#heads.open;
  }

  /** The connection is gone. */
  closed(): void {
    this.#heads.forget();
  }

  /** The end of what a read brought. */
  rest(): void {
    this.#count();
    if (this.#received < CONNECTION_WINDOW / 2) return;
    this.#connection.frames.window(0, this.#received);
    this.#allowance += this.#received;
    this.#received = 0;
  }

  hold(bytes: number): boolean {
    return this.#connection.hold(bytes);
  }

  release(bytes: number): void {
    this.#connection.release(bytes);
  }

  beginData(id: number, flags: number, length: number): void {
    if (this.#heads.open !== 0) throw protocolFault("a frame inside a header block");
    const { streams, guard } = this.#connection;
    if (streams.unopened(id)) throw protocolFault("DATA on an idle stream");
    this.#allowance -= length;
    if (this.#allowance < 0) {
      throw new ConnectionFault(ERROR.flowControl, "flow_control", "more data than the window");
    }
    this.#received += length;
    const newest = this.#newest;
    const target = newest?.id === id ? newest : streams.live.get(id);
    const ends = (flags & FLAG.endStream) !== 0;
    if (target === undefined || target.closed) {
      this.#target = undefined;
      guard.control();
      if (streams.early(id)) this.#drop(id, length, ends);
      else if (!streams.resetByUs(id)) refuse(this.#connection, id, ERROR.streamClosed, "stream");
      return;
    }
    this.#target = target;
    this.#targetEnds = ends;
    this.#targetLeft = length;
    target.allowance -= length;
    if (target.heard) breakOff(this.#connection, target, ERROR.streamClosed, "stream");
    else if (target.allowance < 0) breakOff(this.#connection, target, ERROR.flowControl, "stream");
  }

  data(chunk: Buffer, start: number, end: number, last: boolean): void {
    const target = this.#target;
    if (last) this.#target = undefined;
    if (target === undefined) return;
    if (target.closed) {
      // It was answered, or broken, by an earlier part of this frame, which is the end of its request all the same.
      if (last && this.#targetEnds) this.#connection.streams.left(target.id);
      return;
    }
    const whole = last && this.#targetEnds;
    this.#targetLeft -= end - start;
    if (last && !whole) {
      if (start === end) this.#connection.guard.control();
      // What is left is padding, which nobody reads but its window.
      if (this.#targetLeft > 0) target.credit(this.#targetLeft);
    }
    if (target.expected >= 0) {
      target.expected -= end - start;
      if (target.expected < 0 || (whole && target.expected > 0)) {
        breakOff(this.#connection, target, ERROR.protocol, "malformed_request");
        return;
      }
    }
    if (whole) target.heard = true;
    target.exchange?.data(chunk, start, end, whole);
  }

  frame(type: number, flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (this.#heads.open !== 0 && type !== FRAME.continuation) {
      throw protocolFault("a frame inside a header block");
    }
    switch (type) {
      case FRAME.headers:
        if (id === 0) throw protocolFault("HEADERS on stream 0");
        this.#heads.headers(flags, id, bytes, start, end);
        return;
      case FRAME.continuation:
        this.#heads.continuation(flags, id, bytes, start, end);
        return;
      case FRAME.reset:
        this.#reset(id, end - start);
        return;
      case FRAME.push:
        throw protocolFault("PUSH_PROMISE from a client");
      default:
        this.#control.frame(type, flags, id, bytes, start, end);
    }
  }

  /** A whole header block: a new call, or trailers. */
  #block(id: number, ends: boolean, block: Buffer, start: number, end: number): void {
    const { streams, guard } = this.#connection;
    if (id > streams.last) {
      this.#open(id, ends, block, start, end);
      return;
    }
    const stream = streams.live.get(id);
    if (stream !== undefined) this.#trailers(stream, ends, block, start, end);
    else if (streams.early(id) || streams.resetByUs(id)) {
      guard.control();
      this.#heads.skip(block, start, end);
      this.#drop(id, 0, ends);
    } else if (streams.knew(id)) {
      throw new ConnectionFault(ERROR.streamClosed, "protocol", "HEADERS on a closed stream");
    } else throw protocolFault("stream ids must ascend");
  }

  #open(id: number, ends: boolean, block: Buffer, start: number, end: number): void {
    if ((id & 1) === 0) throw protocolFault("a client's stream ids are odd");
    const connection = this.#connection;
    const { streams } = connection;
    const head = this.#heads.request(block, start, end);
    streams.last = id;
    if (id > connection.named) {
      // It crossed our GOAWAY, so the peer knows that it was not taken. Its data is to be ignored, too.
      streams.noteEnd(id, true);
      return;
    }
    if (head === undefined || this.#heads.selfish || (ends && head.contentLength > 0)) {
      refuse(this.#connection, id, ERROR.protocol, "malformed_request");
      return;
    }
    if (streams.full) {
      // Before it has our settings an honest peer may send more than they allow.
      connection.fault("too_many_streams");
      connection.frames.reset(id, ERROR.refused);
      streams.noteEnd(id, true);
      connection.guard.control();
      return;
    }
    const stream = new H2Stream(connection, id, connection.now, streams.window, head.contentLength);
    stream.heard = ends;
    streams.add(stream);
    this.#count();
    this.#newest = stream;
    this.#newestHeld = CALL_HELD + head.size * HELD_PER_HEAD_BYTE;
    if (head.overflow) connection.fault("header_list");
    stream.exchange = this.#answer(stream, head, ends);
  }

  /** The newest call counts as kept if it is still there. Most are not: they came whole and were answered at once. */
  #count(): void {
    const newest = this.#newest;
    this.#newest = undefined;
    if (newest === undefined || newest.hold(this.#newestHeld) || newest.closed) return;
    newest.break(ERROR.calm);
    this.#connection.guard.broken();
  }

  #trailers(stream: H2Stream, ends: boolean, block: Buffer, start: number, end: number): void {
    const found = this.#heads.trailers(block, start, end);
    const good = found === "good" && ends && !this.#heads.selfish;
    if (stream.heard) breakOff(this.#connection, stream, ERROR.streamClosed, "stream");
    else if (found === "too_long") breakOff(this.#connection, stream, ERROR.calm, "header_list");
    else if (!good || stream.expected > 0) {
      breakOff(this.#connection, stream, ERROR.protocol, "malformed_request");
    } else {
      stream.heard = true;
      stream.exchange?.data(Buffer.alloc(0), 0, 0, true);
    }
  }

  #reset(id: number, length: number): void {
    if (length !== PAYLOAD.number) throw sizeFault("a RST_STREAM frame has 4 bytes");
    const { streams, guard } = this.#connection;
    if (streams.unopened(id)) throw protocolFault("RST_STREAM on an idle stream");
    const stream = streams.live.get(id);
    if (stream === undefined) {
      // From here on the peer knows that the stream has ended, whatever we told it.
      if (streams.early(id) || streams.resetByUs(id)) streams.left(id);
      guard.control();
    } else {
      stream.drop();
      guard.takenBack();
    }
  }

  /** More of a request that nobody reads, as it was answered early. */
  #drop(id: number, bytes: number, ends: boolean): void {
    if (!this.#connection.streams.dropped(id, bytes, ends)) {
      refuse(this.#connection, id, ERROR.flowControl, "stream");
    }
  }
}
