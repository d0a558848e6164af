// Writes protobuf wire format into one growing buffer that is used again for the next message. Output is
// canonical: shortest varints, fields in the order they are written, defaults left out by the callers.

const FIRST_SIZE = 4096;

export class ProtoWriter {
  #bytes: Buffer = Buffer.allocUnsafeSlow(FIRST_SIZE);
  #at = 0;

  get length(): number {
    return this.#at;
  }

  reset(): void {
    this.#at = 0;
  }

  /** What was written: a view that is valid until the next write. */
  view(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }

  /** What was written, as a copy of its own. */
  copy(): Buffer {
    const copy = Buffer.allocUnsafe(this.#at);
    copy.set(this.view());
    return copy;
  }

  /** A tag, given as `number << 3 | wire type`. */
  tag(tag: number): void {
    this.uint32(tag);
  }

  uint32(value: number): void {
    this.#room(5);
    let rest = value >>> 0;
    while (rest > 0x7f) {
      this.#bytes[this.#at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    this.#bytes[this.#at++] = rest;
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
    this.#at = this.#bytes.writeDoubleLE(value, this.#at);
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

  /** Starts a nested message; give what it returns to `close`. */
  open(tag: number): number {
    this.uint32(tag);
    this.#room(1);
    return ++this.#at;
  }

  /** Ends a nested message: writes its length, moving the content when one byte is not enough for it. */
  close(start: number): void {
    const size = this.#at - start;
    if (size < 0x80) {
      this.#bytes[start - 1] = size;
      return;
    }
    const more = size < 0x4000 ? 1 : size < 0x200000 ? 2 : size < 0x10000000 ? 3 : 4;
    this.#room(more);
    this.#bytes.copyWithin(start + more, start, this.#at);
    this.#at = start - 1;
    this.uint32(size);
    this.#at += size;
  }

  #room(size: number): void {
    if (this.#at + size <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#bytes.length * 2, this.#at + size));
    larger.set(this.#bytes.subarray(0, this.#at));
    this.#bytes = larger;
  }
}

export function varintSize(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x200000) return 3;
  return value < 0x10000000 ? 4 : 5;
}
