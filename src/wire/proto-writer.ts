// Writes protobuf wire format into one growing buffer that is used again for the next message. Output is
// canonical: shortest varints, fields in the order they are written, defaults left out by the callers.
// Fragments, encoded once for many messages, are only noted, and copied when the message is taken.

import { isAscii } from "node:buffer";
import { type Base64Writer, base64Length, type Fragment, MOST_KEPT, viewOf } from "./base64.ts";
import { asBuffer, type Span } from "./proto-reader.ts";

const FIRST_SIZE = 4096;
/** Up to here a loop copies faster than a call into the platform. */
const SHORT = 64;

export class ProtoWriter {
  #bytes: Buffer = Buffer.allocUnsafeSlow(FIRST_SIZE);
  #view = viewOf(this.#bytes);
  #at = 0;
  /** Those of this message are the first `#noted`, each with its place among the bytes. */
  readonly #fragments: Fragment[] = [];
  readonly #places: number[] = [];
  #noted = 0;
  #notedBytes = 0;

  get length(): number {
    return this.#at + this.#notedBytes;
  }

  reset(): void {
    this.#at = 0;
    this.#noted = 0;
    this.#notedBytes = 0;
    if (this.#bytes.length > MOST_KEPT) this.#use(Buffer.allocUnsafeSlow(FIRST_SIZE));
  }

  /** What was written: a view that is valid until the next write. */
  view(): Buffer {
    return this.#noted > 0 ? this.copy() : this.#bytes.subarray(0, this.#at);
  }

  /** What was written, as a copy of its own. */
  copy(): Buffer {
    const copy = Buffer.allocUnsafe(this.length);
    this.copyTo(copy);
    return copy;
  }

  /** Copies what was written to the start of a buffer with room for it. How long it is. */
  copyTo(target: Buffer): number {
    let from = 0;
    let to = 0;
    for (let index = 0; index < this.#noted; index++) {
      const place = this.#places[index] ?? 0;
      to = this.#copyPart(target, to, from, place);
      to += this.#fragments[index]?.bytes.copy(target, to) ?? 0;
      from = place;
    }
    return this.#copyPart(target, to, from, this.#at);
  }

  #copyPart(target: Buffer, start: number, from: number, end: number): number {
    if (end - from > SHORT) return start + this.#bytes.copy(target, start, from, end);
    let to = start;
    for (let at = from; at < end; at++) target[to++] = this.#bytes[at] ?? 0;
    return to;
  }

