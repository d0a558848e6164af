// Reads the protobuf wire format in place, for the few messages that are too frequent for a library. It creates no
// object per field, checks bounds against the enclosing message, and throws the same Fault for everything malformed.

import { isUtf8 } from "node:buffer";
import { Fault } from "#base/fault.ts";

export const VARINT = 0;
export const FIXED64 = 1;
export const BYTES = 2;
const START_GROUP = 3;
const END_GROUP = 4;
const FIXED32 = 5;

/** Maximum nesting of unknown groups. Libraries have limits of the same order. */
const MAX_GROUPS = 64;

/** A double represents an integer exactly if the high half of its 64 bits is at least -EXACT and below EXACT. */
const EXACT = 1 << 21;

export function malformed(): Fault {
  return new Fault("INVALID_ARGUMENT", "the message is not valid protobuf");
}

/** The same memory as a Buffer, whose text and number methods are native. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Offsets of a field's bytes in its message; empty when the field is absent. */
export class ByteSpan {
  start = 0;
  end = 0;

  clear(): void {
    this.start = 0;
    this.end = 0;
  }

  /** Invalid UTF-8 becomes U+FFFD, so that an odd request is not an outage. */
  text(bytes: Buffer): string {
    return this.start === this.end ? "" : bytes.toString("utf8", this.start, this.end);
  }
}

