// Splits the bytes of a socket into frames. Payloads are passed on without copying, DATA in parts and other frames
// whole. Only a frame that is spread over several reads is copied.

import { MAX_UNCOUNTED_FRAME } from "../limits.ts";
import { frameSizeError, loadError, protocolError } from "./connection-error.ts";
import {
  FLAG,
  FRAME_HEADER_LENGTH,
  FRAME_TYPE,
  MAX_FRAME_SIZE,
  PREFACE,
  readUint31,
} from "./format.ts";

export interface FrameSink {
  /** A DATA frame starts. Its whole `length`, padding included, counts against flow-control windows. */
  beginData(stream: number, flags: number, length: number): void;
  /** Part of a DATA frame without its padding; `last`: the frame ends here. */
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
  /** Counts memory that an incomplete frame occupies. Returns false if that exceeds a limit. */
  reserve(bytes: number): boolean;
  release(bytes: number): void;
}

export class FrameReader {
  readonly #sink: FrameSink;
  /** Bytes of the connection preface that have been read. */
  #prefaceSeen = 0;
  /** A frame header that arrives in parts, and the number of its bytes that have arrived. */
  readonly #header = Buffer.alloc(FRAME_HEADER_LENGTH);
  #headerSeen = 0;
  #type = 0;
  #flags = 0;
  #stream = 0;
  /** Payload bytes of the current frame that are still to come. */
  #payloadLeft = 0;
  /** Number of frames so far. */
  #frames = 0;
  /** Number of frames so far that were spread over several reads. */
  #partialFrames = 0;
  /**
   * For a padded DATA frame: its pad length has not arrived; then, the number of remaining payload bytes that are
   * padding.
   */
  #padLengthPending = false;
  #padLength = 0;
  /** Payload of a frame other than DATA that arrives in parts. */
  #payload: Buffer | undefined;
  #payloadSeen = 0;
  /** Bytes reserved for it. */
  #reserved = 0;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** 0 between frames. */
  get partialFrame(): number {
    return this.#headerSeen > 0 || this.#payloadLeft > 0 ? this.#partialFrames + 1 : 0;
  }