  /** Writes what was written as padded base64, `base64Length(length)` bytes of it. */
  base64(writer: Base64Writer, to: Uint8Array, at: number): void {
    writer.begin(base64Length(this.length));
    let from = 0;
    for (let index = 0; index < this.#noted; index++) {
      const place = this.#places[index] ?? 0;
      const fragment = this.#fragments[index];
      writer.bytes(this.#view, from, place);
      if (fragment !== undefined) writer.fragment(fragment);
      from = place;
    }
    writer.bytes(this.#view, from, this.#at);
    writer.end(to, at);
  }

  /** Bytes as they are, without tag or length, that will be written again in other messages. */
  fragment(fragment: Fragment): void {
    this.#fragments[this.#noted] = fragment;
    this.#places[this.#noted] = this.#at;
    this.#noted += 1;
    this.#notedBytes += fragment.bytes.length;
  }

  /** A tag, given as `number << 3 | wire type`. */
  tag(tag: number): void {
    this.uint32(tag);
  }

  uint32(value: number): void {
    this.#room(5);
    this.#at = putVarint(this.#bytes, this.#at, value);
  }

  /** Signed; negative numbers take ten bytes. */
  int64(value: number | bigint): void {
    if (typeof value === "number" && value >= 0 && value <= 0xffffffff) {
      this.uint32(value);
      return;
    }
    this.#room(10);
    let rest = BigInt.asUintN(64, BigInt(value));
    while (rest > 0x7fn) {
      this.#bytes[this.#at++] = Number(rest & 0x7fn) | 0x80;
      rest >>= 7n;
    }
    this.#bytes[this.#at++] = Number(rest);
  }

  /** A boolean or enum field, left out when it is zero. */
  uint32Field(tag: number, value: number): void {
    if (value === 0) return;
    this.uint32(tag);
    this.uint32(value);
  }

  doubleField(tag: number, value: number): void {
    if (value === 0 && !Object.is(value, -0)) return;
    this.uint32(tag);
    this.#room(8);
    this.#view.setFloat64(this.#at, value, true);
    this.#at += 8;
  }

  /** A Timestamp or Duration of so many ms: seconds and nanoseconds have the same numbers in both. */
  time(tag: number, ms: number): void {
    const { seconds, nanos } = splitMs(ms);
    if (seconds > 0xffffffff || seconds < 0) {
      this.#longTime(tag, seconds, nanos);
      return;
    }
    this.#room(14);
    const bytes = this.#bytes;
    const start = this.#at + 2;
    let at = start;
    if (seconds !== 0) {
      bytes[at++] = 0x08;
      at = putVarint(bytes, at, seconds);
    }
    if (nanos !== 0) {
      bytes[at++] = 0x10;
      at = putVarint(bytes, at, nanos);
    }
    bytes[start - 2] = tag;
    bytes[start - 1] = at - start;
    this.#at = at;
  }

  #longTime(tag: number, seconds: number, nanos: number): void {
    const start = this.open(tag);
    this.tag(0x08);
    this.int64(seconds);
    this.uint32Field(0x10, nanos);
    this.close(start);
  }

  /** A message of three doubles, fields 1 to 3. */
  doubles(tag: number, first: number, second: number, third: number): void {
    this.#room(29);
    const start = this.#at + 2;
    this.#at = start;
    this.doubleField(0x09, first);
    this.doubleField(0x11, second);
    this.doubleField(0x19, third);
    this.#bytes[start - 2] = tag;
    this.#bytes[start - 1] = this.#at - start;
  }

  /** A string field, left out when it is empty. */
  textField(tag: number, text: string): void {
    if (text !== "") this.text(tag, text);
  }

  /** A string field, also when it is empty. */
  text(tag: number, text: string): void {
    this.uint32(tag);
    const { length } = text;
    if (length < 0x80 && this.#ascii(text, length)) return;
    const size = Buffer.byteLength(text);
    this.uint32(size);
    this.#room(size);
    this.#at += this.#bytes.write(text, this.#at, size, "utf8");
  }

  /** Short ASCII with its length byte; false, and nothing written, when it is anything else. */
  #ascii(text: string, length: number): boolean {
    this.#room(length + 1);
    const bytes = this.#bytes;
    let at = this.#at;
    bytes[at++] = length;
    for (let index = 0; index < length; index++) {
      const unit = text.charCodeAt(index);
      if (unit > 0x7f) return false;
      bytes[at++] = unit;
    }
    this.#at = at;
    return true;
  }

  /** A string field, not empty, that begins with a text which was encoded before. */
  textBehind(tag: number, prefix: Uint8Array, text: string): void {
    const length = prefix.length + text.length;
    if (length > 0x7f || !this.#shortBehind(tag, prefix, text, length)) {
      this.text(tag, asBuffer(prefix).toString() + text);
    }
  }

  #shortBehind(tag: number, prefix: Uint8Array, text: string, length: number): boolean {
    this.#room(6 + length);
    const bytes = this.#bytes;
    let at = this.#at;
    let all = 0;
    bytes[at++] = tag;
    bytes[at++] = length;
    for (let index = 0; index < prefix.length; index++) bytes[at++] = prefix[index] ?? 0;
    for (let index = 0; index < text.length; index++) {
      const unit = text.charCodeAt(index);
      all |= unit;
      bytes[at++] = unit;
    }
    if (all > 0x7f) return false;
    this.#at = at;
    return true;
  }

