// One HTTP/2 connection (RFC 9113): frames in, streams kept, windows counted, faults answered. What a request
// means is the business of the exchange that the answerer makes for it.

import type { Duplex } from "node:stream";
import { plainAddress } from "../listen/address.ts";
import type { Http2Fault } from "../settings.ts";
import { Ended } from "./ended.ts";
import type { Answerer } from "./exchange.ts";
import { ConnectionFault, protocolFault, sizeFault } from "./fault.ts";
import { FrameReader, type FrameSink } from "./frame-reader.ts";
import { FrameWriter } from "./frame-writer.ts";
import { ERROR, FIRST_WINDOW, FLAG, FRAME, MAX_WINDOW, SETTING, uint31 } from "./frames.ts";
import { Guard } from "./guard.ts";
import { HeadReader } from "./heads.ts";
import { Encoder } from "./hpack/encoder.ts";
import { CONNECTION_WINDOW, HEADER_TABLE, MAX_HELD, MAX_STREAMS, STREAM_WINDOW } from "./limits.ts";
import { type Chunks, Output } from "./output.ts";
import { PeerSettings } from "./peer-settings.ts";
import { H2Stream, type Line } from "./stream.ts";

/** What connections share with the transport that they belong to. */
export interface Shared {
  readonly answer: Answerer;
  readonly chunks: Chunks;
  /** Most bytes of a request's fields. */
  readonly maxHeaderList: number;
  fault(fault: Http2Fault): void;
  /** Bytes kept by all connections; false: too many. */
  hold(bytes: number): boolean;
  release(bytes: number): void;
  /** Something waits to be flushed at the end of this turn. */
  wake(connection: Connection): void;
  /** The connection has nothing left to do, or has failed: it may linger until its peer has read why. */
  finished(connection: Connection, failed: boolean): void;
  /** A defect of ours, to be logged. */
  broke(thrown: unknown): void;
}

/** What pings of ours carry: those that look whether the peer is there, and the one before the last GOAWAY. */
const ALIVE = 1;
const FAREWELL = 2;
const PING_BYTES = 8;
const SETTINGS_BYTES = 6;
const NOTHING = Buffer.alloc(0);

export class Connection implements FrameSink, Line {
  readonly socket: Duplex & { readonly remoteAddress?: string | undefined };
  readonly peer: string;
  readonly out: Output;
  readonly frames: FrameWriter;
  readonly encoder = new Encoder();
  window = FIRST_WINDOW;
  /** In sweeps of the transport: now, and when the peer was heard last. */
  sweep = 0;
  heardAt = 0;
  /** It is among those that will be flushed. */
  awaited = false;
  readonly shared: Shared;
  readonly #reader = new FrameReader(this);
  readonly #heads: HeadReader;
  readonly #settings = new PeerSettings();
  readonly #guard = new Guard();
  readonly #streams = new Map<number, H2Stream>();
  readonly #ended = new Ended();
  readonly #blocked = new Set<H2Stream>();
  /** Streams, and work that outlived its stream. */
  #places = 0;
  #lastStream = 0;
  /** The last stream that is ours, once we have said so. */
  #named = MAX_WINDOW;
  #peerLeaves = false;
  #held = 0;
  /** How much more data the peer may send, and what it sent since it was told so. */
  #allowance = CONNECTION_WINDOW;
  #received = 0;
  /** Of the data frame at hand. */
  #target: H2Stream | undefined;
  #targetEnds = false;
  /** The stream that a head came for last, which the next data frame is mostly for. */
  #newest: H2Stream | undefined;
  #reading = false;
  #pinged = false;
  #state: "open" | "leaving" | "left" | "over" = "open";

  constructor(socket: Duplex & { readonly remoteAddress?: string | undefined }, shared: Shared) {
    this.socket = socket;
    this.peer = plainAddress(socket.remoteAddress ?? "");
    this.shared = shared;
    this.out = new Output(socket, shared.chunks, () => {
      if (!this.#reading) shared.wake(this);
    });
    this.frames = new FrameWriter(this.out);
    this.#heads = new HeadReader(shared.maxHeaderList, (stream, ends, block, start, end) =>
      this.#block(stream, ends, block, start, end),
    );
    this.#greet();
    this.out.flush();
  }

  get peerMaxFrame(): number {
    return this.#settings.maxFrame;
  }

  get streams(): ReadonlyMap<number, H2Stream> {
    return this.#streams;
  }

  /** What has begun and is not whole, as a number that changes with it: a header block or a frame; 0: nothing. */
  get midway(): number {
    return this.#heads.open !== 0 ? -this.#heads.open : this.#reader.midFrame;
  }

  get leaving(): boolean {
    return this.#state === "leaving";
  }

