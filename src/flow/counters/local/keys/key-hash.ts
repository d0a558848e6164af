// Hash of keys: HalfSipHash-2-4 with a 64-bit result over UTF-16 code units (https://github.com/veorq/SipHash).
// Counters are stored by hash, not by text; without the seed nobody can find two texts that share a counter.

import type { Chance } from "#base/chance.ts";

const WORD = 4294967296;

export class KeyHash {
  /** Result of the last `of`, as two unsigned words; `lo` is never 0, which tables keep for "empty". */
  lo = 1;
  hi = 0;
  readonly #k0: number;
  readonly #k1: number;
  /** Text of the current result. */
  #text: string | undefined;

  constructor(k0: number, k1: number) {
    this.#k0 = k0 | 0;
    this.#k1 = k1 | 0;
  }

  static seeded(chance: Chance): KeyHash {
    return new KeyHash(Math.floor(chance() * WORD), Math.floor(chance() * WORD));
  }

  /** Hashes a text. Costs nothing if the text is the same as last time, as when many limiters share a key label. */
  of(text: string): void {
    if (text === this.#text) return;
    this.ofTail(text, 0);
    this.#text = text;
  }

  /** Sets the result to a hash that another process computed with the same seed. */
  set(lo: number, hi: number): void {
    this.#text = undefined;
    this.lo = lo;
    this.hi = hi;
  }

  /** Hashes `text` from the code unit `from` to its end. */
  ofTail(text: string, from: number): void {
    this.#text = undefined;
    const k0 = this.#k0;
    const k1 = this.#k1;
    const units = text.length - from;
    const blocks = units >>> 1;
    let v0 = k0;
    let v1 = k1 ^ 0xee;
    let v2 = 0x6c796765 ^ k0;
    let v3 = 0x74656462 ^ k1;
    // Blocks of two units, then the tail with the length in bytes, then twice the closing rounds.
    for (let step = 0; step < blocks + 3; step++) {
      let block = 0;
      let rounds = 2;
      if (step < blocks) {
        const at = from + step * 2;
        block = text.charCodeAt(at) | (text.charCodeAt(at + 1) << 16);
      } else if (step === blocks) {
        block = (units * 2) << 24;
        if ((units & 1) === 1) block |= text.charCodeAt(text.length - 1);
      } else {
        rounds = 4;
        if (step === blocks + 1) v2 ^= 0xee;
        else v1 ^= 0xdd;
      }
      v3 ^= block;
      for (let round = 0; round < rounds; round++) {
        v0 = (v0 + v1) | 0;
        v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
        v0 = (v0 << 16) | (v0 >>> 16);
        v2 = (v2 + v3) | 0;
        v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
        v0 = (v0 + v3) | 0;
        v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
        v2 = (v2 + v1) | 0;
        v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
        v2 = (v2 << 16) | (v2 >>> 16);
      }
      v0 ^= block;
      if (step === blocks + 1) this.lo = (v1 ^ v3) >>> 0 || 1;
    }
    this.hi = (v1 ^ v3) >>> 0;
  }
}