export class ProtoReader {
  bytes: Buffer;
  at = 0;
  /** Wire type of the last tag. */
  wire = 0;
  /** The halves of the last 64-bit number, both signed. */
  #low = 0;
  #high = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = asBuffer(bytes);
  }

  /** Starts to read another message. */
  reset(bytes: Uint8Array): void {
    this.bytes = asBuffer(bytes);
    this.at = 0;
  }

  get end(): number {
    return this.bytes.length;
  }

  /** Reads a tag: returns the field number and stores the wire type in `wire`. */
  tag(end: number): number {
    const { at } = this;
    const byte = at < end ? (this.bytes[at] ?? 0) : 0;
    // Most tags have one byte.
    if (byte >= 8 && byte < 0x80) {
      this.at = at + 1;
      this.wire = byte & 7;
      return byte >>> 3;
    }
    return this.#longTag(end);
  }

  /** In a method of its own, so that `tag` stays small enough to be inlined. */
  #longTag(end: number): number {
    const { at } = this;
    const tag = this.uint32(end);
    const size = this.at - at;
    // A tag has 32 bits in at most five bytes. Truncating a longer one could yield the number of another field.
    if (size > 5 || (size === 5 && (this.bytes[at + 4] ?? 0) > 0x0f)) throw malformed();
    this.wire = tag & 7;
    const field = tag >>> 3;
    if (field === 0) throw malformed();
    return field;
  }

  /** A varint's low 32 bits, unsigned. */
  uint32(end: number): number {
    const { bytes } = this;
    let byte = this.at < end ? (bytes[this.at++] ?? 0) : this.#cut();
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    for (let shift = 7; shift < 70; shift += 7) {
      byte = this.at < end ? (bytes[this.at++] ?? 0) : this.#cut();
      if (shift < 32) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
    throw malformed();
  }

  bool(end: number): boolean {
    this.#varint64(end);
    return (this.#low | this.#high) !== 0;
  }

  /** A signed 64-bit varint. */
  int64(end: number): bigint {
    this.#varint64(end);
    return (BigInt(this.#high) << 32n) | BigInt(this.#low >>> 0);
  }

  /** A signed 64-bit varint as the nearest double, which is exact up to 2^53. */
  int64Number(end: number): number {
    this.#varint64(end);
    return this.#high * 0x100000000 + (this.#low >>> 0);
  }

  /** A signed 64-bit varint as decimal text, without a bigint where a double is exact. */
  int64Text(end: number): string {
    this.#varint64(end);
    const high = this.#high;
    if (high < -EXACT || high >= EXACT) {
      return String((BigInt(high) << 32n) | BigInt(this.#low >>> 0));
    }
    return String(high * 0x100000000 + (this.#low >>> 0));
  }

  /** Reads 64 bits into two halves. Bigints are so slow that a message full of them would be an attack. */
  #varint64(end: number): void {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.at < end ? (this.bytes[this.at++] ?? 0) : this.#cut();
      const bits = byte & 0x7f;
      if (shift < 32) low |= bits << shift;
      if (shift > 28) high |= bits << (shift - 32);
      else if (shift === 28) high = bits >>> 4;
      if (byte >= 0x80) continue;
      this.#low = low;
      this.#high = high;
      return;
    }
    throw malformed();
  }

  double(end: number): number {
    if (this.at + 8 > end) throw malformed();
    const value = this.bytes.readDoubleLE(this.at);
    this.at += 8;
    return value;
  }

  /** Reads a length and returns the end of the field, which lies within `end`. */
  sub(end: number): number {
    const { at } = this;
    const byte = at < end ? (this.bytes[at] ?? 0) : 0x80;
    let length = byte;
    if (byte < 0x80) this.at = at + 1;
    else length = this.uint32(end);
    const stop = this.at + length;
    if (stop > end) throw malformed();
    return stop;
  }

  /** Stores the offsets of a length-delimited field and skips it. */
  span(end: number, into: ByteSpan): void {
    const stop = this.sub(end);
    into.start = this.at;
    into.end = stop;
    this.at = stop;
  }

  /** A string. Invalid UTF-8 becomes U+FFFD, so that an odd request is not an outage. */
  text(end: number): string {
    const stop = this.sub(end);
    const start = this.at;
    this.at = stop;
    return start === stop ? "" : this.bytes.toString("utf8", start, stop);
  }

  /** Skips the value of the field whose tag was just read. */
  skip(field: number, end: number, depth = 0): void {
    switch (this.wire) {
      case VARINT:
        this.uint32(end);
        return;
      case FIXED64:
        this.#forward(8, end);
        return;
      case BYTES:
        this.at = this.sub(end);
        return;
      case FIXED32:
        this.#forward(4, end);
        return;
      case START_GROUP:
        this.#group(field, end, depth);
        return;
      default:
        throw malformed();
    }
  }

  #group(opened: number, end: number, depth: number): void {
    if (depth >= MAX_GROUPS) throw malformed();
    for (;;) {
      const field = this.tag(end);
      if (this.wire === END_GROUP) {
        if (field !== opened) throw malformed();
        return;
      }
      this.skip(field, end, depth + 1);
    }
  }

  #forward(count: number, end: number): void {
    if (this.at + count > end) throw malformed();
    this.at += count;
  }

  #cut(): never {
    throw malformed();
  }
}

/** Up to this length, decoding byte by byte is faster than a call into native code. */
const SHORT = 24;

/** Decodes UTF-8; takes half the time for short ASCII texts, such as the keys of limiters. */
export class ShortTextDecoder {
  /** One reusable list of code units for each length that there was. */
  readonly #units: (number[] | undefined)[] = [];

  text(bytes: Buffer, start: number, end: number): string {
    const length = end - start;
    if (length > SHORT) return bytes.toString("utf8", start, end);
    const units = this.#units[length] ?? this.#unitsOf(length);
    let all = 0;
    for (let at = 0; at < units.length; at++) {
      const byte = bytes[start + at] ?? 0;
      all |= byte;
      units[at] = byte;
    }
    return all > 0x7f ? bytes.toString("utf8", start, end) : String.fromCharCode(...units);
  }

  #unitsOf(length: number): number[] {
    const units = Array.from({ length }, () => 0);
    this.#units[length] = units;
    return units;
  }
}

/**
 * Text of raw header bytes: UTF-8 if valid, else ISO 8859-1, the historical charset of headers. The same word in either
 * charset becomes the same text, and no byte is lost to a replacement character.
 */
export function headerText(bytes: Buffer, start: number, end: number): string {
  const part = bytes.subarray(start, end);
  return isUtf8(part) ? part.toString("utf8") : part.toString("latin1");
}