  /** Frames are still read. */
  get open(): boolean {
    return this.#state !== "over";
  }

  /** What a read brought. Everything that is answered at once leaves in one write at its end. */
  read(chunk: Buffer): void {
    if (this.#state === "over") return;
    this.heardAt = this.sweep;
    this.#reading = true;
    try {
      this.#reader.read(chunk);
      if (this.#received >= CONNECTION_WINDOW / 2) this.#widen();
    } catch (thrown) {
      this.#fail(thrown);
    }
    this.#reading = false;
    this.#target = undefined;
    this.#newest = undefined;
    this.out.flush();
    this.#finishWhenDone();
  }

  /** The socket is gone. */
  closed(): void {
    this.#state = "over";
    for (const stream of [...this.#streams.values()]) stream.drop();
  }

  /** Ends the connection for what the peer did over time. */
  fail(code: number, fault: Http2Fault, message: string): void {
    this.#fail(new ConnectionFault(code, fault, message));
    this.out.flush();
  }

  /** No more calls, but those on their way are still taken: `name` then says which was the last. */
  leave(): void {
    if (this.#state !== "open") return;
    this.#state = "leaving";
    this.frames.goAway(MAX_WINDOW, ERROR.none, "");
    this.frames.ping(FAREWELL);
  }

  /** Names the last call that is taken; ends when all are answered. */
  name(): void {
    if (this.#state !== "open" && this.#state !== "leaving") return;
    this.#state = "left";
    this.#named = this.#lastStream;
    this.frames.goAway(this.#mostNamed, ERROR.none, "");
    this.shared.wake(this);
  }

  /** The last stream that a GOAWAY may name: what one has named is never exceeded (RFC 9113 §6.8). */
  get #mostNamed(): number {
    return Math.min(this.#named, this.#lastStream);
  }

  /** Asks whether the peer is there; false when it has not answered the last question. */
  ask(): boolean {
    if (this.#pinged) return false;
    this.#pinged = true;
    this.frames.ping(ALIVE);
    return true;
  }

  refill(seconds: number): void {
    this.#guard.refill(seconds);
  }

  /** End of a turn in which something was written outside of `read`. */
  flush(): void {
    this.out.flush();
    this.#finishWhenDone();
  }

  // What streams ask for.

  hold(bytes: number): boolean {
    if (this.#held + bytes > MAX_HELD || !this.shared.hold(bytes)) {
      this.shared.fault("too_many_bytes");
      return false;
    }
    this.#held += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#held -= bytes;
    this.shared.release(bytes);
  }

  blocked(stream: H2Stream): void {
    this.#blocked.add(stream);
  }

  ended(stream: H2Stream, answered: boolean): void {
    this.#streams.delete(stream.id);
    this.#blocked.delete(stream);
    this.#ended.note(stream.id, !answered || !stream.heard);
    if (!stream.working) this.#places--;
    if (answered) this.#guard.answered();
    if (this.#newest === stream) this.#newest = undefined;
    if (!this.#reading) this.shared.wake(this);
  }

  rested(): void {
    this.#places--;
    if (!this.#reading) this.shared.wake(this);
  }

  // What frames bring.

  beginData(stream: number, flags: number, length: number): void {
    if (this.#heads.open !== 0) throw protocolFault("a frame inside a header block");
    if (stream === 0 || stream > this.#lastStream) throw protocolFault("DATA on an idle stream");
    this.#allowance -= length;
    if (this.#allowance < 0) {
      throw new ConnectionFault(ERROR.flowControl, "flow_control", "more data than the window");
    }
    this.#received += length;
    const newest = this.#newest;
    const target = newest?.id === stream ? newest : this.#streams.get(stream);
    this.#target = target;
    this.#targetEnds = (flags & FLAG.endStream) !== 0;
    if (target === undefined) {
      this.#guard.control();
      if (!this.#ended.resetByUs(stream)) this.#refuse(stream, ERROR.streamClosed, "stream");
      return;
    }
    if (length === 0 && !this.#targetEnds) this.#guard.control();
    target.allowance -= length;
    if (target.heard) this.#break(target, ERROR.streamClosed, "stream");
    else if (target.allowance < 0) this.#break(target, ERROR.flowControl, "stream");
  }

  data(chunk: Buffer, start: number, end: number, last: boolean): void {
    const target = this.#target;
    if (target === undefined || target.closed) return;
    if (target.expected >= 0) {
      target.expected -= end - start;
      const wrong = target.expected < 0 || (last && this.#targetEnds && target.expected > 0);
      if (wrong) {
        this.#break(target, ERROR.protocol, "malformed_request");
        return;
      }
    }
    const whole = last && this.#targetEnds;
    if (whole) target.heard = true;
    target.exchange?.data(chunk, start, end, whole);
  }

  frame(
    type: number,
    flags: number,
    stream: number,
    bytes: Buffer,
    start: number,
    end: number,
  ): void {
    if (this.#heads.open !== 0 && type !== FRAME.continuation) {
      throw protocolFault("a frame inside a header block");
    }
    switch (type) {
      case FRAME.headers:
        if (stream === 0) throw protocolFault("HEADERS on stream 0");
        this.#heads.headers(flags, stream, bytes, start, end);
        return;
      case FRAME.continuation:
        this.#heads.continuation(flags, stream, bytes, start, end);
        return;
      case FRAME.window:
        this.#windowUpdate(stream, bytes, start, end);
        return;
      case FRAME.reset:
        this.#reset(stream, start, end);
        return;
      case FRAME.settings:
        this.#setting(flags, stream, bytes, start, end);
        return;
      case FRAME.ping:
        this.#pong(flags, stream, bytes, start, end);
        return;
      case FRAME.priority:
        this.#priority(stream, bytes, start, end);
        return;
      case FRAME.goaway:
        if (stream !== 0) throw protocolFault("GOAWAY on a stream");
        if (end - start < PING_BYTES) throw sizeFault("a GOAWAY frame that is too short");
        this.#guard.control();
        this.#peerLeaves = true;
        return;
      case FRAME.push:
        throw protocolFault("PUSH_PROMISE from a client");
      default:
        this.#guard.control();
    }
  }

  /** A whole header block: a new request, or trailers. */
  #block(id: number, ends: boolean, block: Buffer, start: number, end: number): void {
    if (id > this.#lastStream) this.#open(id, ends, block, start, end);
    else {
      const stream = this.#streams.get(id);
      if (stream !== undefined) this.#trailers(stream, ends, block, start, end);
      else if (this.#ended.resetByUs(id)) {
        this.#guard.control();
        this.#heads.skip(block, start, end);
      } else if (this.#ended.knows(id)) {
        throw new ConnectionFault(ERROR.streamClosed, "protocol", "HEADERS on a closed stream");
      } else throw protocolFault("stream ids must ascend");
    }
  }

  #open(id: number, ends: boolean, block: Buffer, start: number, end: number): void {
    if ((id & 1) === 0) throw protocolFault("a client's stream ids are odd");
    const head = this.#heads.request(block, start, end);
    this.#lastStream = id;
    if (id > this.#named) {
      // It crossed our GOAWAY: the peer knows that it was not taken. Its data is to be ignored, too.
      this.#ended.note(id, true);
      return;
    }
    if (head === undefined || this.#heads.selfish) {
      this.#refuse(id, ERROR.protocol, "malformed_request");
      return;
    }
    if (this.#places >= MAX_STREAMS) {
      this.#refuse(id, ERROR.refused, "too_many_streams");
      return;
    }
    const stream = new H2Stream(
      this,
      id,
      this.sweep,
      this.#settings.initialWindow,
      head.contentLength,
    );
    this.#places++;
    this.#streams.set(id, stream);
    this.#newest = stream;
    if (ends) {
      stream.heard = true;
      if (head.contentLength > 0) {
        this.#break(stream, ERROR.protocol, "malformed_request");
        return;
      }
    }
    stream.exchange = this.shared.answer(stream, head, ends);
  }

  #trailers(stream: H2Stream, ends: boolean, block: Buffer, start: number, end: number): void {
    const good = this.#heads.trailers(block, start, end);
    if (stream.heard) this.#break(stream, ERROR.streamClosed, "stream");
    else if (!good || !ends || this.#heads.selfish || stream.expected > 0) {
      this.#break(stream, ERROR.protocol, "malformed_request");
    } else {
      stream.heard = true;
      stream.exchange?.data(NOTHING, 0, 0, true);
    }
  }

  #windowUpdate(id: number, bytes: Buffer, start: number, end: number): void {
    if (end - start !== 4) throw sizeFault("a WINDOW_UPDATE frame has 4 bytes");
    this.#guard.control();
    const by = uint31(bytes, start);
    if (id === 0) {
      if (by === 0) throw protocolFault("a window widened by nothing");
      this.window += by;
      if (this.window > MAX_WINDOW) {
        throw new ConnectionFault(ERROR.flowControl, "flow_control", "a window beyond its most");
      }
      this.#pumpBlocked();
      return;
    }
    if (id > this.#lastStream) throw protocolFault("WINDOW_UPDATE on an idle stream");
    const stream = this.#streams.get(id);
    if (stream === undefined) return;
    stream.window += by;
    if (by === 0) this.#break(stream, ERROR.protocol, "stream");
    else if (stream.window > MAX_WINDOW) this.#break(stream, ERROR.flowControl, "stream");
    else stream.pump();
  }

  #pumpBlocked(): void {
    if (this.#blocked.size === 0) return;
    const waiting = [...this.#blocked];
    this.#blocked.clear();
    for (const stream of waiting) {
      if (this.window > 0) stream.pump();
      else this.#blocked.add(stream);
    }
  }

  #reset(id: number, start: number, end: number): void {
    if (end - start !== 4) throw sizeFault("a RST_STREAM frame has 4 bytes");
    if (id === 0 || id > this.#lastStream) throw protocolFault("RST_STREAM on an idle stream");
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      this.#guard.control();
      return;
    }
    stream.drop();
    this.#guard.takenBack();
  }

  #setting(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id !== 0) throw protocolFault("SETTINGS on a stream");
    this.#guard.control();
    if ((flags & FLAG.ack) !== 0) {
      if (end !== start) throw sizeFault("an acknowledgement of SETTINGS is empty");
      return;
    }
    if ((end - start) % SETTINGS_BYTES !== 0) throw sizeFault("SETTINGS of broken length");
    const before = this.#settings.initialWindow;
    const table = this.#settings.headerTable;
    this.#settings.read(bytes, start, end);
    if (this.#settings.headerTable !== table) this.encoder.limitTable(this.#settings.headerTable);
    const wider = this.#settings.initialWindow - before;
    if (wider !== 0) {
      for (const stream of this.#streams.values()) {
        stream.window += wider;
        if (stream.window > MAX_WINDOW) {
          throw new ConnectionFault(ERROR.flowControl, "flow_control", "a window beyond its most");
        }
      }
      if (wider > 0) for (const stream of [...this.#streams.values()]) stream.pump();
    }
    this.frames.settingsTaken();
  }

  #pong(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id !== 0) throw protocolFault("PING on a stream");
    if (end - start !== PING_BYTES) throw sizeFault("a PING frame has 8 bytes");
    this.#guard.control();
    if ((flags & FLAG.ack) !== 0) {
      if (bytes[end - 1] === ALIVE) this.#pinged = false;
      else if (bytes[end - 1] === FAREWELL && this.#state === "leaving") this.name();
      return;
    }
    this.frames.pong(bytes, start);
  }

  /** Priorities are read and not followed (RFC 9113 §5.3.2). */
  #priority(id: number, bytes: Buffer, start: number, end: number): void {
    if (id === 0) throw protocolFault("PRIORITY on stream 0");
    this.#guard.control();
    const selfish = end - start === 5 && uint31(bytes, start) === id;
    if (end - start === 5 && !selfish) return;
    const stream = this.#streams.get(id);
    if (stream !== undefined) {
      this.#break(stream, selfish ? ERROR.protocol : ERROR.frameSize, "stream");
    } else if (selfish) throw protocolFault("a stream that depends on itself");
    else throw sizeFault("a PRIORITY frame has 5 bytes");
  }

  // What we say.

  #greet(): void {
    this.frames.settings([
      [SETTING.headerTable, HEADER_TABLE],
      [SETTING.maxStreams, MAX_STREAMS],
      [SETTING.initialWindow, STREAM_WINDOW],
      [SETTING.maxHeaderList, this.shared.maxHeaderList],
    ]);
    this.frames.window(0, CONNECTION_WINDOW - FIRST_WINDOW);
  }

  #widen(): void {
    this.frames.window(0, this.#received);
    this.#allowance += this.#received;
    this.#received = 0;
  }

  /** Answers a stream that was never opened or is long closed. */
  #refuse(id: number, code: number, fault: Http2Fault): void {
    this.shared.fault(fault);
    this.frames.reset(id, code);
    this.#ended.note(id, true);
    this.#guard.broken();
  }

  #break(stream: H2Stream, code: number, fault: Http2Fault): void {
    this.shared.fault(fault);
    stream.break(code);
    this.#guard.broken();
  }

  #fail(thrown: unknown): void {
    if (this.#state === "over") return;
    if (thrown instanceof ConnectionFault) {
      this.shared.fault(thrown.fault);
      this.frames.goAway(this.#mostNamed, thrown.code, thrown.message);
    } else {
      this.shared.broke(thrown);
      this.frames.goAway(this.#mostNamed, ERROR.internal, "");
    }
    this.out.flush();
    this.closed();
    this.shared.finished(this, true);
  }

  #finishWhenDone(): void {
    if (this.#places > 0) return;
    if (this.#peerLeaves && this.#state !== "over") {
      this.name();
      this.out.flush();
    }
    if (this.#state !== "left") return;
    this.#state = "over";
    this.shared.finished(this, false);
  }
}
