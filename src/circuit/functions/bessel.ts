// Bessel functions of the first and second kind, orders 0 and 1. Numbers in brackets are equations of the
// NIST Digital Library of Mathematical Functions (DLMF). Three ranges: power series while their terms do not
// cancel, backward recurrence, and asymptotic series where they have full precision.

const EULER = 0.5772156649015329;
const SMALL = 2;
const LARGE = 25;

interface Four {
  readonly j0: number;
  readonly j1: number;
  readonly y0: number;
  readonly y1: number;
}

export function j0(x: number): number {
  return all(Math.abs(x)).j0;
}

export function j1(x: number): number {
  return x < 0 ? -all(-x).j1 : all(x).j1;
}

/** -Infinity at 0, NaN below. */
export function y0(x: number): number {
  return x === 0 ? Number.NEGATIVE_INFINITY : all(x).y0;
}

/** -Infinity at 0, NaN below. */
export function y1(x: number): number {
  return x === 0 ? Number.NEGATIVE_INFINITY : all(x).y1;
}

function all(x: number): Four {
  if (!(x >= 0)) return { j0: Number.NaN, j1: Number.NaN, y0: Number.NaN, y1: Number.NaN };
  if (x === Number.POSITIVE_INFINITY) return { j0: 0, j1: 0, y0: 0, y1: 0 };
  if (x <= SMALL) return bySeries(x);
  return x < LARGE ? byRecurrence(x) : byAsymptotics(x);
}

/** [10.2.2], [10.8.2] and [10.8.1] with n = 1. */
function bySeries(x: number): Four {
  const square = (-x * x) / 4;
  const logarithm = Math.log(x / 2) + EULER;
  let term = 1;
  let harmonic = 0;
  let [j0, j1, more0, more1] = [0, 0, 0, 0];
  for (let k = 0; k < 20; k++) {
    j0 += term;
    j1 += term / (k + 1);
    more0 -= term * harmonic;
    more1 += (term / (k + 1)) * (2 * harmonic + 1 / (k + 1));
    harmonic += 1 / (k + 1);
    term *= square / ((k + 1) * (k + 1));
  }
  j1 *= x / 2;
  return {
    j0,
    j1,
    y0: (2 / Math.PI) * (logarithm * j0 + more0),
    y1: (2 / Math.PI) * (logarithm * j1 - 1 / x - (x / 4) * more1),
  };
}

/**
 * Miller's algorithm [3.6(v)]: J(n) from a high order downwards, scaled by J(0) + 2J(2) + 2J(4) + … = 1
 * [10.12.4]. Y(0) is Neumann's series [10.8.3] over the same numbers, Y(1) its derivative.
 */
function byRecurrence(x: number): Four {
  let above = 0;
  let here = 1e-200;
  let [sum, series, slope] = [0, 0, 0];
  for (let n = 2 * Math.ceil((x + 40) / 2); n > 0; n--) {
    const below = ((2 * n) / x) * here - above;
    if (n % 2 === 0) {
      const sign = n % 4 === 0 ? 1 : -1;
      sum += 2 * here;
      series += (sign * here) / (n / 2);
      slope += (sign * (below - above)) / n;
    }
    above = here;
    here = below;
  }
  sum += here;
  const j0 = here / sum;
  const j1 = above / sum;
  const logarithm = Math.log(x / 2) + EULER;
  return {
    j0,
    j1,
    y0: (2 / Math.PI) * (logarithm * j0 - (2 * series) / sum),
    y1: (2 / Math.PI) * (logarithm * j1 - j0 / x + (2 * slope) / sum),
  };
}

/** Hankel's expansions [10.17.3], [10.17.4]. */
function byAsymptotics(x: number): Four {
  // Neither the product of π and x nor its inverse may leave the range of a double.
  const size = 1 / Math.sqrt(Math.PI) / Math.sqrt(x);
  const [cosine, sine] = [Math.cos(x), Math.sin(x)];
  const [p0, q0] = hankel(0, x);
  const [p1, q1] = hankel(1, x);
  // Sine and cosine of x - π/4 and x - 3π/4, times the root of 2, without subtracting from x.
  const [plus, minus] = [cosine + sine, sine - cosine];
  return {
    j0: size * (p0 * plus - q0 * minus),
    y0: size * (p0 * minus + q0 * plus),
    j1: size * (p1 * minus + q1 * plus),
    y1: size * (q1 * minus - p1 * plus),
  };
}

/** The two sums over a(k) [10.17.1], up to their smallest term. */
function hankel(order: number, x: number): readonly [number, number] {
  let [even, odd, term] = [0, 0, 1];
  for (let k = 0; k < 40 && Math.abs(term) > 1e-18; k++) {
    const sign = k % 4 < 2 ? 1 : -1;
    if (k % 2 === 0) even += sign * term;
    else odd += sign * term;
    term *= (4 * order * order - (2 * k + 1) ** 2) / (8 * (k + 1) * x);
  }
  return [even, odd];
}