  /**
   * A map entry whose key is `key` (its field and the tag of the value, encoded) and whose value lies in a
   * message. False, and nothing written, where the value is not ASCII: it may be no UTF-8 either.
   */
  asciiPair(tag: number, key: Uint8Array, bytes: Buffer, value: Span): boolean {
    const length = value.end - value.start;
    const whole = key.length + 1 + length;
    if (whole > 0x7f) return this.#longPair(tag, key, bytes, value);
    this.#room(2 + whole);
    const to = this.#bytes;
    let at = this.#at;
    let all = 0;
    to[at++] = tag;
    to[at++] = whole;
    for (let index = 0; index < key.length; index++) to[at++] = key[index] ?? 0;
    to[at++] = length;
    for (let from = value.start; from < value.end; from++) {
      const byte = bytes[from] ?? 0;
      all |= byte;
      to[at++] = byte;
    }
    if (all > 0x7f) return false;
    this.#at = at;
    return true;
  }

  /** The same where lengths take more than a byte: a loop would take longer than calls into the platform. */
  #longPair(tag: number, key: Uint8Array, bytes: Buffer, value: Span): boolean {
    const text = bytes.subarray(value.start, value.end);
    if (!isAscii(text)) return false;
    this.uint32(tag);
    this.uint32(key.length + varintSize(text.length) + text.length);
    this.raw(key);
    this.uint32(text.length);
    this.raw(text);
    return true;
  }

  /** Bytes as they are, without tag or length. */
  raw(bytes: Uint8Array): void {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  bytesField(tag: number, bytes: Uint8Array): void {
    this.uint32(tag);
    this.uint32(bytes.length);
    this.raw(bytes);
  }

  /** A field of a message or of bytes that is there and empty. */
  emptyField(tag: number): void {
    this.uint32(tag);
    this.uint32(0);
  }

  /** Starts a nested message; give what it returns to `close`, with the same `guess` of its length's size. */
  open(tag: number, guess = 1): number {
    this.uint32(tag);
    this.#room(guess);
    this.#at += guess;
    return this.#at;
  }

  /** Ends a nested message: writes its length, moving the content when that takes other room than was left. */
  close(start: number, guess = 1): void {
    const written = this.#at - start;
    let size = written;
    let inside = this.#noted;
    while (inside > 0 && (this.#places[inside - 1] ?? 0) >= start) {
      size += this.#fragments[--inside]?.bytes.length ?? 0;
    }
    const more = varintSize(size) - guess;
    if (more !== 0) this.#shift(start, more, inside);
    this.#at = start - guess;
    this.uint32(size);
    this.#at += written;
  }

  /** Moves what was written from `start` on, and the fragments noted there, by some bytes. */
  #shift(start: number, by: number, firstNoted: number): void {
    this.#room(by);
    this.#bytes.copyWithin(start + by, start, this.#at);
    for (let index = firstNoted; index < this.#noted; index++) {
      this.#places[index] = (this.#places[index] ?? 0) + by;
    }
  }

  #room(size: number): void {
    if (this.#at + size < this.#bytes.length) return;
    this.#grow(size);
  }

  /** There is always a byte more than what was written: base64 reads in fours. */
  #grow(size: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#bytes.length * 2, this.#at + size + 1));
    larger.set(this.#bytes.subarray(0, this.#at));
    this.#use(larger);
  }

  #use(bytes: Buffer): void {
    this.#bytes = bytes;
    this.#view = viewOf(bytes);
  }
}

export function varintSize(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x200000) return 3;
  return value < 0x10000000 ? 4 : 5;
}

/** Where the varint ends that was put at `start`. */
export function putVarint(bytes: Uint8Array, start: number, value: number): number {
  let at = start;
  let rest = value >>> 0;
  while (rest > 0x7f) {
    bytes[at++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  bytes[at++] = rest;
  return at;
}

/** Milliseconds as whole seconds and nanoseconds, for timestamps and durations alike. */
export function splitMs(ms: number): { readonly seconds: number; readonly nanos: number } {
  let seconds = Math.floor(ms / 1_000);
  let nanos = Math.round((ms - seconds * 1_000) * 1e6);
  if (nanos === 1e9) {
    seconds += 1;
    nanos = 0;
  }
  return { seconds, nanos };
}
