// The error function, its complement and their inverses. Numbers in brackets are equations of the NIST
// Digital Library of Mathematical Functions (DLMF).

const TWO_BY_ROOT_PI = 2 / Math.sqrt(Math.PI);
/** From here on the complement is computed directly, because 1 - erf would lose precision. */
const TAIL = 2;
/** Beyond this the complement is below the smallest double. */
const UNDERFLOW = 27.5;

export function erf(x: number): number {
  if (Number.isNaN(x)) return Number.NaN;
  const size = Math.abs(x);
  return Math.sign(x) * (size < TAIL ? series(size) : 1 - tail(size));
}

export function erfc(x: number): number {
  if (Number.isNaN(x)) return Number.NaN;
  if (x >= TAIL) return tail(x);
  return x > -TAIL ? 1 - erf(x) : 2 - tail(-x);
}

/** Infinite at -1 and 1, NaN beyond. */
export function erfinv(y: number): number {
  const size = Math.abs(y);
  if (!(size <= 1)) return Number.NaN;
  if (size > 0.5) return Math.sign(y) * inverseOfTail(1 - size);
  let x = guess(Math.log1p(-size * size));
  for (let round = 0; round < 4; round++) x -= halley(series(x) - size, x);
  return Math.sign(y) * x;
}

/** Infinite at 0 and 2, NaN beyond. */
export function erfcinv(y: number): number {
  if (!(y >= 0 && y <= 2)) return Number.NaN;
  if (y < 0.5) return inverseOfTail(y);
  return y > 1.5 ? -inverseOfTail(2 - y) : erfinv(1 - y);
}

/** [7.6.2]: all terms are positive, so none cancel. For 0 <= x < 3. */
function series(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 1; term > sum * Number.EPSILON * 0.1; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return TWO_BY_ROOT_PI * Math.exp(-x * x) * sum;
}

/** The continued fraction [7.9.1], evaluated from its innermost level. For x >= 2; smaller x need more levels. */
function tail(x: number): number {
  if (x > UNDERFLOW) return 0;
  let below = x;
  for (let level = Math.ceil(20 + 320 / (x * x)); level > 0; level--) below = x + level / 2 / below;
  return Math.exp(-x * x) / (below * Math.sqrt(Math.PI));
}

/** The x at which the complement is `y`, for 0 <= y <= 0.5. */
function inverseOfTail(y: number): number {
  if (y === 0) return Number.POSITIVE_INFINITY;
  let x = guess(Math.log(y) + Math.log(2 - y));
  for (let round = 0; round < 12; round++) {
    const step = halley(y - erfc(x), x);
    x -= step;
    if (Math.abs(step) <= Number.EPSILON * x) break;
  }
  return x;
}

/** The step of Halley's method where the error function exceeds its target by `excess`. */
function halley(excess: number, x: number): number {
  const newton = excess / (TWO_BY_ROOT_PI * Math.exp(-x * x));
  return newton / (1 + x * newton);
}

/**
 * An estimate with three digits: erf(x)² is near 1 - exp(-x²(4/π + ax²)/(1 + ax²)) with a = 0.147 (S. Winitzki, "A handy
 * approximation for the error function and its inverse", 2008), solved for x.
 */
function guess(logOfRest: number): number {
  const a = 0.147;
  const half = 2 / (Math.PI * a) + logOfRest / 2;
  return Math.sqrt(Math.max(0, Math.sqrt(half * half - logOfRest / a) - half));
}
