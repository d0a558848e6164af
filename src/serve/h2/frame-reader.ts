// Cuts what a socket reads into frames. Payloads are handed on where they lie: data piece by piece as it comes,
// other frames whole, and only one that is spread over several reads is copied together.

import { ConnectionFault, protocolFault, sizeFault } from "./fault.ts";
import { ERROR, FLAG, FRAME, FRAME_HEAD, MAX_FRAME, uint31 } from "./frames.ts";
import { SMALL_FRAME } from "./limits.ts";

export interface FrameSink {
  /** A data frame begins; all of its `length`, padding included, counts for windows. */
  beginData(stream: number, flags: number, length: number): void;
  /** Part of a data frame without its padding; `last`: nothing of it follows. */
  data(chunk: Buffer, start: number, end: number, last: boolean): void;
  /** Any other frame. */
  frame(
    type: number,
    flags: number,
    stream: number,
    bytes: Buffer,
    start: number,
    end: number,
  ): void;
  /** Counts bytes that are kept of a frame in parts. False: too many are. */
  hold(bytes: number): boolean;
  release(bytes: number): void;
}

const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

export class FrameReader {
  readonly #sink: FrameSink;
  /** Bytes of the preface that have been seen. */
  #preface = 0;
  /** A frame head that came in parts, and how much of it is here. */
  readonly #head = Buffer.alloc(FRAME_HEAD);
  #headSeen = 0;
  #type = 0;
  #flags = 0;
  #stream = 0;
  /** Payload bytes of the frame at hand that are still to come. */
  #left = 0;
  /** Frames that were spread over several reads. */
  #count = 0;
  /** Of a data frame: its length byte of padding is still to come; then, how much of `left` is padding. */
  #padUnknown = false;
  #pad = 0;
  /** A frame other than data that came in parts. */
  #parts: Buffer | undefined;
  #partsSeen = 0;
  /** What it counts as kept. */
  #held = 0;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** Number of the frame that has begun and is not whole; 0 between frames. */
  get midFrame(): number {
    return this.#headSeen > 0 || this.#left > 0 ? this.#count + 1 : 0;
  }

  /** Nothing more of a frame that is not whole will come, or be wanted. */
  forget(): void {
    this.#parts = undefined;
    if (this.#held > 0) this.#sink.release(this.#held);
    this.#held = 0;
  }

  /** Throws ConnectionFaults. */
  read(chunk: Buffer): void {
    const end = chunk.length;
    let at = this.#preface < PREFACE.length ? this.#readPreface(chunk) : 0;
    while (at < end) {
      if (this.#left > 0) at = this.#goOn(chunk, at, end);
      else if (this.#headSeen === 0 && end - at >= FRAME_HEAD) {
        at = this.#begin(chunk, at, chunk, at + FRAME_HEAD, end);
      } else {
        const taken = Math.min(FRAME_HEAD - this.#headSeen, end - at);
        chunk.copy(this.#head, this.#headSeen, at, at + taken);
        this.#headSeen += taken;
        at += taken;
        if (this.#headSeen === FRAME_HEAD) {
          this.#headSeen = 0;
          at = this.#begin(this.#head, 0, chunk, at, end);
        }
      }
    }
  }

  #readPreface(chunk: Buffer): number {
    const count = Math.min(PREFACE.length - this.#preface, chunk.length);
    const wanted = PREFACE.slice(this.#preface, this.#preface + count);
    if (chunk.toString("latin1", 0, count) !== wanted) throw protocolFault("no HTTP/2 preface");
    this.#preface += count;
    return count;
  }

  /** The head of a frame is at `head[from]`, its payload begins at `chunk[at]`. Returns what was read up to. */
  #begin(head: Buffer, from: number, chunk: Buffer, at: number, end: number): number {
    const length = ((head[from] ?? 0) << 16) | ((head[from + 1] ?? 0) << 8) | (head[from + 2] ?? 0);
    const type = head[from + 3] ?? 0;
    const flags = head[from + 4] ?? 0;
    const stream = uint31(head, from + 5);
    if (length > MAX_FRAME) throw sizeFault("a frame is longer than was agreed");
    if (type === FRAME.data) return this.#beginData(flags, stream, length, chunk, at, end);
    const stop = at + length;
    if (stop <= end) {
      this.#sink.frame(type, flags, stream, chunk, at, stop);
      return stop;
    }
    this.#count++;
    this.#type = type;
    this.#flags = flags;
    this.#stream = stream;
    this.#left = length;
    this.#parts = Buffer.alloc(0);
    this.#partsSeen = 0;
    return at;
  }

  #beginData(
    flags: number,
    stream: number,
    length: number,
    chunk: Buffer,
    at: number,
    end: number,
  ): number {
    this.#sink.beginData(stream, flags, length);
    if ((flags & FLAG.padded) === 0) {
      const stop = at + length;
      // The common case: the frame is here as a whole.
      if (stop <= end) {
        this.#sink.data(chunk, at, stop, true);
        return stop;
      }
      this.#pad = 0;
    } else {
      if (length === 0) throw sizeFault("a padded frame without its padding's length");
      this.#padUnknown = true;
    }
    this.#count++;
    this.#left = length;
    return at;
  }

  /** More of the payload of the frame at hand; there is at least one byte of it. */
  #goOn(chunk: Buffer, at: number, end: number): number {
    const taken = Math.min(this.#left, end - at);
    if (this.#parts === undefined) return this.#goOnData(chunk, at, taken);
    const parts = this.#grown(this.#parts, taken);
    chunk.copy(parts, this.#partsSeen, at, at + taken);
    this.#partsSeen += taken;
    this.#left -= taken;
    if (this.#left === 0) {
      this.forget();
      this.#sink.frame(this.#type, this.#flags, this.#stream, parts, 0, this.#partsSeen);
    }
    return at + taken;
  }

  /** Room for `more` bytes: in proportion to what has come, never to what a frame's head promises. */
  #grown(parts: Buffer, more: number): Buffer {
    const needed = this.#partsSeen + more;
    if (needed <= parts.length) return parts;
    const room = Math.min(this.#partsSeen + this.#left, 2 * needed);
    if (room > SMALL_FRAME) this.#hold(room);
    // Not of Node's pool, of which a few bytes would keep far more than is counted.
    const larger = Buffer.allocUnsafeSlow(room);
    parts.copy(larger, 0, 0, this.#partsSeen);
    this.#parts = larger;
    return larger;
  }

  #hold(room: number): void {
    if (!this.#sink.hold(room - this.#held)) {
      throw new ConnectionFault(ERROR.calm, undefined, "too many frames are not whole");
    }
    this.#held = room;
  }

  #goOnData(chunk: Buffer, at: number, taken: number): number {
    if (this.#padUnknown) {
      this.#padUnknown = false;
      this.#pad = chunk[at] ?? 0;
      this.#left--;
      if (this.#pad > this.#left) {
        throw new ConnectionFault(ERROR.protocol, "protocol", "more padding than frame");
      }
      // Nothing but padding: an end of the stream in it must not wait for more bytes.
      if (this.#left === this.#pad) this.#sink.data(chunk, at, at, true);
      return at + 1;
    }
    const content = this.#left - this.#pad;
    this.#left -= taken;
    if (content > 0) {
      const stop = at + Math.min(content, taken);
      this.#sink.data(chunk, at, stop, this.#left <= this.#pad);
    }
    return at + taken;
  }
}
