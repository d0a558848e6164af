// Decodes the Huffman code of RFC 7541 §5.2. The code is canonical (ordered by length, then by symbol), so the code
// lengths of appendix B define it completely.

/**
 * Bits decoded by one table look-up. Letters, digits and most punctuation have codes of at most this length, so that
 * hostile input costs one step per symbol, not per bit.
 */
export const PEEK = 10;
const LONGEST = 30;
/** End of the code; inside a string it is an error. */
const EOS = 256;

/** Length in bits of the code of each symbol, 0 to 255. */
const LENGTHS: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
  28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5,
  6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6,
  7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23,
  23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22,
  22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22,
  23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27,
  27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25,
  24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

interface Code {
  /** Indexed by the next PEEK bits: symbol × 16 + code length; 0 if the code is longer. */
  readonly quick: Uint16Array;
  /** Symbols in order of their codes. */
  readonly symbols: Uint16Array;
  /** Indexed by code length: the first code, the number of codes, and the index of their first symbol. */
  readonly first: Int32Array;
  readonly count: Int32Array;
  readonly begin: Int32Array;
}

/** Never modified after its creation. */
const CODE: Code = makeCode();

function makeCode(): Code {
  const quick = new Uint16Array(1 << PEEK);
  const symbols = new Uint16Array(LENGTHS.length);
  const first = new Int32Array(LONGEST + 1);
  const count = new Int32Array(LONGEST + 1);
  const begin = new Int32Array(LONGEST + 1);
  let code = 0;
  let placed = 0;
  for (let length = 1; length <= LONGEST; length++) {
    code *= 2;
    first[length] = code;
    begin[length] = placed;
    for (let symbol = 0; symbol < LENGTHS.length; symbol++) {
      if (LENGTHS[symbol] !== length) continue;
      const spare = PEEK - length;
      if (spare >= 0) quick.fill(symbol * 16 + length, code << spare, (code + 1) << spare);
      symbols[placed++] = symbol;
      code++;
    }
    count[length] = placed - (begin[length] ?? 0);
  }
  return { quick, symbols, first, count, begin };
}

/** The largest decoded size of this many coded bytes: no code is shorter than five bits. */
export function decodedRoom(coded: number): number {
  return ((coded * 8) / 5) >>> 0;
}

/**
 * Decodes `bytes[start, end)` into `into`, which must have `decodedRoom`. Returns the decoded length, or -1 for
 * what §5.2 forbids: EOS, or padding that is longer than seven bits or not all ones.
 */
export function decodeHuffman(
  bytes: Uint8Array,
  start: number,
  end: number,
  into: Uint8Array,
): number {
  const { quick } = CODE;
  let at = start;
  let length = 0;
  /** The last `bits` bits are still to be decoded; higher bits have been used. */
  let window = 0;
  let bits = 0;
  for (;;) {
    while (bits <= 16 && at < end) {
      window = (window << 8) | (bytes[at++] ?? 0);
      bits += 8;
    }
    // Fewer than eight bits are only left at the end of the string, and up to seven ones are padding.
    if (bits < 8 && (~window & ((1 << bits) - 1)) === 0) return length;
    const next = bits >= PEEK ? window >>> (bits - PEEK) : window << (PEEK - bits);
    const entry = quick[next & ((1 << PEEK) - 1)] ?? 0;
    const taken = entry & 15;
    if (taken !== 0) {
      if (taken > bits) return -1;
      bits -= taken;
      into[length++] = entry >> 4;
      continue;
    }
    const position = at * 8 - bits;
    const long = longCode(bytes, position, end);
    if (long === -1) return -1;
    into[length++] = long & 255;
    const behind = position + (long >> 8);
    at = behind >> 3;
    window = 0;
    bits = 0;
    if ((behind & 7) !== 0) {
      window = bytes[at++] ?? 0;
      bits = 8 - (behind & 7);
    }
  }
}

/** Decodes the code at a bit position: code length × 256 + symbol; -1 for EOS or a truncated code. */
function longCode(bytes: Uint8Array, position: number, end: number): number {
  const { first, count, begin, symbols } = CODE;
  let code = 0;
  for (let length = 1; length <= LONGEST; length++, position++) {
    if (position >> 3 >= end) return -1;
    code = (code << 1) | (((bytes[position >> 3] ?? 0) >> (7 - (position & 7))) & 1);
    const nth = code - (first[length] ?? 0);
    if (nth < 0 || nth >= (count[length] ?? 0)) continue;
    const symbol = symbols[(begin[length] ?? 0) + nth] ?? EOS;
    return symbol === EOS ? -1 : length * 256 + symbol;
  }
  return -1;
}
