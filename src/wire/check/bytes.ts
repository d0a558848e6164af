// Examines the bytes of requests four at a time, because every check examines its names and values. Offsets count from the
// start of the whole ArrayBuffer that holds a message.

/** A view of the whole ArrayBuffer behind `bytes`: `known` if it is that view, since messages of a connection often share one. */
export function memoryOf(bytes: Uint8Array, known: DataView): DataView {
  return known.buffer === bytes.buffer ? known : new DataView(bytes.buffer);
}

/** Longest message whose copy's memory is kept for the next one. */
const KEPT = 4096;
const SMALLEST = 1024;

/** A copy of a message, in memory that is used again for the next one. */
export class ReusedCopy {
  #memory = Buffer.alloc(0);

  /** The copy, which is valid until the next one is made. */
  of(bytes: Uint8Array): Buffer {
    const { length } = bytes;
    if (length > KEPT) return Buffer.from(bytes);
    if (length > this.#memory.length)
      this.#memory = Buffer.allocUnsafeSlow(length > SMALLEST ? KEPT : SMALLEST);
    this.#memory.set(bytes);
    return this.#memory.subarray(0, length);
  }
}

export function decodeText({ buffer, byteOffset }: DataView, start: number, end: number): string {
  return Buffer.from(buffer, byteOffset + start, end - start).toString("utf8");
}

/** True if `length` bytes are the same in both. */
export function equalBytes(
  one: DataView,
  oneStart: number,
  other: DataView,
  otherStart: number,
  length: number,
): boolean {
  const last = length - 4;
  if (last < 0) return equalFewBytes(one, oneStart, other, otherStart, length);
  // The last word may overlap the one before it.
  let different = one.getInt32(oneStart + last, true) ^ other.getInt32(otherStart + last, true);
  for (let at = 0; at < last; at += 4) {
    different |= one.getInt32(oneStart + at, true) ^ other.getInt32(otherStart + at, true);
  }
  return different === 0;
}

function equalFewBytes(
  one: DataView,
  oneStart: number,
  other: DataView,
  otherStart: number,
  length: number,
): boolean {
  for (let at = 0; at < length; at++) {
    if (one.getUint8(oneStart + at) !== other.getUint8(otherStart + at)) return false;
  }
  return true;
}

const NUL = 0x00;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const DELETE = 0x7f;
const PERCENT = 0x25;
const ZERO = 0x30;
const HIGH_BITS = 0x80808080;

/**
 * True if NUL, CR or LF is among the bytes, which are invalid in header values and paths (RFC 9110 §5.5). Only bytes
 * with a control character are examined one by one.
 */
export function hasInvalidByte(bytes: DataView, start: number, end: number): boolean {
  const last = end - 4;
  if (last < start) return hasInvalid(bytes, start, end);
  // The last word may overlap the one before it.
  let controls = belowSpace(bytes.getInt32(last, true));
  for (let at = start; at < last; at += 4) controls |= belowSpace(bytes.getInt32(at, true));
  return (controls & HIGH_BITS) !== 0 && hasInvalid(bytes, start, end);
}

/** The highest bit of a byte is set if the byte is below 0x20; it may also be set if one before it is. */
function belowSpace(word: number): number {
  return (word - 0x20202020) & ~word;
}

function hasInvalid(bytes: DataView, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = bytes.getUint8(at);
    if (byte === NUL || byte === LINE_FEED || byte === CARRIAGE_RETURN) return true;
  }
  return false;
}

/** True if any control character is among the bytes. For short texts: it examines one after another. */
export function hasControlByte(bytes: DataView, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = bytes.getUint8(at);
    if (byte < SPACE || byte === DELETE) return true;
  }
  return false;
}

/** True if `%00` is among the bytes: the escape of NUL, which cuts a path short in many services. */
export function hasEscapedNul(bytes: DataView, start: number, end: number): boolean {
  const last = end - 4;
  if (last < start) return findEscapedNul(bytes, start, end);
  let percents = zeroBytes(bytes.getInt32(last, true) ^ 0x25252525);
  for (let at = start; at < last; at += 4)
    percents |= zeroBytes(bytes.getInt32(at, true) ^ 0x25252525);
  return (percents & HIGH_BITS) !== 0 && findEscapedNul(bytes, start, end);
}

/** The highest bit of a byte is set if the byte is 0; it may also be set if one before it is. */
function zeroBytes(word: number): number {
  return (word - 0x01010101) & ~word;
}

function findEscapedNul(bytes: DataView, start: number, end: number): boolean {
  for (let at = start; at + 2 < end; at++) {
    if (bytes.getUint8(at) !== PERCENT) continue;
    if (bytes.getUint8(at + 1) === ZERO && bytes.getUint8(at + 2) === ZERO) return true;
  }
  return false;
}

const INVALID_TEXT = /[\0\r\n]/;

/** The same for text. */
export function isInvalidText(text: string): boolean {
  return INVALID_TEXT.test(text);
}

/** True if a control character is in the text, which is invalid in methods and names of headers (RFC 9110 §5.6.2). */
export function hasControl(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < SPACE || code === DELETE) return true;
  }
  return false;
}

export function isInvalidPathText(text: string): boolean {
  return INVALID_TEXT.test(text) || text.includes("%00");
}
