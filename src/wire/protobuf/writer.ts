// Writes the protobuf wire format into one growing buffer that is reused for the next message. The output is canonical:
// shortest varints, fields in the order of writing; callers leave defaults out. Fragments, which are encoded once for
// many messages, are only recorded, and copied when the message is taken.

import { isAscii } from "node:buffer";
import {
  type Base64Writer,
  base64Length,
  type Fragment,
  MAX_RETAINED_BYTES,
  viewOf,
} from "./base64.ts";
import { asBuffer, type ByteSpan } from "./reader.ts";

const INITIAL_SIZE = 4096;
/** Up to this length a loop copies faster than a call into native code. */
const SHORT = 64;

export class ProtoWriter {
  #bytes: Buffer;
  #view: DataView;
  #at = 0;
  /** The first `#fragmentCount` belong to this message. `#places` are their offsets among the bytes. */
  readonly #fragments: Fragment[] = [];
  readonly #places: number[] = [];
  #fragmentCount = 0;
  #fragmentBytes = 0;

  /** Writes into `memory` as long as it is large enough. */
  constructor(memory: Buffer = Buffer.allocUnsafeSlow(INITIAL_SIZE)) {
    this.#bytes = memory;
    this.#view = viewOf(memory);
  }

  get length(): number {
    return this.#at + this.#fragmentBytes;
  }

