// Powers as control loops need them: whole exponents are products, so that a square is the exact square and
// slopes of 1 and -1 change nothing but the sign of the exponent. The engine's own power is off by a
// rounding now and then.

/** Beyond this a product gathers more roundings than the engine's power makes. */
const BY_PRODUCT = 32;

export function power(base: number, exponent: number): number {
  if (Number.isInteger(exponent) && Math.abs(exponent) <= BY_PRODUCT) {
    const product = whole(base, Math.abs(exponent));
    return exponent < 0 ? 1 / product : product;
  }
  if (Math.abs(exponent) === 0.5 && Number.isFinite(base)) {
    const root = Math.sqrt(base);
    return exponent < 0 ? 1 / root : root;
  }
  return base ** exponent;
}

/** By repeated squaring. */
function whole(base: number, exponent: number): number {
  let product = 1;
  let square = base;
  for (let left = exponent; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) product *= square;
    square *= square;
  }
  return product;
}
