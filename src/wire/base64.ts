// Base64 written straight into a buffer: no text is made on the way. Bytes that are written again and again
// (`Fragment`) keep their encoded forms, one for each place in a group of three, so that they are only copied.

const ALPHABET = Buffer.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");

/** Both digits of twelve bits, the first in the low byte. */
const PAIRS = Uint16Array.from(
  { length: 4_096 },
  (_, bits) => (ALPHABET[bits >>> 6] ?? 0) | ((ALPHABET[bits & 63] ?? 0) << 8),
);

const PAD = 0x3d;

/** Length of the padded text of so many bytes. */
export function base64Length(bytes: number): number {
  return Math.ceil(bytes / 3) * 4;
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

/** One text in the making. Used again for the next: nothing is allocated. */
export class Base64Writer {
  #to: Uint8Array = ALPHABET;
  #at = 0;
  /** Bytes of an unfinished group, and how many there are: 0 to 2. */
  #bits = 0;
  #open = 0;

  /** From here on everything is written to `to`, which must have room for all of it. */
  begin(to: Uint8Array, at: number): void {
    this.#to = to;
    this.#at = at;
    this.#open = 0;
  }

  bytes(from: Uint8Array, start: number, end: number): void {
    let next = start;
    while (this.#open > 0 && next < end) this.#byte(from[next++] ?? 0);
    const to = this.#to;
    let at = this.#at;
    for (; next + 3 <= end; next += 3) {
      const low = (from[next + 1] ?? 0) << 8;
      const group = ((from[next] ?? 0) << 16) | low | (from[next + 2] ?? 0);
      const first = PAIRS[group >>> 12] ?? 0;
      const second = PAIRS[group & 0xfff] ?? 0;
      to[at] = first;
      to[at + 1] = first >>> 8;
      to[at + 2] = second;
      to[at + 3] = second >>> 8;
      at += 4;
    }
    this.#at = at;
    while (next < end) this.#byte(from[next++] ?? 0);
  }

  fragment(fragment: Fragment): void {
    const { bytes } = fragment;
    const skip = this.#open === 0 ? 0 : 3 - this.#open;
    if (bytes.length < skip + 3) {
      this.bytes(bytes, 0, bytes.length);
      return;
    }
    for (let next = 0; next < skip; next++) this.#byte(bytes[next] ?? 0);
    const text = fragment.aligned(skip);
    this.#to.set(text, this.#at);
    this.#at += text.length;
    const rest = (bytes.length - skip) % 3;
    for (let next = bytes.length - rest; next < bytes.length; next++) this.#byte(bytes[next] ?? 0);
  }

  /** Writes what is open, padded. Where the text ends. */
  end(): number {
    const open = this.#open;
    if (open === 0) return this.#at;
    this.#byte(0);
    if (open === 1) this.#byte(0);
    const at = this.#at;
    this.#to[at - 1] = PAD;
    if (open === 1) this.#to[at - 2] = PAD;
    return at;
  }

  #byte(byte: number): void {
    const group = (this.#bits << 8) | byte;
    this.#bits = group;
    this.#open += 1;
    if (this.#open < 3) return;
    const first = PAIRS[(group >>> 12) & 0xfff] ?? 0;
    const second = PAIRS[group & 0xfff] ?? 0;
    const at = this.#at;
    const to = this.#to;
    to[at] = first;
    to[at + 1] = first >>> 8;
    to[at + 2] = second;
    to[at + 3] = second >>> 8;
    this.#at = at + 4;
    this.#open = 0;
  }
}
