// Base64 as bytes, without strings in between. A `Fragment`, which is written again and again, remembers its Base64
// text for each offset within a group of three bytes, so that it is only copied.

const ALPHABET = Buffer.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");

/** The two digits of each number of twelve bits; the first digit is in the low byte. */
const PAIRS = Uint16Array.from(
  { length: 4_096 },
  (_, bits) => (ALPHABET[bits >>> 6] ?? 0) | ((ALPHABET[bits & 63] ?? 0) << 8),
);

const PAD = 0x3d;

/** Length of the padded Base64 text of `bytes` bytes. */
export function base64Length(bytes: number): number {
  return (((bytes + 2) / 3) | 0) * 4;
}

/** Encoded bytes that never change: a piece of many messages. */
export class Fragment {
  readonly bytes: Buffer;
  /** Base64 text of the whole groups of three bytes after the first 0, 1 or 2 bytes. */
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

/** A fragment with parts that differ from message to message. Callers change them in `bytes` before each use. */
export class Template extends Fragment {
  readonly #view: DataView;
  /** Start and end of each changing part. */
  readonly #holes: Int32Array;
  /** The texts of `aligned`. */
  readonly #texts: (DataView | undefined)[] = [undefined, undefined, undefined];

  /**
   * The fragment is the start of `memory`, up to `length`. At least one more byte must follow, because four bytes are read
   * at once.
   */
  constructor(memory: Buffer, length: number, holes: readonly number[]) {
    super(memory.subarray(0, length));
    this.#view = viewOf(memory);
    this.#holes = Int32Array.from(holes);
  }

  override aligned(skip: number): Buffer {
    const text = super.aligned(skip);
    const to = this.#texts[skip] ?? viewOf(text);
    this.#texts[skip] = to;
    const view = this.#view;
    const holes = this.#holes;
    for (let hole = 0; hole < holes.length; hole += 2) {
      const start = Math.max(0, (holes[hole] ?? 0) - skip);
      // The incomplete group at the end is not part of the text.
      const end = Math.min((text.length / 4) * 3, (holes[hole + 1] ?? 0) - skip);
      let at = ((start / 3) | 0) * 4;
      for (let next = skip + start - (start % 3); next < skip + end; next += 3) {
        const group = view.getInt32(next);
        const second = PAIRS[(group >>> 8) & 0xfff] ?? 0;
        to.setInt32(at, (PAIRS[group >>> 20] ?? 0) | (second << 16), true);
        at += 4;
      }
    }
    return text;
  }
}

/** Initial size: enough for most messages. */
const INITIAL_SIZE = 4_096;
/** Maximum size of a buffer that writers keep for the next message; larger ones are released. */
export const MAX_RETAINED_BYTES = 256 * 1024;

/**
 * Writes one text at a time in memory of its own, where all stores are aligned, and then copies it to its place. It is
 * reused for the next text and allocates nothing.
 */
export class Base64Writer {
  #text: Buffer = Buffer.allocUnsafeSlow(INITIAL_SIZE);
  #groups = viewOf(this.#text);
  #at = 0;
  /** The bytes of an incomplete group, and their number: 0 to 2. */
  #bits = 0;
  #open = 0;

  /** Starts a text of at most `length` characters. */
  begin(length: number): void {
    this.#at = 0;
    this.#open = 0;
    const had = this.#text.length;
    if (length > had) this.#renew(2 * length);
    else if (had > MAX_RETAINED_BYTES && length <= MAX_RETAINED_BYTES)
      this.#renew(Math.max(INITIAL_SIZE, 2 * length));
  }

  #renew(size: number): void {
    this.#text = Buffer.allocUnsafeSlow(size);
    this.#groups = viewOf(this.#text);
  }

  /** Encodes bytes. There must be at least one more byte in `from` after `end`, because it reads four at a time. */
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

  /** Ends the text with padding and copies it to `to`. */
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

/** A view of a buffer's memory, to load and store four bytes at once. */
export function viewOf({ buffer, byteOffset, byteLength }: Buffer): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
