// Writes JSON as bytes into one growing buffer that is used again for the next reply. What is the same in many
// replies comes as fragments, encoded once; texts that need no escape are copied as they are.

import { Base64Writer, base64Length, MOST_KEPT } from "./base64.ts";
import type { Span } from "./proto-reader.ts";
import type { ProtoWriter } from "./proto-writer.ts";
import { splitMs } from "./proto-writer.ts";

const FIRST_SIZE = 8_192;
/** Up to here a loop copies faster than a call into the platform. */
const SHORT = 48;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ZERO = 0x30;
/** `"2026-01-31T10:20:30` */
const SECOND_LENGTH = 20;

/** Text of JSON that does not change. */
export function fragment(text: string): Buffer {
  return Buffer.from(text);
}

export class JsonWriter {
  #bytes: Buffer = Buffer.allocUnsafeSlow(FIRST_SIZE);
  #at = 0;
  readonly #base64 = new Base64Writer();
  /** The second that was written last, and its text: replies of one second are many. */
  #second = Number.NaN;
  readonly #secondText = Buffer.alloc(SECOND_LENGTH);

  reset(): void {
    this.#at = 0;
    if (this.#bytes.length > MOST_KEPT) this.#bytes = Buffer.allocUnsafeSlow(FIRST_SIZE);
  }

  /** What was written: a copy of its own, or `lent`, which the next reply overwrites. */
  take(lent: boolean): Buffer {
    const all = this.#bytes.subarray(0, this.#at);
    return lent ? all : Buffer.from(all);
  }

  raw(piece: Uint8Array): void {
    const { length } = piece;
    this.#room(length);
    const bytes = this.#bytes;
    const start = this.#at;
    if (length > SHORT) bytes.set(piece, start);
    else for (let at = 0; at < length; at++) bytes[start + at] = piece[at] ?? 0;
    this.#at = start + length;
  }

  /** ASCII that needs no quotes. */
  literal(text: string): void {
    const { length } = text;
    this.#room(length);
    const bytes = this.#bytes;
    let at = this.#at;
    for (let index = 0; index < length; index++) bytes[at++] = text.charCodeAt(index);
    this.#at = at;
  }

  /** A string with its quotes. */
  text(value: string): void {
    const { length } = value;
    this.#room(length + 2);
    const bytes = this.#bytes;
    let at = this.#at;
    bytes[at++] = QUOTE;
    for (let index = 0; index < length; index++) {
      const unit = value.charCodeAt(index);
      if (unit < 0x20 || unit > 0x7e || unit === QUOTE || unit === BACKSLASH) {
        this.#odd(value);
        return;
      }
      bytes[at++] = unit;
    }
    bytes[at++] = QUOTE;
    this.#at = at;
  }

  #odd(value: string): void {
    const quoted = JSON.stringify(value);
    const size = Buffer.byteLength(quoted);
    this.#room(size);
    this.#at += this.#bytes.write(quoted, this.#at, size, "utf8");
  }

  /** Part of another JSON text, which is to mean the same here. */
  span(from: Buffer, { start, end }: Span): void {
    const length = end - start;
    this.#room(length);
    const bytes = this.#bytes;
    const to = this.#at;
    if (length > SHORT) from.copy(bytes, to, start, end);
    else for (let at = 0; at < length; at++) bytes[to + at] = from[start + at] ?? 0;
    this.#at = to + length;
  }

  /** Infinities and NaN as texts, as canonical protobuf JSON has them. */
  double(value: number): void {
    if (value >>> 0 === value) this.#digits(value);
    else if (Number.isFinite(value)) this.literal(String(value));
    else this.text(String(value));
  }

  #digits(value: number): void {
    let width = 1;
    for (let rest = value; rest >= 10; rest = Math.floor(rest / 10)) width++;
    this.#room(width);
    this.#decimals(value, width);
  }

  /** So many digits of a whole number, with zeros in front. */
  #decimals(value: number, width: number): void {
    const bytes = this.#bytes;
    const start = this.#at;
    let rest = value;
    for (let at = start + width - 1; at >= start; at--) {
      const tenth = Math.floor(rest / 10);
      bytes[at] = ZERO + rest - tenth * 10;
      rest = tenth;
    }
    this.#at = start + width;
  }

  /** A Timestamp with its quotes. */
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

  /** A Duration with its quotes. */
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

  /** Nine digits of a second as 0, 3, 6 or 9 decimals. */
  #fraction(nanos: number): void {
    if (nanos === 0) return;
    this.literal(".");
    this.#room(9);
    if (nanos % 1_000 !== 0) this.#decimals(nanos, 9);
    else if (nanos % 1_000_000 !== 0) this.#decimals(nanos / 1_000, 6);
    else this.#decimals(nanos / 1_000_000, 3);
  }

  /** A message in base64, without quotes. */
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
