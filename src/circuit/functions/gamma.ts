// The gamma function and the logarithm of its absolute value. Numbers in brackets are equations of the NIST Digital
// Library of Mathematical Functions (DLMF).

const EULER = 0.5772156649015329;
/** Riemann's zeta function minus 1 at 2, 3, …: coefficients of [5.7.3]. */
const ZETA_LESS_ONE: readonly number[] = [
  0.6449340668482264, 0.2020569031595943, 0.08232323371113819, 0.03692775514336993,
  0.01734306198444914, 0.008349277381922827, 0.00407735619794434, 0.0020083928260822143,
  0.0009945751278180853, 0.0004941886041194645, 0.0002460865533080483, 0.00012271334757848915,
  6.124813505870483e-5, 3.058823630702049e-5, 1.528225940865187e-5, 7.637197637899763e-6,
  3.81729326499984e-6, 1.908212716553939e-6, 9.539620338727962e-7, 4.769329867878064e-7,
  2.38450502727733e-7, 1.1921992596531106e-7, 5.960818905125948e-8, 2.980350351465228e-8,
  1.4901554828365043e-8, 7.45071178983543e-9, 3.725334024788457e-9, 1.862659723513049e-9,
];
/** B(2k) / (2k(2k - 1)) for k = 1, 2, … of Stirling's series [5.11.1]. */
const STIRLING: readonly number[] = [
  1 / 12,
  -1 / 360,
  1 / 1260,
  -1 / 1680,
  1 / 1188,
  -691 / 360360,
  1 / 156,
];
/** From here on Stirling's series has full precision. */
const LARGE = 15;
const LAST_WHOLE = 171;

/** NaN at negative integers and -Infinity, infinite at 0. */
export function gamma(x: number): number {
  if (x === 0) return 1 / x;
  if (x === Number.POSITIVE_INFINITY) return x;
  if (Number.isInteger(x) && x > 0) return x > LAST_WHOLE ? Number.POSITIVE_INFINITY : product(x);
  if (!Number.isFinite(x) || Number.isInteger(x)) return Number.NaN;
  if (x > 2 * LARGE) return stirling(x);
  if (x > 0) return product(x);
  // Reflection formula [5.5.3], by logarithms where gamma(1 - x) is too large for a double.
  const sine = sineOfPi(x);
  if (x > -150) return Math.PI / (sine * gamma(1 - x));
  return Math.sign(sine) * Math.exp(lgamma(x));
}

/** Infinite at 0 and negative integers; -Infinity at -Infinity. */
export function lgamma(x: number): number {
  if (!Number.isFinite(x)) return x;
  if (x <= 0) {
    if (Number.isInteger(x)) return Number.POSITIVE_INFINITY;
    return Math.log(Math.PI / Math.abs(x * sineOfPi(x))) - lgamma(-x);
  }
  if (x < 0.5) return lgammaFromTwo(x) - Math.log1p(x) - Math.log(x);
  if (x < 1.5) return lgammaFromTwo(x - 1) - Math.log1p(x - 1);
  if (x < 2.5) return lgammaFromTwo(x - 2);
  if (x >= LARGE) {
    return (x - 0.5) * Math.log(x) - x + Math.log(2 * Math.PI) / 2 + correction(x);
  }
  let factors = 1;
  let rest = x;
  for (; rest >= 2.5; rest -= 1) factors *= rest - 1;
  return Math.log(factors) + lgammaFromTwo(rest - 2);
}

/** The logarithm of gamma(2 + w) by [5.7.3], for -0.5 <= w <= 0.5. Exact at its zeros. */
function lgammaFromTwo(w: number): number {
  let sum = 0;
  for (let at = ZETA_LESS_ONE.length - 1; at >= 0; at--) {
    sum = (ZETA_LESS_ONE[at] ?? 0) / (at + 2) - w * sum;
  }
  return w * (1 - EULER) + w * w * sum;
}

/** By recurrence [5.5.1] from the value between 1.5 and 2.5. For x > 0; exact for small integers. */
function product(x: number): number {
  let factors = 1;
  let rest = x;
  for (; rest > 2.5; rest -= 1) factors *= rest - 1;
  for (; rest < 1.5; rest += 1) factors /= rest;
  return factors * Math.exp(lgammaFromTwo(rest - 2));
}

/** [5.11.3]. The power is split in two halves, because it would overflow before the result does. */
function stirling(x: number): number {
  const half = x ** (x / 2 - 0.25);
  return Math.sqrt(2 * Math.PI) * half * Math.exp(-x) * half * Math.exp(correction(x));
}

function correction(x: number): number {
  let sum = 0;
  for (let at = STIRLING.length - 1; at >= 0; at--) sum = sum / (x * x) + (STIRLING[at] ?? 0);
  return sum / x;
}

/** sin(πx); whole periods are subtracted before multiplying by π. */
function sineOfPi(x: number): number {
  const rest = x - 2 * Math.round(x / 2);
  return Math.sin(Math.PI * (Math.abs(rest) > 0.5 ? Math.sign(rest) - rest : rest));
}