  /** Drops an incomplete frame. */
  discard(): void {
    this.#payload = undefined;
    if (this.#reserved > 0) this.#sink.release(this.#reserved);
    this.#reserved = 0;
  }

  /** Number of frames that have begun. */
  get frames(): number {
    return this.#frames;
  }

  /**
   * Reads from offset `from` on, to the end or until this many frames have begun. Returns the offset of the first
   * unread byte. Throws ConnectionErrors.
   */
  read(chunk: Buffer, from = 0, limit = Number.POSITIVE_INFINITY): number {
    const end = chunk.length;
    const stop = this.#frames + limit;
    let at = this.#prefaceSeen < PREFACE.length ? this.#readPreface(chunk) : from;
    while (at < end && this.#frames < stop) {
      if (this.#payloadLeft > 0) at = this.#continuePayload(chunk, at, end);
      else if (this.#headerSeen === 0 && end - at >= FRAME_HEADER_LENGTH) {
        at = this.#begin(chunk, at, chunk, at + FRAME_HEADER_LENGTH, end);
      } else {
        const count = Math.min(FRAME_HEADER_LENGTH - this.#headerSeen, end - at);
        chunk.copy(this.#header, this.#headerSeen, at, at + count);
        this.#headerSeen += count;
        at += count;
        if (this.#headerSeen === FRAME_HEADER_LENGTH) {
          this.#headerSeen = 0;
          at = this.#begin(this.#header, 0, chunk, at, end);
        }
      }
    }
    return at;
  }

  #readPreface(chunk: Buffer): number {
    const count = Math.min(PREFACE.length - this.#prefaceSeen, chunk.length);
    const seen = this.#prefaceSeen;
    if (chunk.compare(PREFACE, seen, seen + count, 0, count) !== 0)
      throw protocolError("invalid HTTP/2 connection preface");
    this.#prefaceSeen += count;
    return count;
  }

  /**
   * A frame header is at `head[from]`, its payload starts at `chunk[at]`. Returns the offset after the last used byte.
   */
  #begin(head: Buffer, from: number, chunk: Buffer, at: number, end: number): number {
    this.#frames++;
    const length = ((head[from] ?? 0) << 16) | ((head[from + 1] ?? 0) << 8) | (head[from + 2] ?? 0);
    const type = head[from + 3] ?? 0;
    const flags = head[from + 4] ?? 0;
    const stream = readUint31(head, from + 5);
    if (length > MAX_FRAME_SIZE) throw frameSizeError("a frame exceeds SETTINGS_MAX_FRAME_SIZE");
    if (type === FRAME_TYPE.data) return this.#beginData(flags, stream, length, chunk, at, end);
    const stop = at + length;
    if (stop <= end) {
      this.#sink.frame(type, flags, stream, chunk, at, stop);
      return stop;
    }
    this.#partialFrames++;
    this.#type = type;
    this.#flags = flags;
    this.#stream = stream;
    this.#payloadLeft = length;
    this.#payload = Buffer.alloc(0);
    this.#payloadSeen = 0;
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
      // The common case: the whole frame is here.
      if (stop <= end) {
        this.#sink.data(chunk, at, stop, true);
        return stop;
      }
      this.#padLength = 0;
    } else {
      if (length === 0) throw frameSizeError("a padded frame without a pad length");
      this.#padLengthPending = true;
    }
    this.#partialFrames++;
    this.#payloadLeft = length;
    return at;
  }

  /** Reads more payload of the current frame; at least one byte of it is here. */
  #continuePayload(chunk: Buffer, at: number, end: number): number {
    const count = Math.min(this.#payloadLeft, end - at);
    if (this.#payload === undefined) return this.#continueData(chunk, at, count);
    const payload = this.#growPayload(this.#payload, count);
    chunk.copy(payload, this.#payloadSeen, at, at + count);
    this.#payloadSeen += count;
    this.#payloadLeft -= count;
    if (this.#payloadLeft === 0) {
      this.discard();
      this.#sink.frame(this.#type, this.#flags, this.#stream, payload, 0, this.#payloadSeen);
    }
    return at + count;
  }

  /**
   * Makes room for `more` bytes, in proportion to the bytes that have arrived, never to the length that a header
   * announces.
   */
  #growPayload(payload: Buffer, more: number): Buffer {
    const needed = this.#payloadSeen + more;
    if (needed <= payload.length) return payload;
    const capacity = Math.min(this.#payloadSeen + this.#payloadLeft, 2 * needed);
    if (capacity > MAX_UNCOUNTED_FRAME) this.#reserve(capacity);
    // Not from Node's pool, where a few bytes would keep far more memory than is counted.
    const larger = Buffer.allocUnsafeSlow(capacity);
    payload.copy(larger, 0, 0, this.#payloadSeen);
    this.#payload = larger;
    return larger;
  }

  #reserve(capacity: number): void {
    if (!this.#sink.reserve(capacity - this.#reserved)) {
      throw loadError(undefined, "too many incomplete frames");
    }
    this.#reserved = capacity;
  }

  #continueData(chunk: Buffer, at: number, count: number): number {
    if (this.#padLengthPending) {
      this.#padLengthPending = false;
      this.#padLength = chunk[at] ?? 0;
      this.#payloadLeft--;
      if (this.#padLength > this.#payloadLeft) {
        throw protocolError("the padding exceeds the frame");
      }
      // The rest is padding: an END_STREAM flag must not wait for it.
      if (this.#payloadLeft === this.#padLength) this.#sink.data(chunk, at, at, true);
      return at + 1;
    }
    const content = this.#payloadLeft - this.#padLength;
    this.#payloadLeft -= count;
    if (content > 0) {
      const stop = at + Math.min(content, count);
      this.#sink.data(chunk, at, stop, this.#payloadLeft <= this.#padLength);
    }
    return at + count;
  }
}