  reset(): void {
    this.#at = 0;
    this.#fragmentCount = 0;
    this.#fragmentBytes = 0;
    if (this.#bytes.length > MAX_RETAINED_BYTES) this.#use(Buffer.allocUnsafeSlow(INITIAL_SIZE));
  }

  /** The message: a view that is valid until the next write. */
  view(): Buffer {
    return this.#fragmentCount > 0 ? this.copy() : this.#bytes.subarray(0, this.#at);
  }

  /** A copy of the message. */
  copy(): Buffer {
    const copy = Buffer.allocUnsafe(this.length);
    this.copyTo(copy);
    return copy;
  }

  /** Copies the message to the start of a buffer that is large enough; returns its length. */
  copyTo(target: Buffer): number {
    let from = 0;
    let to = 0;
    for (let index = 0; index < this.#fragmentCount; index++) {
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

  /** Writes the message as padded Base64, `base64Length(length)` bytes. */
  base64(writer: Base64Writer, to: Uint8Array, at: number): void {
    writer.begin(base64Length(this.length));
    let from = 0;
    for (let index = 0; index < this.#fragmentCount; index++) {
      const place = this.#places[index] ?? 0;
      const fragment = this.#fragments[index];
      writer.bytes(this.#view, from, place);
      if (fragment !== undefined) writer.fragment(fragment);
      from = place;
    }
    writer.bytes(this.#view, from, this.#at);
    writer.end(to, at);
  }

  /**
   * Writes a fragment as it is, without tag or length: at the end, or at an earlier offset if no fragment has been
   * written since.
   */
  fragment(fragment: Fragment, place = this.#at): void {
    this.#fragments[this.#fragmentCount] = fragment;
    this.#places[this.#fragmentCount] = place;
    this.#fragmentCount += 1;
    this.#fragmentBytes += fragment.bytes.length;
  }

  /** Position of the next byte; fragments do not count. */
  get place(): number {
    return this.#at;
  }

  /** Goes on at another place, for example to drop plain bytes written since. */
  moveTo(place: number): void {
    this.#at = place;
  }

  /** ASCII without tag or length; false, and nothing written, when it is anything else. */
  ascii(text: string): boolean {
    const { length } = text;
    this.#room(length);
    const bytes = this.#bytes;
    let at = this.#at;
    let all = 0;
    for (let index = 0; index < length; index++) {
      const unit = text.charCodeAt(index);
      all |= unit;
      bytes[at++] = unit;
    }
    if (all > 0x7f) return false;
    this.#at = at;
    return true;
  }

  /** A tag, given as `number << 3 | wire type`. */
  tag(tag: number): void {
    this.uint32(tag);
  }

  uint32(value: number): void {
    this.#room(5);
    this.#at = putVarint(this.#bytes, this.#at, value);
  }

  /** A signed varint. Negative numbers take ten bytes. */
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
    this.double(value);
  }

  /** The bytes of a double, after its tag. */
  double(value: number): void {
    this.#room(8);
    this.#view.setFloat64(this.#at, value, true);
    this.#at += 8;
  }

  /** A Timestamp or Duration in ms. Both have the seconds in field 1 and the nanoseconds in field 2. */
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

  /** A message of three doubles, fields 1 to 3; those that are 0 are left out. */
  doubles(tag: number, first: number, second: number, third: number): void {
    this.#room(29);
    const bytes = this.#bytes;
    const view = this.#view;
    const start = this.#at + 2;
    let at = start;
    if (first !== 0 || Object.is(first, -0)) {
      bytes[at] = 0x09;
      view.setFloat64(at + 1, first, true);
      at += 9;
    }
    if (second !== 0 || Object.is(second, -0)) {
      bytes[at] = 0x11;
      view.setFloat64(at + 1, second, true);
      at += 9;
    }
    if (third !== 0 || Object.is(third, -0)) {
      bytes[at] = 0x19;
      view.setFloat64(at + 1, third, true);
      at += 9;
    }
    bytes[start - 2] = tag;
    bytes[start - 1] = at - start;
    this.#at = at;
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

  /** Writes short ASCII text with its length; returns false and writes nothing for other text. */
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

  /** A string field, not empty, with an encoded prefix. */
  textWithPrefix(tag: number, prefix: Uint8Array, text: string): void {
    const length = prefix.length + text.length;
    if (length > 0x7f || !this.#shortWithPrefix(tag, prefix, text, length)) {
      this.text(tag, asBuffer(prefix).toString() + text);
    }
  }

  #shortWithPrefix(tag: number, prefix: Uint8Array, text: string, length: number): boolean {
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
   * A map entry with a value from the bytes of another message. `key` is the encoded key field and the tag of the
   * value. Returns false and writes nothing if the value is not ASCII, because it may be invalid UTF-8.
   */
  asciiPair(tag: number, key: Uint8Array, bytes: Buffer, value: ByteSpan): boolean {
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

  /** For entries whose lengths need more than one byte: calls into native code are faster than a loop then. */
  #longPair(tag: number, key: Uint8Array, bytes: Buffer, value: ByteSpan): boolean {
    const text = bytes.subarray(value.start, value.end);
    if (!isAscii(text)) return false;
    this.uint32(tag);
    this.uint32(key.length + varintSize(text.length) + text.length);
    this.raw(key);
    this.uint32(text.length);
    this.raw(text);
    return true;
  }

  /** Writes bytes as they are, without tag or length. */
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

  /** A message or bytes field that is present and empty. */
  emptyField(tag: number): void {
    this.uint32(tag);
    this.uint32(0);
  }

  /**
   * Starts a nested message. Pass the returned offset to `close`, with the same `guess`: the expected size of the
   * length prefix in bytes.
   */
  open(tag: number, guess = 1): number {
    this.uint32(tag);
    this.#room(guess);
    this.#at += guess;
    return this.#at;
  }

  /** Ends a nested message: writes its length, and moves the content if the length prefix has another size. */
  close(start: number, guess = 1): void {
    const written = this.#at - start;
    let size = written;
    let inside = this.#fragmentCount;
    while (inside > 0 && (this.#places[inside - 1] ?? 0) >= start) {
      size += this.#fragments[--inside]?.bytes.length ?? 0;
    }
    const more = varintSize(size) - guess;
    if (more !== 0) this.#shift(start, more, inside);
    this.#at = start - guess;
    this.uint32(size);
    this.#at += written;
  }

  /** Moves the bytes from `start` on, and the fragments among them, by `by` bytes. */
  #shift(start: number, by: number, firstFragment: number): void {
    this.#room(by);
    this.#bytes.copyWithin(start + by, start, this.#at);
    for (let index = firstFragment; index < this.#fragmentCount; index++) {
      this.#places[index] = (this.#places[index] ?? 0) + by;
    }
  }

  #room(size: number): void {
    if (this.#at + size < this.#bytes.length) return;
    this.#grow(size);
  }

  /** The buffer always has a spare byte, because the Base64 writer reads four bytes at a time. */
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

/** Writes a varint at `start` and returns its end. */
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

/** Milliseconds as whole seconds and nanoseconds, for timestamps and durations. */
export function splitMs(ms: number): { readonly seconds: number; readonly nanos: number } {
  let seconds = Math.floor(ms / 1_000);
  let nanos = Math.round((ms - seconds * 1_000) * 1e6);
  if (nanos === 1e9) {
    seconds += 1;
    nanos = 0;
  }
  return { seconds, nanos };
}
