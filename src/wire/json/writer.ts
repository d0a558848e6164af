// Writes JSON as bytes into one growing buffer that is reused for the next reply. Text that is the same in many replies
// is encoded once; strings that need no escape are copied.

import { cutText, MAX_SHOWN_BYTES } from "#base/text/cut.ts";
import { Base64Writer, base64Length, MAX_RETAINED_BYTES } from "../protobuf/base64.ts";
import type { ByteSpan } from "../protobuf/reader.ts";
import type { ProtoWriter } from "../protobuf/writer.ts";
import { splitMs } from "../protobuf/writer.ts";

const FIRST_SIZE = 8_192;
/** Up to this length a loop copies faster than a call into native code. */
const SHORT = 48;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ZERO = 0x30;
/** `"2026-01-31T10:20:30` */
const SECOND_LENGTH = 20;

/** Encodes constant JSON text. */
export function fragment(text: string): Buffer {
  return Buffer.from(text);
}

export class JsonWriter {
  #bytes: Buffer = Buffer.allocUnsafeSlow(FIRST_SIZE);
  #at = 0;
  readonly #base64 = new Base64Writer();
  /** The last second that was written, and its text: many replies fall into the same second. */
  #second = Number.NaN;
  readonly #secondText = Buffer.alloc(SECOND_LENGTH);

  reset(): void {
    this.#at = 0;
    if (this.#bytes.length > MAX_RETAINED_BYTES) this.#bytes = Buffer.allocUnsafeSlow(FIRST_SIZE);
  }

  /** The text: as a copy or, if `lent`, as a view that the next reply overwrites. */
  take(lent: boolean): Buffer {
    const all = this.#bytes.subarray(0, this.#at);
    return lent ? all : Buffer.from(all);
  }

  /** Writes encoded JSON. */
  raw(piece: Uint8Array): void {
    const { length } = piece;
    this.#room(length);
    const bytes = this.#bytes;
    const start = this.#at;
    if (length > SHORT) bytes.set(piece, start);
    else for (let at = 0; at < length; at++) bytes[start + at] = piece[at] ?? 0;
    this.#at = start + length;
  }

  /** Writes ASCII text without quotes. */
  literal(text: string): void {
    const { length } = text;
    this.#room(length);
    const bytes = this.#bytes;
    let at = this.#at;
    for (let index = 0; index < length; index++) bytes[at++] = text.charCodeAt(index);
    this.#at = at;
  }

  /** Writes a string with quotes. */
  text(value: string): void {
    const { length } = value;
    this.#room(length + 2);
    const bytes = this.#bytes;
    let at = this.#at;
    bytes[at++] = QUOTE;
    for (let index = 0; index < length; index++) {
      const unit = value.charCodeAt(index);
      if (unit < 0x20 || unit > 0x7e || unit === QUOTE || unit === BACKSLASH) {
        this.#escaped(value);
        return;
      }
      bytes[at++] = unit;
    }
    bytes[at++] = QUOTE;
    this.#at = at;
  }

  #escaped(value: string): void {
    const quoted = JSON.stringify(value);
    const size = Buffer.byteLength(quoted);
    this.#room(size);
    this.#at += this.#bytes.write(quoted, this.#at, size, "utf8");
  }

  /** Copies a part of another JSON text. */
  span(from: Buffer, { start, end }: ByteSpan): void {
    const length = end - start;
    this.#room(length);
    const bytes = this.#bytes;
    const to = this.#at;
    if (length > SHORT) from.copy(bytes, to, start, end);
    else for (let at = 0; at < length; at++) bytes[to + at] = from[start + at] ?? 0;
    this.#at = to + length;
  }

  /** Copies a part without escapes like `span`, cut where it is too long to be shown. */
  shownSpan(from: Buffer, part: ByteSpan): void {
    if (part.end - part.start <= MAX_SHOWN_BYTES) this.span(from, part);
    else this.raw(Buffer.from(cutText(part.text(from))));
  }

  /** Writes infinities and NaN as strings, as in canonical protobuf JSON. */
  double(value: number): void {
    if (value >>> 0 === value) this.#digits(value);
    else if (Number.isFinite(value)) this.literal(String(value));
    else this.text(String(value));
  }

  #digits(value: number): void {
    let width = 1;
    for (let rest = value; rest >= 10; rest = (rest / 10) >>> 0) width++;
    this.#room(width);
    this.#decimals(value, width);
  }

  /** Writes a uint32 with `width` digits, padded with zeros. */
  #decimals(value: number, width: number): void {
    const bytes = this.#bytes;
    const start = this.#at;
    let rest = value;
    for (let at = start + width - 1; at >= start; at--) {
      const tenth = (rest / 10) >>> 0;
      bytes[at] = ZERO + rest - tenth * 10;
      rest = tenth;
    }
    this.#at = start + width;
  }

  /** Writes a Timestamp (Unix ms) with quotes. */
  time(ms: number): void {
    const { seconds, nanos } = splitMs(ms);
    if (seconds !== this.#second) {
      this.#second = seconds;
      this.#secondText.write(`"${new Date(seconds * 1_000).toISOString()}`, "latin1");
    }
    this.raw(this.#secondText);
    this.#fraction(nanos);
    this.literal('Z"');
  }

  /** Writes a Duration (ms) with quotes. */
  duration(ms: number): void {
    if (ms === 0) {
      this.literal('"0s"');
      return;
    }
    const { seconds, nanos } = splitMs(ms);
    this.literal(`"${seconds}`);
    this.#fraction(nanos);
    this.literal('s"');
  }

  /** Writes the fraction of a second with 0, 3, 6 or 9 decimals. */
  #fraction(nanos: number): void {
    if (nanos === 0) return;
    this.literal(".");
    this.#room(9);
    if (nanos % 1_000 !== 0) this.#decimals(nanos, 9);
    else if (nanos % 1_000_000 !== 0) this.#decimals(nanos / 1_000, 6);
    else this.#decimals(nanos / 1_000_000, 3);
  }

  /** Writes a message in Base64, without quotes. */
  base64(message: ProtoWriter): void {
    const size = base64Length(message.length);
    this.#room(size);
    message.base64(this.#base64, this.#bytes, this.#at);
    this.#at += size;
  }

  #room(size: number): void {
    if (this.#at + size <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#bytes.length * 2, this.#at + size));
    larger.set(this.#bytes.subarray(0, this.#at));
    this.#bytes = larger;
  }
}
