// Extracts length-prefixed messages from a body that arrives in pieces. Buffers grow in proportion to the bytes that
// have arrived, never to the announced length, and count against the limits of the connection.

import type { RequestStream } from "#h2/exchange.ts";
import {
  type CallStatus,
  INVALID_COMPRESSED_FLAG,
  messageTooLong,
  TOO_MANY_BUFFERED,
} from "../status.ts";

/** Compressed flag and length. */
export const PREFIX_LENGTH = 5;
/** Growth factor and initial size of the buffer for an incomplete message. */
const GROWTH = 4;
const FIRST_ROOM = 4_096;
/** Shared by all empty messages, of which there may be millions. */
const NO_BYTES = new Uint8Array(0);

/** True if `chunk[start, end)` is exactly one uncompressed message with its prefix, of at most `limit` bytes. */
export function isOneMessage(chunk: Buffer, start: number, end: number, limit: number): boolean {
  const length = end - start - PREFIX_LENGTH;
  return (
    length >= 0 && chunk[start] === 0 && chunk.readUInt32BE(start + 1) === length && length <= limit
  );
}

export class MessageReader {
  readonly #stream: RequestStream;
  readonly #maxMessage: number;
  /** Bytes of the prefix that have arrived. */
  #prefixSeen = 0;
  #flag = 0;
  #length = 0;
  #bytes: Uint8Array = NO_BYTES;
  #filled = 0;
  #reserved = 0;
  #rejection: CallStatus | undefined;

  constructor(stream: RequestStream, maxMessage: number) {
    this.#stream = stream;
    this.#maxMessage = maxMessage;
  }

  /** Set once nothing more can be read. */
  get rejection(): CallStatus | undefined {
    return this.#rejection;
  }

  /** Part of a message has arrived. */
  get started(): boolean {
    return this.#prefixSeen > 0;
  }

  /** A complete message can be taken. */
  get complete(): boolean {
    return (
      this.#prefixSeen === PREFIX_LENGTH &&
      this.#filled === this.#length &&
      this.#rejection === undefined
    );
  }

  get compressed(): boolean {
    return this.#flag === 1;
  }

  /** Bytes reserved for the complete message. The caller of `take` must release them. */
  get reserved(): number {
    return this.#reserved;
  }

  /** Reads at most to the end of a message; returns the offset where it stopped. */
  read(chunk: Buffer, start: number, end: number): number {
    let at = start;
    while (this.#prefixSeen < PREFIX_LENGTH) {
      if (at === end) return at;
      const byte = chunk[at++] ?? 0;
      if (this.#prefixSeen++ === 0) this.#flag = byte;
      else this.#length = this.#length * 256 + byte;
    }
    if (this.#flag > 1) this.#rejection = INVALID_COMPRESSED_FLAG;
    else if (this.#length > this.#maxMessage) this.#rejection = messageTooLong(this.#maxMessage);
    else {
      const part = Math.min(end - at, this.#length - this.#filled);
      if (part === 0) return at;
      if (this.#grow(this.#filled + part)) {
        this.#bytes.set(chunk.subarray(at, at + part), this.#filled);
        this.#filled += part;
        return at + part;
      }
      this.#rejection = TOO_MANY_BUFFERED;
    }
    return end;
  }

  /** Returns the complete message; the next one may start. */
  take(): Uint8Array {
    const bytes = this.#bytes;
    this.#prefixSeen = 0;
    this.#length = 0;
    this.#filled = 0;
    this.#reserved = 0;
    this.#bytes = NO_BYTES;
    return bytes;
  }

  /** Makes room for this many bytes. Returns false beyond the memory limits. */
  #grow(needed: number): boolean {
    const had = this.#bytes.length;
    if (needed <= had) return true;
    const room = Math.min(this.#length, Math.max(needed, had * GROWTH, FIRST_ROOM));
    if (!this.#stream.reserve(room - had)) return false;
    this.#reserved = room;
    const larger = Buffer.allocUnsafe(room);
    larger.set(this.#bytes.subarray(0, this.#filled));
    this.#bytes = larger;
    return true;
  }
}
