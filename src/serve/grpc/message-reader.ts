// Takes length-prefixed messages out of a body that comes in pieces. What it keeps is in proportion to what has
// come, never to what a prefix promises, and counts against the bounds of the connection.

import type { Stream } from "../h2/exchange.ts";
import { MAX_MESSAGE } from "./methods.ts";
import { BAD_FLAG, type Refusal, TOO_LONG, TOO_MUCH } from "./status.ts";

/** Compressed flag and length. */
export const PREFIX = 5;
/** Room for an incomplete message grows by this factor and is at least so large: few copies, little waste. */
const GROWTH = 4;
const FIRST_ROOM = 4_096;

/** `chunk[start, end)` is one uncompressed message with its prefix, and nothing else. */
export function isOneMessage(chunk: Buffer, start: number, end: number): boolean {
  const length = end - start - PREFIX;
  return (
    length >= 0 &&
    chunk[start] === 0 &&
    chunk.readUInt32BE(start + 1) === length &&
    length <= MAX_MESSAGE
  );
}

export class MessageReader {
  readonly #stream: Stream;
  /** Bytes of the prefix that have come. */
  #prefix = 0;
  #flag = 0;
  #length = 0;
  #bytes = new Uint8Array(0);
  #filled = 0;
  #held = 0;
  #refusal: Refusal | undefined;

  constructor(stream: Stream) {
    this.#stream = stream;
  }

  /** Nothing more can be read. */
  get refusal(): Refusal | undefined {
    return this.#refusal;
  }

  /** A message has begun. */
  get begun(): boolean {
    return this.#prefix > 0;
  }

  /** A message is there to be taken. */
  get whole(): boolean {
    return this.#prefix === PREFIX && this.#filled === this.#length && this.#refusal === undefined;
  }

  get compressed(): boolean {
    return this.#flag === 1;
  }

  /** Bytes that are held for the message that is there. Whoever takes it releases them. */
  get held(): number {
    return this.#held;
  }

  /** Reads on, at most to the end of a message, and returns where it stopped. */
  read(chunk: Buffer, start: number, end: number): number {
    let at = start;
    while (this.#prefix < PREFIX) {
      if (at === end) return at;
      const byte = chunk[at++] ?? 0;
      if (this.#prefix++ === 0) this.#flag = byte;
      else this.#length = this.#length * 256 + byte;
    }
    if (this.#flag > 1) this.#refusal = BAD_FLAG;
    else if (this.#length > MAX_MESSAGE) this.#refusal = TOO_LONG;
    else {
      const part = Math.min(end - at, this.#length - this.#filled);
      if (this.#grow(this.#filled + part)) {
        this.#bytes.set(chunk.subarray(at, at + part), this.#filled);
        this.#filled += part;
        return at + part;
      }
      this.#refusal = TOO_MUCH;
    }
    return end;
  }

  /** The message that is there; the next one may begin. */
  take(): Uint8Array {
    const bytes = this.#bytes;
    this.#prefix = 0;
    this.#length = 0;
    this.#filled = 0;
    this.#held = 0;
    this.#bytes = new Uint8Array(0);
    return bytes;
  }

  /** Makes room for so many bytes; false: they may not be kept. */
  #grow(needed: number): boolean {
    const had = this.#bytes.length;
    if (needed <= had) return true;
    const room = Math.min(this.#length, Math.max(needed, had * GROWTH, FIRST_ROOM));
    if (!this.#stream.hold(room - had)) return false;
    this.#held = room;
    const larger = Buffer.allocUnsafe(room);
    larger.set(this.#bytes.subarray(0, this.#filled));
    this.#bytes = larger;
    return true;
  }
}
