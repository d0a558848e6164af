// Randomness as an argument: samplers draw from it, and ids and seeds are made from it. The real source is in
// `runtime`; tests and simulations use a seeded one.

/** Returns a number drawn uniformly from [0, 1). */
export type Chance = () => number;

const HEX: readonly string[] = Array.from({ length: 256 }, (_, byte) =>
  byte.toString(16).padStart(2, "0"),
);

function byte(chance: Chance): number {
  return Math.floor(chance() * 256);
}

/** A version 4 UUID (RFC 9562 §5.4), made from sixteen draws. */
export function uuid(chance: Chance): string {
  let text = "";
  for (let at = 0; at < 16; at++) {
    if (at === 4 || at === 6 || at === 8 || at === 10) text += "-";
    const drawn = byte(chance);
    text += HEX[at === 6 ? (drawn & 0x0f) | 0x40 : at === 8 ? (drawn & 0x3f) | 0x80 : drawn];
  }
  return text;
}

/** A repeatable sequence for tests and simulations: the mulberry32 generator with a 32-bit seed. */
export function seededChance(seed: number): Chance {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
