// Base64 as bytes: no string is made on the way. What is written again and again (`Fragment`) keeps its
// encoded forms, one for each place in a group of three, so that it is only copied.

const ALPHABET = Buffer.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");

/** Both digits of twelve bits, the first in the low byte. */
const PAIRS = Uint16Array.from(
  { length: 4_096 },
  (_, bits) => (ALPHABET[bits >>> 6] ?? 0) | ((ALPHABET[bits & 63] ?? 0) << 8),
);

const PAD = 0x3d;

/** Length of the padded text of so many bytes. */
export function base64Length(bytes: number): number {
  return (((bytes + 2) / 3) | 0) * 4;
}

/** Encoded bytes that do not change, as a piece of messages around them. */
export class Fragment {
  readonly bytes: Buffer;
  /** Text of the whole groups that are left without the first 0, 1 or 2 bytes. */
  readonly #aligned: (Buffer | undefined)[] = [undefined, undefined, undefined];

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  aligned(skip: number): Buffer {
    const known = this.#aligned[skip];
    if (known !== undefined) return known;
    const rest = this.bytes.length - skip;
    const text = this.bytes.toString("base64", skip, skip + rest - (rest % 3));
    const made = Buffer.from(text, "latin1");
    this.#aligned[skip] = made;
    return made;
  }
}

/** Room for the texts of most messages. */
const FIRST_SIZE = 4_096;
/** Memory that writers keep for the next message: what one odd request needed beyond it is let go after it. */
export const MOST_KEPT = 256 * 1024;

/**
 * One text in the making, in memory of its own where whole groups can be stored at once; then copied to its
 * place. Used again for the next: nothing is allocated.
 */
export class Base64Writer {
  #text: Buffer = Buffer.allocUnsafeSlow(FIRST_SIZE);
  #groups = viewOf(this.#text);
  #at = 0;
  /** Bytes of an unfinished group, and how many there are: 0 to 2. */
  #bits = 0;
  #open = 0;

  /** Starts a text of at most so many bytes. */
  begin(length: number): void {
    this.#at = 0;
    this.#open = 0;
    const had = this.#text.length;
    if (length > had) this.#renew(2 * length);
    else if (had > MOST_KEPT && length <= MOST_KEPT) this.#renew(Math.max(FIRST_SIZE, 2 * length));
  }

  #renew(size: number): void {
    this.#text = Buffer.allocUnsafeSlow(size);
    this.#groups = viewOf(this.#text);
  }

  /** Needs a byte in `from` behind `end`, whatever it is. */
  bytes(from: DataView, start: number, end: number): void {
    let next = start;
    while (this.#open > 0 && next < end) this.#byte(from.getUint8(next++));
    const groups = this.#groups;
    let at = this.#at;
    for (; next + 3 <= end; next += 3) {
      const group = from.getInt32(next);
      const second = PAIRS[(group >>> 8) & 0xfff] ?? 0;
      groups.setInt32(at, (PAIRS[group >>> 20] ?? 0) | (second << 16), true);
      at += 4;
    }
    this.#at = at;
    while (next < end) this.#byte(from.getUint8(next++));
  }

  fragment(fragment: Fragment): void {
    const { bytes } = fragment;
    const skip = this.#open === 0 ? 0 : 3 - this.#open;
    const whole = Math.max(0, bytes.length - skip);
    const rest = whole % 3;
    for (let next = 0; next < bytes.length - whole; next++) this.#byte(bytes[next] ?? 0);
    if (whole >= 3) {
      const text = fragment.aligned(skip);
      this.#text.set(text, this.#at);
      this.#at += text.length;
    }
    for (let next = bytes.length - rest; next < bytes.length; next++) this.#byte(bytes[next] ?? 0);
  }

  /** Ends the text, padded, and copies it to its place. */
  end(to: Uint8Array, at: number): void {
    const open = this.#open;
    if (open > 0) {
      this.#byte(0);
      if (open === 1) this.#byte(0);
      this.#text[this.#at - 1] = PAD;
      if (open === 1) this.#text[this.#at - 2] = PAD;
    }
    this.#text.copy(to, at, 0, this.#at);
  }

  #byte(byte: number): void {
    const group = (this.#bits << 8) | byte;
    this.#bits = group;
    this.#open += 1;
    if (this.#open < 3) return;
    const second = PAIRS[group & 0xfff] ?? 0;
    this.#groups.setInt32(this.#at, (PAIRS[(group >>> 12) & 0xfff] ?? 0) | (second << 16), true);
    this.#at += 4;
    this.#open = 0;
  }
}

/** The same memory, to read and store four bytes at once. */
export function viewOf({ buffer, byteOffset, byteLength }: Buffer): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
